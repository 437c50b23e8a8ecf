// A graph is built, printed, hashed and lowered without a runtime; its tables do not grow without bound.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Interner } from '../../dist/base/intern.js';

const root = path.resolve(import.meta.dirname, '../..');
/** What a script prints that has the modules of the graph alone. */
const alone = (script: string): unknown =>
  JSON.parse(
    execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', script], {
      cwd: root,
      encoding: 'utf8',
    }),
  );

test('a graph is hashed and lowered without a runtime', () => {
  const { equal, other, text, records } = alone(`
    const { Aval } = await import('./dist/ir/aval.js');
    const { collect, hashOf, structure } = await import('./dist/ir/graph.js');
    const { input } = await import('./dist/ops/prim/variable.js');
    const { matmul, mul, tanh } = await import('./dist/ops/index.js');
    const { emitModule } = await import('./dist/stablehlo/emitter.js');
    const make = (n) => {
      const [x, w] = [input(Aval.of('f32', [2, 3])), input(Aval.of('f32', [3, n]))];
      const graph = collect([tanh(mul(matmul(x, w), 2))], (e) => e === x || e === w);
      return { graph, x, w, hash: hashOf(structure(graph, (e) => e === x || e === w)) };
    };
    const [a, b, c] = [make(4), make(4), make(5)];
    const text = emitModule(a.graph, [a.x, a.w], { name: 'f', aliases: [], platform: 'cpu' });
    const records = a.graph.nodes.filter((e) => e.record !== undefined).length;
    console.log(JSON.stringify({ equal: a.hash === b.hash, other: a.hash === c.hash, text, records }));
  `) as { equal: boolean; other: boolean; text: string; records: number };
  expect(equal).toBe(true);
  expect(other).toBe(false);
  expect(records).toBe(0);
  expect(text).toContain('stablehlo.dot_general');
  expect(text).toContain('tensor<2x4xf32>');
});

test('a number that changes at every step leaves no signature behind', () => {
  const { most, left } = alone(`
    const { Aval } = await import('./dist/ir/aval.js');
    const { signatureCount } = await import('./dist/ir/expr.js');
    const { input } = await import('./dist/ops/prim/variable.js');
    const { collect, structure } = await import('./dist/ir/graph.js');
    const { mul } = await import('./dist/ops/index.js');
    const x = input(Aval.of('f32', [2]));
    let most = 0;
    for (let i = 0; i < 50_000; i++) {
      structure(collect([mul(x, i)]));
      if (i % 10_000 === 0) {
        for (let k = 0; k < 3; k++) {
          globalThis.gc();
          await new Promise(setImmediate);
        }
        most = Math.max(most, signatureCount());
      }
    }
    console.log(JSON.stringify({ most, left: signatureCount() }));
  `) as { most: number; left: number };
  expect(most).toBeLessThan(40_000); // of 50,000
  expect(left).toBeLessThan(40_000);
});

test('equal keys give one object while it is referred to, however many others there were', async () => {
  const known = new Interner<{ key: string }>(10);
  const make = (key: string) => known.get(key, () => ({ key }));
  const first = make('first');
  for (let i = 0; i < 100; i++) make(`other ${i}`);
  expect(make('first')).toBe(first);
  for (let i = 0; i < 3; i++) {
    globalThis.gc!();
    await turn();
  }
  expect(known.size).toBeLessThan(30);
  expect(make('first')).toBe(first);
});
