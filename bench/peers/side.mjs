// What the JavaScript sides share: the model of the folder they are given, and the turns that bench/cpu.ts calls.
import { readFileSync } from 'node:fs';
import readline from 'node:readline';

/** The weights by name, and the ids and targets [B, T]. */
export function readModel(folder = process.argv[2]) {
  const read = (name) => {
    const { buffer, byteOffset, byteLength } = readFileSync(`${folder}/${name}`);
    return buffer.slice(byteOffset, byteOffset + byteLength);
  };
  const model = JSON.parse(readFileSync(`${folder}/model.json`, 'utf8'));
  const all = new Float32Array(read('weights.f32'));
  let at = 0;
  const weights = model.shapes.map(([name, shape]) => {
    const data = all.slice(at, (at += shape.reduce((a, b) => a * b)));
    return [name, { shape, data }];
  });
  const { B, T } = model;
  const tokens = new Int32Array(read('tokens.i32'));
  const shifted = (by) =>
    Int32Array.from({ length: B * T }, (_, i) => tokens[Math.floor(i / T) * (T + 1) + (i % T) + by]);
  return { ...model, weights: Object.fromEntries(weights), ids: shifted(0), targets: shifted(1) };
}

/**
 * Says what it is, then reads lines {steps, seconds} and answers each with the losses and milliseconds of that many steps,
 * or of fewer when the seconds are over, and with the processor seconds they took. `step` gives the loss as a number:
 * the step is done then.
 */
export async function takeTurns(name, step) {
  console.log(JSON.stringify({ name }));
  for await (const line of readline.createInterface(process.stdin)) {
    const { steps, seconds } = JSON.parse(line);
    const [losses, ms] = [[], []];
    const [start, cpu] = [performance.now(), process.cpuUsage()];
    while (ms.length < steps && performance.now() - start < seconds * 1e3) {
      const before = performance.now();
      losses.push(await step());
      ms.push(performance.now() - before);
    }
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ losses, ms, cpu: (user + system) / 1e6 }));
  }
  process.exit();
}
