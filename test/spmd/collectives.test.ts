// Manual regions, on eight virtual devices: what devices exchange, and gradients, against the same function on one.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { defaultClient } from '../../dist/runtime/value.js';

process.env.CPU_NUM_DEVICES = '8';
const { Mesh, allGather, allReduce, allToAll, axisIndex, axisSize, permute, reduceScatter, shardMap } = tx.spmd;
type Tensor = tx.Tensor;
const line = new Mesh([8], ['x']);
const ring = new Mesh([4], ['ring']);
const grid = new Mesh([2, 4], ['data', 'model']);

const numbers = async (t: Tensor) => Array.from((await t.data()) as Float32Array, Number);
/** Numbers that are all different, and of both signs. */
const wave = (...shape: number[]): Tensor => {
  const n = shape.reduce((a, b) => a * b, 1);
  return tx.tensor(
    Float32Array.from({ length: n }, (_, i) => Math.sin(1.3 * i + n)),
    { shape },
  );
};

describe('what devices exchange', () => {
  const places = tx.arange(8, { dtype: 'f32' });
  const rows: [string, (x: Tensor) => Tensor, number[]][] = [
    ['allReduce', (x) => allReduce(x, 'x'), Array(8).fill(28)],
    ['allReduce, mean', (x) => allReduce(x, 'x', { op: 'mean' }), Array(8).fill(3.5)],
    ['allReduce, min', (x) => allReduce(x.sub(3), 'x', { op: 'min' }), Array(8).fill(-3)],
    ['allReduce, max', (x) => allReduce(x, 'x', { op: 'max' }), Array(8).fill(7)],
    ['allReduce, max, keeps NaN', (x) => allReduce(x.sub(4).sqrt(), 'x', { op: 'max' }), Array(8).fill(Number.NaN)],
    ['allReduce of what all have', () => allReduce(places.sum().reshape([1]), 'x'), Array(8).fill(8 * 28)],
    ['allGather', (x) => allGather(x, 'x').mul(tx.arange(8)).sum({ keepdim: true }), Array(8).fill(140)],
    ['allGather, stacked', (x) => allGather(x, 'x', { tiled: false }).select(0, 5), Array(8).fill(5)],
    ['reduceScatter', (x) => reduceScatter(x.mul(tx.arange(8)), 'x'), [0, 28, 56, 84, 112, 140, 168, 196]],
    ['reduceScatter, mean', (x) => reduceScatter(x.expand([8]), 'x', { op: 'mean' }), Array(8).fill(3.5)],
    [
      'allToAll',
      (x) => allToAll(x.expand([8]), 'x', { splitDim: 0, concatDim: 0 }).sum({ keepdim: true }),
      Array(8).fill(28),
    ],
    [
      'permute: who is sent nothing has zeros',
      (x) =>
        permute(x, 'x', [
          [0, 1],
          [1, 2],
          [7, 0],
        ]),
      [7, 0, 1, 0, 0, 0, 0, 0],
    ],
    ['axisIndex', () => axisIndex('x').reshape([1]), [0, 1, 2, 3, 4, 5, 6, 7]],
    ['axisSize', (x) => x.mul(axisSize('x')), [0, 8, 16, 24, 32, 40, 48, 56]],
  ];
  test.each(rows)('%s', async (_, fn, want) => {
    expect(await numbers(shardMap(fn, { mesh: line, in: [['x']], out: ['x'] })(places))).toEqual(want);
  });

  const cells = tx.arange(8, { dtype: 'f32' }).reshape([2, 4]);
  const onGrid: [string, (x: Tensor) => Tensor, number[]][] = [
    ['along one axis', (x) => allReduce(x, 'model'), [6, 6, 6, 6, 22, 22, 22, 22]],
    ['along the other', (x) => allReduce(x, 'data'), [4, 6, 8, 10, 4, 6, 8, 10]],
    ['along both', (x) => allReduce(x, ['data', 'model']), Array(8).fill(28)],
    ['places along both', () => axisIndex(['data', 'model']).reshape([1, 1]), [0, 1, 2, 3, 4, 5, 6, 7]],
    ['places, the other way round', () => axisIndex(['model', 'data']).reshape([1, 1]), [0, 2, 4, 6, 1, 3, 5, 7]],
    ['permute along one', (x) => permute(x, 'model', [[0, 3]]), [0, 0, 0, 0, 0, 0, 0, 4]],
  ];
  test.each(onGrid)('of a grid: %s', async (_, fn, want) => {
    expect(await numbers(shardMap(fn, { mesh: grid, in: [['data', 'model']], out: ['data', 'model'] })(cells))).toEqual(
      want,
    );
  });

  test('of nothing that is given', async () => {
    const f = shardMap(() => axisIndex('model').reshape([1]), { mesh: grid, in: [], out: ['model'] });
    expect(await numbers(f())).toEqual([0, 1, 2, 3]);
  });

  test('what is known to be the same, though it cannot be seen', async () => {
    const next = [0, 1, 2, 3].map((i): [number, number] => [i, (i + 1) % 4]);
    const sum = (x: Tensor) => {
      for (let hop = 0, sent = x; hop < 3; hop++) x = x.add((sent = permute(sent, 'ring', next)));
      return x;
    };
    const f = shardMap(sum, { mesh: ring, in: [['ring']], out: [], check: false });
    expect(await numbers(f(tx.arange(4, { dtype: 'f32' })))).toEqual([6]);
  });

  test('a product is written as for one device, with its leading dimensions merged', () => {
    const f = tx.compile(shardMap((x, w) => x.matmul(w), { mesh: grid, in: [['data'], []], out: ['data'] }));
    expect(f.stablehlo([wave(8, 3, 4), wave(4, 5)])).toMatch(/dot_general.*tensor<12x4xf32>, tensor<4x5xf32>/);
  });

  test('on a mesh of one device', async () => {
    const f = shardMap((x) => allReduce(permute(allGather(x, 'x'), 'x', []).add(axisIndex('x').add(2)), 'x'), {
      mesh: new Mesh([1], ['x']),
      in: [['x']],
      out: ['x'],
    });
    expect(await numbers(f(places))).toEqual(Array(8).fill(2));
  });

  test('several results, each put together in its own way', async () => {
    const f = shardMap((x: Tensor) => [x.sum(1), allReduce(x, ['data', 'model'])], {
      mesh: grid,
      in: [['data', 'model']],
      out: [[['data', 'model']], []],
    });
    const [rows, sum] = f(wave(4, 8)) as [Tensor, Tensor];
    expect([rows.shape, sum.shape]).toEqual([[16], [2, 2]]);
    const total = (await numbers(wave(4, 8).sum()))[0]!;
    expect((await numbers(rows)).reduce((a, b) => a + b)).toBeCloseTo(total, 4);
    expect((await numbers(sum)).reduce((a, b) => a + b)).toBeCloseTo(total, 4);
  });
});

