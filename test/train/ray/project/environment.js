// A worker that says what environment it has, and stays until the file STAY is there. It needs no devices, so that it runs where
// there are none.
import fs from 'node:fs';

const say = (frame) => fs.writeSync(3, `${JSON.stringify(frame)}\n`);
say({ type: 'hello', rank: Number(process.env.RANK), pid: process.pid, tsxla: '0', protocol: 1 });
console.log(`environment ${JSON.stringify(process.env)}`);
while (process.env.STAY && !fs.existsSync(process.env.STAY)) await new Promise((resolve) => setTimeout(resolve, 50));
say({ type: 'done' });
