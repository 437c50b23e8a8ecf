// A worker that says what environment it has, and nothing else. It needs no devices, so that it runs where there are none.
import fs from 'node:fs';

const say = (frame) => fs.writeSync(3, `${JSON.stringify(frame)}\n`);
say({ type: 'hello', rank: Number(process.env.RANK), pid: process.pid, tsxla: '0', protocol: 1 });
console.log(`environment ${JSON.stringify(process.env)}`);
await new Promise((resolve) => setTimeout(resolve, Number(process.env.STAY ?? 0)));
say({ type: 'done' });
