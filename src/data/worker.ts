// The worker thread of a DataLoader.
import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../base/thrown.js';
import { type Answer, parcel, type Task, type WorkerData } from './workers.js';

const { module, data } = workerData as WorkerData;
type Transform = (item: unknown, index: number, data: unknown) => unknown;

const TSX = 'tsx/esm/api'; // the program's own: no dependency of ours
/** Node 20 reads no TypeScript; tsx does, if the program has it, but its loader does not reach into threads by itself. */
async function importModule(): Promise<{ transform?: Transform }> {
  if (/\.[mc]?tsx?$/.test(module) && !(process.features as { typescript?: unknown }).typescript) {
    const tsx = await import(TSX).catch(() => {
      throw new Error('this version of Node cannot import TypeScript: write the module in JavaScript, or install tsx');
    });
    tsx.register();
  }
  return import(module);
}

const imported = importModule().then((m) => {
  if (typeof m.transform === 'function') return m.transform;
  throw new Error(`it exports no function named transform (it has: ${Object.keys(m).join(', ') || 'nothing'})`);
});
imported.catch(() => {}); // said with the first task

async function answer({ id, items, indices }: Task): Promise<void> {
  let at = 0;
  try {
    const transform = await imported;
    const results: unknown[] = [];
    for (; at < items.length; at++) results.push(await transform(items[at], indices[at]!, data));
    const { tree, transfer } = parcel(results, true);
    parentPort!.postMessage({ id, items: tree } as Answer, transfer);
  } catch (e) {
    parentPort!.postMessage({
      id,
      error: messageOf(e),
      index: indices[Math.min(at, indices.length - 1)]!,
    } satisfies Answer);
  }
}

let last = Promise.resolve(); // one at a time
parentPort!.on('message', (task: Task) => void (last = last.then(() => answer(task))));