type Fn = (...xs: Tensor[]) => Tensor;
/** The value of a function and its gradients by all inputs, in one program. */
const differentiated = (f: Fn) =>
  tx.compile((...xs: Tensor[]) => {
    const [value, grads] = tx.valueAndGrad(f, { argnums: xs.map((_, i) => i) })(...xs);
    return [value, ...(grads as Tensor[])];
  });

/** How many values are sent by each kind of collective, in a program as XLA optimized it. */
async function collectivesOf(text: string, deviceIds: readonly number[]): Promise<Record<string, number>> {
  const program = await (await defaultClient()).compile(text, { useSpmd: true, deviceIds });
  const counts: Record<string, number> = {};
  const pattern = / (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)\(([^)]*)\)/g;
  for (const [, name, operands] of (await program.optimizedHlo()).matchAll(pattern)) {
    // XLA joins sums into one; what goes to all is one value in parts.
    counts[name!] = (counts[name!] ?? 0) + (name === 'all-to-all' ? 1 : operands!.split(',').length);
  }
  return counts;
}

/** Both give the same values and gradients, and the split one needs these collectives for all of it. */
async function expectSame(
  [split, mesh]: [Fn, tx.spmd.Mesh],
  plain: Fn,
  inputs: Tensor[],
  collectives: Record<string, number>,
): Promise<void> {
  const program = differentiated(split);
  const want = await Promise.all((await differentiated(plain)(...inputs)).map(numbers));
  const got = await Promise.all((await program(...inputs)).map(numbers));
  want.forEach((list, i) => {
    const largest = Math.max(...list.map(Math.abs));
    expect(largest).toBeGreaterThan(1e-3);
    expect(got[i]).toHaveLength(list.length);
    list.forEach((v, k) => expect(got[i]![k]! / largest).toBeCloseTo(v / largest, 5));
  });
  expect(await collectivesOf(program.stablehlo(inputs), mesh.devices)).toEqual(collectives);
}

const loss = (y: Tensor) => y.square().mean();
const meanLoss = (y: Tensor, axes: string) => allReduce(loss(y), axes, { op: 'mean' });

