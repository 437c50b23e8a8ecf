// Loads a model and prints what it took: node load-memory.mjs FOLDER OPTIONS. Run by load.test.ts in a process of its own.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';

const kB = (name) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(readFileSync('/proc/self/status', 'utf8'))[1]);
await tx.ones([2]).sum().item(); // what XLA itself needs
const before = kB('VmRSS');
const model = await tx.models.Qwen3ForCausalLM.fromPretrained(process.argv[2], JSON.parse(process.argv[3]));
const bytes = { f32: 4, bf16: 2 };
const size = model.parameters().reduce((n, p) => n + p.numel() * bytes[p.dtype], 0);
const compiles = tx.metrics.counter('UncachedCompile');
console.log(
  JSON.stringify({ size, peak: (kB('VmHWM') - before) * 1024, after: (kB('VmRSS') - before) * 1024, compiles }),
);
