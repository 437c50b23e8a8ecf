// A worker that speaks the engine's language and nothing else: raw-worker.mjs NAME. One line of JSON is a frame, on file 3; file 4
// answers.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const [rank, name] = [Number(process.env.RANK), process.argv[2]];
const { storage } = JSON.parse(fs.readFileSync(process.env.TSXLA_TRAIN_SPEC, 'utf8'));
const answers = new net.Socket({ fd: 4 });
const next = () => new Promise((resolve) => answers.once('data', resolve));
const send = (frame, data = '') => fs.writeSync(3, `${JSON.stringify(frame)}\n${data}`);
const hello = (protocol = 1) => send({ type: 'hello', tsxla: '0.0.1', protocol });
const mean = (id, count) =>
  send({ type: 'reduce', id, op: 'mean', what: 'averageGradients', bytes: 4 * count }, '\0'.repeat(4 * count));
const end = () => {
  send({ type: 'done' });
  process.exit(0);
};
/** Until the file of the test is there. */
const told = async () => {
  while (!fs.existsSync(process.env.TOLD_FILE)) await new Promise((resolve) => setTimeout(resolve, 10));
};
/** A folder with one file. */
const folder = (file) => {
  const made = path.join(storage, '..', `of-${rank}`);
  fs.mkdirSync(made, { recursive: true });
  fs.writeFileSync(path.join(made, file), 'x');
  return made;
};

if (name === 'leaves') process.exit(0);
hello(name === 'older' ? 0 : 1);
const CASES = {
  async exits() {
    send({ type: 'report', id: 2, metrics: { step: 1 }, checkpoint: null });
    send({ type: 'barrier', id: 1 }); // both have reported
    await next();
    if (rank) process.exit(17);
    await next();
  },
  async throws() {
    if (rank) send({ type: 'error', name: 'RangeError', message: 'no such row', stack: 'at line 1' });
    await next();
  },
  async sizes() {
    mean(1, rank ? 4 : 3);
    await next();
  },
  async kinds() {
    if (rank) send({ type: 'barrier', id: 1 });
    else mean(1, 3);
    await next();
  },
  async fewer() {
    for (const id of rank ? [1] : [1, 3]) {
      mean(id, 3);
      await next();
    }
    end();
  },
  async babbles() {
    fs.writeSync(3, 'hello, engine\n');
    await next();
  },
  /** Each has a part of one checkpoint. */
  async parts() {
    setTimeout(() => send({ type: 'report', id: 2, metrics: { rank }, checkpoint: folder(`part-${rank}`) }), 50 * rank);
    await next();
    end();
  },
  /** Only worker 0 reports, and the other waits for it in something else. */
  async first() {
    if (!rank) {
      send({ type: 'report', id: 2, metrics: { loss: 'NaN' }, checkpoint: folder('own') });
      await next();
    }
    send({ type: 'barrier', id: 1 });
    await next();
    end();
  },
  /** The GPUs that it is given. */
  async gpus() {
    const file = `gpus ${process.env.CUDA_VISIBLE_DEVICES}`;
    send({ type: 'report', id: 2, metrics: {}, checkpoint: folder(file) });
    await next();
    end();
  },
  /** The token that it is given. */
  async token() {
    send({ type: 'report', id: 2, metrics: {}, checkpoint: folder(`${rank} ${process.env.TSXLA_RENDEZVOUS_TOKEN}`) });
    await next();
    end();
  },
  /** The other one is late, until the test has seen that this is said: to its end, to the report of a checkpoint. */
  async late() {
    if (rank) await told();
    end();
  },
  async waits() {
    if (rank) await told();
    mean(1, 3);
    await next();
    end();
  },
  async reports() {
    if (rank) await told();
    send({ type: 'report', id: 2, metrics: {}, checkpoint: folder('part') });
    await next();
    end();
  },
  async older() {
    await next();
  },
};
await CASES[name]();