describe('gradients are those of the same function on one device', () => {
  test('data parallel: the loss is exchanged, and the gradient of what all devices have', async () => {
    const split = shardMap((w, x) => meanLoss(x.matmul(w).tanh(), 'x'), { mesh: line, in: [[], ['x']], out: [] });
    await expectSame([split, line], (w, x) => loss(x!.matmul(w!).tanh()), [wave(4, 3), wave(16, 4)], {
      'all-reduce': 2,
    });
  });

  test('weights that are split, and gathered to be used: their gradient is scattered', async () => {
    const split = shardMap((w, x) => meanLoss(x.matmul(allGather(w, 'x')), 'x'), {
      mesh: line,
      in: [['x'], ['x']],
      out: [],
    });
    const sent = { 'all-gather': 1, 'all-reduce': 1, 'reduce-scatter': 1 };
    await expectSame([split, line], (w, x) => loss(x!.matmul(w!)), [wave(8, 3), wave(16, 8)], sent);
  });

  test('a sum that is scattered: its gradient is gathered', async () => {
    const split = shardMap((x, w) => loss(allGather(reduceScatter(x.matmul(w), 'x', { dim: 1 }), 'x', { dim: 1 })), {
      mesh: line,
      in: [[null, 'x'], ['x']],
      out: [],
    });
    const sent = { 'all-gather': 2, 'reduce-scatter': 2 };
    await expectSame([split, line], (x, w) => loss(x!.matmul(w!)), [wave(3, 8), wave(8, 16)], sent);
  });

  // Over `model`: the sum after the second product, and the gradient of x. Over `data`: the loss and both weights' gradients.
  test('tensor parallel: columns, then rows', async () => {
    const split = shardMap((x, a, b) => meanLoss(allReduce(x.matmul(a).tanh().matmul(b), 'model'), 'data'), {
      mesh: grid,
      in: [['data'], [null, 'model'], ['model']],
      out: [],
    });
    const inputs = [wave(4, 6), wave(6, 8), wave(8, 6)];
    await expectSame([split, grid], (x, a, b) => loss(x!.matmul(a!).tanh().matmul(b!)), inputs, { 'all-reduce': 5 });
  });

  test('ring attention: keys and values go round', async () => {
    const next = [0, 1, 2, 3].map((i): [number, number] => [i, (i + 1) % 4]);
    const split = shardMap(
      (q, k, v) => {
        let [sum, norm] = [q.mul(0), q.mul(0).sum(1, true)];
        for (let hop = 0; hop < axisSize('ring'); hop++) {
          if (hop) [k, v] = [permute(k, 'ring', next), permute(v, 'ring', next)];
          const weights = q.matmul(k.T).exp();
          [sum, norm] = [sum.add(weights.matmul(v)), norm.add(weights.sum(1, true))];
        }
        return sum.div(norm);
      },
      { mesh: ring, in: [['ring'], ['ring'], ['ring']], out: ['ring'] },
    );
    const plain: Fn = (q, k, v) => loss(q!.matmul(k!.T).softmax(1).matmul(v!));
    const sent = { 'collective-permute': 12, 'all-reduce': 1 }; // the mean outside
    await expectSame(
      [(...x) => loss(split(...(x as [Tensor, Tensor, Tensor]))), ring],
      plain,
      [wave(8, 3), wave(8, 3), wave(8, 3)],
      sent,
    );
  });

  test('all to all: from a part of the sequence to some of the heads, and back', async () => {
    const mixed = (x: Tensor) => x.softmax(0).mul(x);
    const split = shardMap(
      (x) => allToAll(mixed(allToAll(x, 'ring', { splitDim: 1, concatDim: 0 })), 'ring', { splitDim: 0, concatDim: 1 }),
      { mesh: ring, in: [['ring']], out: ['ring'] },
    );
    const sent = { 'all-to-all': 4, 'all-reduce': 1 };
    await expectSame([(x) => loss(split(x!)), ring], (x) => loss(mixed(x!)), [wave(8, 4, 3)], sent);
  });

  test('what the function reaches outside: every device has it, and its gradient is the sum of theirs', async () => {
    const [w, x] = [wave(4, 3).requiresGrad_(), wave(16, 4)];
    const split = shardMap((part) => meanLoss(part.matmul(w), 'x'), { mesh: line, in: [['x']], out: [] });
    const [got] = tx.grad(split(x), [w]);
    const [want] = tx.grad(loss(x.matmul(w)), [w]);
    const expected = await numbers(want!);
    (await numbers(got!)).forEach((v, i) => expect(v).toBeCloseTo(expected[i]!, 5));
  });

  test('the smallest and the largest have none', () => {
    const f = shardMap((x) => allReduce(x, 'x', { op: 'max' }), { mesh: line, in: [['x']], out: [] });
    expect(() => f(wave(8).requiresGrad_()).sum().backward()).toThrow(
      'allReduce: max has no gradient: detach() its operand, or reduce with sum or mean',
    );
  });
});

