// Measures the cost of tracing: tracing and hashing n nodes, and writing them as StableHLO. npm run bench:trace
import { type Tensor, tensor } from 'tsxla';
import { collect, hashOf, structure } from '../dist/ir/graph.js';
import { captureSources } from '../dist/ir/source.js';
import { emitModule } from '../dist/stablehlo/emitter.js';

const x = tensor([
  [0.1, 0.2],
  [0.3, 0.4],
]);
const parameters = [x.expr];

function measure(n: number): { trace: number; key: number; emit: number } {
  const t0 = performance.now();
  let y: Tensor = x;
  for (let i = 0; i < n; i++) y = i % 2 ? y.tanh() : y.add(x);
  const t1 = performance.now();
  const graph = collect([y.expr]);
  hashOf(structure(graph));
  const t2 = performance.now();
  emitModule(graph, parameters);
  return { trace: t1 - t0, key: t2 - t1, emit: performance.now() - t2 };
}

console.log('nodes    sources   trace + key            emit');
for (const sources of [true, false]) {
  captureSources(sources);
  for (const n of [1000, 10_000, 100_000]) {
    const runs = Array.from({ length: n > 10_000 ? 3 : 9 }, () => measure(n));
    const best = (key: 'trace' | 'key' | 'emit') => Math.min(...runs.map((r) => r[key]));
    const per = (ms: number) => `${ms.toFixed(1)} ms (${((ms / n) * 1000).toFixed(2)} us a node)`;
    console.log(
      `${String(n).padEnd(8)} ${String(sources).padEnd(8)}  ${per(best('trace') + best('key')).padEnd(28)} ${per(best('emit'))}`,
    );
  }
}
