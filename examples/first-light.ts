// The smallest complete example: a training step written in StableHLO, compiled once by XLA and run thousands of times.
// npx tsx examples/first-light.ts
import { readFileSync } from 'node:fs';
import { openClient } from 'tsxla';
import type { Buffer } from 'tsxla/pjrt';
import { plot } from './plot.js';

const N = 256;
const HIDDEN = 64;
const STEPS = 6000;

const { client, plugin } = await openClient('auto');
const device = client.defaultDevice;
console.log(`device    ${device}, ${plugin.package ?? plugin.path} ${plugin.version ?? ''}`);

const started = performance.now();
const train = await client.compile(readFileSync(new URL('./sine.mlir', import.meta.url), 'utf8'));
const { inputs, outputs, aliases } = train;
console.log(
  `compiled  in ${Math.round(performance.now() - started)} ms: ${inputs.length} inputs, ${outputs.length} outputs, ` +
    `${aliases.length} donated, ${Math.round(train.memory().temporaries / 1024)} KiB of temporaries`,
);

const upload = (shape: number[], value: (i: number) => number): Buffer =>
  client.bufferFromHost(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => value(i)),
    { dtype: 'f32', shape },
  );
const x = upload([N, 1], (i) => (i / (N - 1)) * 2 * Math.PI - Math.PI);
const y = upload([N, 1], (i) => Math.sin((i / (N - 1)) * 2 * Math.PI - Math.PI));
const rate = upload([], () => 0.01);
let parameters = [
  upload([1, HIDDEN], (i) => Math.cos(i * 12.9898)), // any spread of initial values works
  upload([HIDDEN], (i) => 2 * Math.sin(i * 78.233)),
  upload([HIDDEN, 1], (i) => Math.cos(i * 37.719) / 8),
  upload([1], () => 0),
];

let loss = Number.NaN;
let fit = new Float32Array(N);
const start = performance.now();
for (let step = 0; step <= STEPS; step++) {
  const { outputs: results, done } = train.execute([...parameters, x, y, rate]);
  parameters = results.slice(0, 4); // the old ones were donated
  const [lossBuffer, fitBuffer] = results.slice(4) as [Buffer, Buffer];
  if (step % 32 === 0) await done; // a few steps in flight keep the device busy; thousands would only fill memory
  if (step % 1000 === 0) {
    loss = Number((await lossBuffer.toHost())[0]);
    fit = await fitBuffer.toHost<Float32Array<ArrayBuffer>>();
    console.log(`step ${String(step).padStart(4)} loss ${loss.toFixed(6)}`);
  }
  lossBuffer.dispose();
  fitBuffer.dispose();
}
const elapsed = performance.now() - start;
console.log(`${STEPS} steps in ${(elapsed / 1000).toFixed(2)} s, ${((elapsed / STEPS) * 1000).toFixed(0)} us each`);
console.log(plot(fit));
console.log(`alive     ${client.live.buffers} buffers: 4 parameters, x, y and the learning rate`);
if (!(loss < 0.01)) throw new Error(`the network did not learn: loss ${loss}`);