describe('with bodies', () => {
  const layer = (x: Tensor, a: Tensor, b: Tensor) => allReduce(x.matmul(a).tanh().matmul(b), 'model');
  const plainLayer = (x: Tensor, a: Tensor, b: Tensor) => x.matmul(a).tanh().matmul(b);
  const inputs = [wave(4, 6), wave(6, 8), wave(8, 6)];
  const specs: [tx.spmd.PartitionSpec, tx.spmd.PartitionSpec, tx.spmd.PartitionSpec] = [
    ['data'],
    [null, 'model'],
    ['model'],
  ];
  const split = shardMap(layer, { mesh: grid, in: specs, out: ['data'] });

  test('checkpoint of a region', async () => {
    const f: Fn = (x, a, b) => loss(tx.checkpoint(split, x!, a!, b!));
    // The region is computed again for its gradient, but not what is summed at its end.
    await expectSame([f, grid], (x, a, b) => loss(plainLayer(x!, a!, b!)), inputs, { 'all-reduce': 5 });
  });

  test('checkpoint in a region', async () => {
    const f = shardMap((x, a, b) => tx.checkpoint(layer, x, a, b), { mesh: grid, in: specs, out: ['data'] });
    await expectSame([(x, a, b) => loss(f(x!, a!, b!)), grid], (x, a, b) => loss(plainLayer(x!, a!, b!)), inputs, {
      'all-reduce': 5,
    });
  });

  // One more than without a loop: on the way back, devices have different parts of the gradient of what a layer is given.
  const stacks = [wave(4, 6), wave(3, 6, 8), wave(3, 8, 6)];
  const scanned = (one: typeof layer) => (x: Tensor, a: Tensor, b: Tensor) =>
    tx.scan((h, [p, q]) => [one(h, p!, q!).add(h), []], x, [a, b])[0];

  test('scan in a region', async () => {
    const [x, a, b] = specs;
    const f = shardMap(scanned(layer), { mesh: grid, in: [x, [null, ...a], [null, ...b]], out: ['data'] });
    const plain: Fn = (x, a, b) => loss(scanned(plainLayer)(x!, a!, b!));
    await expectSame([(x, a, b) => loss(f(x!, a!, b!)), grid], plain, stacks, { 'all-reduce': 6 });
  });

  test('a region in a scan', async () => {
    const f: Fn = (x, a, b) => loss(scanned(split)(x!, a!, b!));
    await expectSame([f, grid], (x, a, b) => loss(scanned(plainLayer)(x!, a!, b!)), stacks, { 'all-reduce': 5 });
  });

  test('gradients taken inside are those of a device alone, until they are exchanged', async () => {
    const [w, x] = [wave(4, 3), wave(16, 4)];
    const local = tx.grad((v: Tensor, part: Tensor) => loss(part.matmul(v)));
    const f = shardMap((v, part) => allReduce(local(v, part), 'x', { op: 'mean' }), {
      mesh: line,
      in: [[], ['x']],
      out: [],
    });
    const want = await numbers(local(w, x));
    (await numbers(f(w, x))).forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 5));
  });
});

