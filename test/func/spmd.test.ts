// vmap where devices exchange values: inside of a manual region, and of one; and of tensors that are split.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { wave } from './cases.js';
import { batchedNames } from './watch.js';

process.env['CPU_NUM_DEVICES'] = '4';
type T = tx.Tensor;
const { Mesh, allGather, allReduce, allToAll, axisIndex, permute, reduceScatter, shardMap } = tx.spmd;
const { grad, vmap } = tx.func;
const mesh = new Mesh([4], ['x']);
const numbers = async (t: T) => Array.from((await t.data()) as Float64Array, Number);
async function same(got: T, want: T): Promise<void> {
  expect(got.aval).toBe(want.aval);
  const [a, b] = await Promise.all([numbers(got), numbers(want)]);
  a.forEach((x, i) => void expect(x).toBeCloseTo(b[i]!, 6));
}
const seen = new Set<string>();
const watched = async (run: () => Promise<void>) => {
  for (const name of (await batchedNames(run)).names) seen.add(name);
};

const exchange = (x: T): T =>
  allReduce(x.sin(), 'x')
    .add(allGather(x, 'x').sum(0, { keepdim: true }))
    .add(reduceScatter(x.mul(x).expand([4, 4]), 'x'))
    .add(
      permute(x, 'x', [
        [0, 1],
        [2, 3],
      ]),
    )
    .add(allToAll(x.expand([4, 4]), 'x', { splitDim: 0, concatDim: 1 }).sum(1, { keepdim: true }))
    .mul(axisIndex('x').add(1));
const mapped = shardMap(exchange, { mesh, in: [['x', null]], out: ['x', null] });
const xs = wave([3, 4, 4], 0.3).float();
const each = (f: (x: T) => T) => tx.stack(xs.unbind().map((x) => f(x)));

test('vmap of what every device runs, and its gradient', () =>
  watched(async () => {
    await same(vmap(mapped)(xs), each(mapped));
    const number = (x: T) => mapped(x).square().sum();
    await same(vmap(grad(number))(xs), each(grad(number)));
  }));

test('vmap inside of what every device runs', () =>
  watched(async () => {
    const inner = shardMap((x: T) => vmap(exchange)(x), { mesh, in: [[null, 'x', null]], out: [null, 'x', null] });
    await same(inner(xs), each(mapped));
  }));

test('values that are to be split', () =>
  watched(async () => {
    const split = (x: T) => tx.spmd.markSharding(x.mul(2), mesh, ['x', null]);
    await same(vmap(split)(xs), xs.mul(2));
  }));

test('parameters that fsdp splits', () =>
  watched(async () => {
    const linear = new tx.nn.Linear(4, 4, { bias: false });
    const weights = wave([3, 4, 4], 1).float();
    const call = (weight: T, x: T) => tx.func.functionalCall(linear, { weight }, x);
    const want = tx.stack([0, 1, 2].map((i) => call(weights.select(0, i), xs.select(0, i))));
    await same(want, want);
    tx.spmd.fsdp(linear, new Mesh([4], ['fsdp']), { minSize: 0 });
    await same(vmap(call)(weights, xs), want);
  }));

test('every collective was there', () => {
  const wanted = [
    'allGather',
    'allReduce',
    'allToAll',
    'collectivePermute',
    'gatherShards',
    'manual',
    'reduceScatter',
    'shardingConstraint',
  ];
  expect(wanted.filter((name) => !seen.has(name))).toEqual([]);
});
