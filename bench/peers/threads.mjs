// Gives jax-js the threads that it has in a browser: workers made from the text of a blob. Node has neither, so they are made
// of Node's own. node --import ./threads.mjs jaxjs_step.mjs
import os from 'node:os';
import { Worker } from 'node:worker_threads';

const texts = new Map();
globalThis.Blob = class extends Blob {
  constructor(parts, options) {
    super(parts, options);
    this.text = parts.join('');
  }
};
URL.createObjectURL = (blob) => {
  const url = `blob:${texts.size}`;
  texts.set(url, blob.text);
  return url;
};
URL.revokeObjectURL = () => {};
const PRELUDE = `const { parentPort } = require('worker_threads');
globalThis.self = globalThis;
globalThis.postMessage = (message) => parentPort.postMessage(message);
parentPort.on('message', (data) => self.onmessage({ data }));
`;
globalThis.Worker = class {
  constructor(url) {
    this.worker = new Worker(PRELUDE + texts.get(url), { eval: true });
    this.worker.on('message', (data) => this.onmessage?.({ data }));
    this.worker.on('error', (error) => this.onerror?.(error));
  }
  postMessage(message) {
    this.worker.postMessage(message);
  }
};
globalThis.navigator ??= { hardwareConcurrency: os.availableParallelism() };