describe('errors', () => {
  const inside = (fn: (x: Tensor) => Tensor) => () =>
    shardMap(fn, { mesh: grid, in: [['data']], out: ['data'] })(wave(6, 3));
  const one = (x: Tensor) => x;
  const rows: [string, () => unknown, string][] = [
    [
      'a collective outside',
      () => allReduce(wave(8), 'x'),
      'allReduce: called outside of a manual region: call it in the function given to shardMap',
    ],
    [
      'an unknown axis',
      inside((x) => allGather(x, 'rows')),
      'allGather: unknown axis rows: the mesh data=2, model=4 has data, model',
    ],
    ['an axis twice', inside((x) => allReduce(x, ['data', 'data'])), 'allReduce: data is given twice in [data, data]'],
    [
      'another op',
      inside((x) => allReduce(x, 'data', { op: 'prod' as 'sum' })),
      "allReduce: op is the string 'prod': it must be one of sum, mean, min, max",
    ],
    [
      'another option',
      inside((x) => allGather(x, 'data', { axis: 1 } as object)),
      "allGather: there is no option 'axis'",
    ],
    ['booleans', inside((x) => allReduce(x.gt(0), 'data')), 'allReduce with sum: takes numbers, got bool[3, 3]'],
    [
      'what does not divide',
      inside((x) => reduceScatter(x, 'model')),
      'reduceScatter: f32[3, 3] over model: dimension 0 is 3, and 3 / 4 is not an integer',
    ],
    [
      'what cannot be sent to all',
      inside((x) => allToAll(x, 'data', { splitDim: 1, concatDim: 0 })),
      'allToAll: f32[3, 3] over data: dimension 1 is 3, and 3 / 2 is not an integer',
    ],
    [
      'a place that is not there',
      inside((x) => permute(x, 'data', [[0, 2]])),
      'permute: 2 is out of range along data: use 0 to 1',
    ],
    [
      'two to one',
      inside((x) =>
        permute(x, 'data', [
          [0, 1],
          [1, 1],
        ]),
      ),
      'permute: 1 is sent to twice in [[0,1],[1,1]]: at most once is allowed',
    ],
    [
      'an argument that cannot be split',
      () => shardMap(one, { mesh: grid, in: [['model']], out: ['model'] })(wave(6, 3)),
      'shardMap: argument 0 [6, 3] cannot be split as [model] over data=2, model=4: dimension 0 has size 6, which is not divisible by 4',
    ],
    [
      'a result of fewer dimensions than its spec',
      () => shardMap((x) => x.sum(), { mesh: grid, in: [['data']], out: ['data'] })(wave(6, 3)),
      'shardMap: result 0 [] cannot be split as [data] over data=2, model=4: the spec has 1 entries for 0 dimensions',
    ],
    [
      'a spec that is no list',
      () => shardMap(one, { mesh: grid, in: ['data'] as unknown as [[]], out: [] })(wave(6, 3)),
      "shardMap: 'in' has the string 'data' as a spec: each of the arguments needs a list, such as ['data', null]",
    ],
    [
      'no specs',
      () => shardMap(one, { mesh: grid, out: [] } as unknown as { mesh: tx.spmd.Mesh; in: [[]]; out: [] }),
      "shardMap: 'in' is undefined: it must be a list",
    ],
    [
      'a result that devices do not have in common',
      () => shardMap((x) => x.sum(0), { mesh: grid, in: [['data']], out: [] })(wave(6, 3)),
      "shardMap: result 0, parts of f32[3], may differ along data, which is not in its spec: allReduce or allGather it along data, or name data in 'out' (if it is the same on all: { check: false })",
    ],
    [
      'nothing to put together',
      () => shardMap(() => [], { mesh: grid, in: [], out: [] })(),
      'shardMap: the function returned an empty list: it must return at least one tensor',
    ],
    [
      'fewer specs than results',
      () => shardMap((x) => [x, x], { mesh: grid, in: [['data']], out: [['data']] })(wave(6, 3)),
      "shardMap: 2 results but 1 specs in 'out': give one for each",
    ],
    [
      'a region in a region',
      inside((x) => shardMap(one, { mesh: line, in: [[]], out: [] })(x)),
      'shardMap: called inside another shardMap, which already uses all axes of its mesh (data=2, model=4): use collectives there',
    ],
    [
      'random numbers',
      inside((x) => x.add(tx.rand([3, 3]))),
      'shardMap: the function draws random numbers, which would be the same on every device: draw them outside and pass them in, split',
    ],
    [
      'a wish inside',
      inside((x) => tx.spmd.replicate(x, grid)),
      'shardMap: shard(), replicate() and markSharding() cannot be used inside',
    ],
    [
      'something else than a tensor',
      inside(() => 3 as unknown as Tensor),
      'shardMap: result 0 is the number 3: it must be a tensor',
    ],
  ];
  test.each(rows)('%s', (_, run, message) => {
    expect(run).toThrow(message);
  });

  test('a value of the inside, used outside', async () => {
    let kept: Tensor | undefined;
    const keep = (x: Tensor) => {
      kept = axisIndex('data');
      return x;
    };
    shardMap(keep, { mesh: grid, in: [['data']], out: ['data'] })(wave(6, 3));
    await expect(kept!.item()).rejects.toThrow('a value of the inside of a manual region is used outside of it');
  });
});
