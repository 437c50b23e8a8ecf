// How products reach XLA: leading dimensions merged, in the gradients too.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { collect } from '../../dist/ir/graph.js';
import { emitModule } from '../../dist/stablehlo/emitter.js';

/** The operand and result types of every product in the program that computes these. */
const products = (...ts: tx.Tensor[]): string[] => {
  const graph = collect(ts.map((t) => t.expr));
  const text = emitModule(
    graph,
    graph.nodes.filter((e) => e.inputs.length === 0 && e.op.name === 'input'),
  );
  return text
    .split('\n')
    .filter((l) => l.includes('dot_general'))
    .map((l) => l.slice(l.lastIndexOf(' : ') + 3).replaceAll(/tensor<([^>]*)>/g, '$1'));
};
const given = (...shape: number[]) =>
  tx.tensor(new Float32Array(shape.reduce((a, b) => a * b)), { shape, requiresGrad: true });

test('[B, T, D] x [D, F] is one product of two matrices, forward and backward', () => {
  const [x, w] = [given(2, 3, 4), given(4, 5)];
  const y = x.matmul(w);
  expect(products(y)).toEqual(['(6x4xf32, 4x5xf32) -> 6x5xf32']);
  y.sum().backward();
  expect(products(x.grad!)).toEqual(['(6x5xf32, 4x5xf32) -> 6x4xf32']);
  expect(products(w.grad!)).toEqual(['(6x4xf32, 6x5xf32) -> 4x5xf32']);
});

test('linear needs no transpose, forward or backward', () => {
  const [x, w] = [given(2, 3, 4), given(5, 4)];
  const y = x.linear(w);
  y.sum().backward();
  expect(products(y)).toEqual(['(6x4xf32, 5x4xf32) -> 6x5xf32']);
  expect(products(x.grad!)).toEqual(['(6x5xf32, 5x4xf32) -> 6x4xf32']);
});

test('[B, H, T, D] x [B, H, D, S] has one batch dimension, and so has einsum', () => {
  const [q, k] = [given(2, 3, 4, 5), given(2, 3, 6, 5)];
  const want = ['(6x4x5xf32, 6x6x5xf32) -> 6x4x6xf32'];
  const y = tx.einsum('bhqd,bhkd->bhqk', q, k);
  expect(products(y)).toEqual(want);
  y.sum().backward();
  expect(products(q.grad!)).toEqual(['(6x4x6xf32, 6x6x5xf32) -> 6x4x5xf32']);
});
