// What the rules say of a TPU's memory is what its compiler does.
import { compileAhead } from 'tsxla/plan';
import { expect, test } from 'vitest';
import { Aval } from '../../dist/ir/aval.js';
import { tiledBytes } from '../../dist/observe/rules-products.js';

type Shape = readonly number[];
const dot = (a: Shape, b: Shape, dtype: 'bf16' | 'f32', batch = 0) => {
  const [x, y] = [Aval.of(dtype, a), Aval.of(dtype, b)];
  const out = Aval.of(dtype, [...a.slice(0, -1), b.at(-1)!]);
  const dims = `${batch ? 'batching_dims = [0] x [0], ' : ''}contracting_dims = [${batch + 1}] x [${batch}]`;
  const text = `func.func public @main(%a: ${x.mlir}, %b: ${y.mlir}) -> ${out.mlir} {
    %0 = stablehlo.dot_general %a, %b, ${dims} : (${x.mlir}, ${y.mlir}) -> ${out.mlir}
    return %0 : ${out.mlir} }`;
  return { text: `module { ${text} }`, expected: tiledBytes(x) + tiledBytes(y) };
};

test.each([
  ['v5e:1x1', dot([4096, 4097], [4097, 4096], 'bf16')],
  ['v6e:1x1', dot([4096, 300], [300, 300], 'bf16')],
  ['v6e:1x1', dot([4096, 300], [300, 300], 'f32')],
  ['v6e:1x1', dot([65536, 100], [100, 100], 'bf16')],
  ['v6e:1x1', dot([64, 1024, 64], [64, 64, 1024], 'bf16', 1)],
])('%s: arguments take the tiles we count', async (topology, { text, expected }) => {
  const { memory } = await compileAhead(text, { topology });
  expect(memory.arguments / expected).toBeCloseTo(1, 2);
});
