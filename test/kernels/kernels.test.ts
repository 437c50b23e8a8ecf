// Kernels on the CPU: what each operation computes, beside the same in tensors; blocks, edges, loops and scratch memory.
import * as tx from 'tsxla';
import { describe, expect, test, vi } from 'vitest';

const { block, full, iota, loop, programId, when, where, zeros } = tx.kernels;
type Ref = tx.kernels.Ref;
type Block = tx.kernels.Block;

const near = async (a: tx.Tensor, b: tx.Tensor, tolerance = 1e-5) => {
  expect([a.dtype, a.shape]).toEqual([b.dtype, b.shape]);
  const difference = await a.sub(b).abs().max().item();
  expect(Number(difference)).toBeLessThanOrEqual(tolerance * 10);
};

/** A kernel of one program, on whole arrays. */
const whole = (run: (...refs: Ref[]) => void, of: { dtype: tx.DType; shape: readonly number[] }) =>
  tx.kernel(run, { grid: [1], out: { of } });

describe('operations', () => {
  const x = tx.tensor([
    [0.5, -1.25, 3, 0],
    [2, 1, -0.75, 9],
  ]);
  const y = tx.tensor([
    [2, 0.5, 3, 1],
    [-4, 1, 1.5, 0.25],
  ]);
  const n = tx.tensor(
    [
      [7, -8, 3, 1],
      [0, 5, -2, 6],
    ],
    { dtype: 'i32' },
  );

  test.each<[string, (a: Block, b: Block) => Block, (a: tx.Tensor, b: tx.Tensor) => tx.Tensor]>([
    ['add', (a, b) => a.add(b), (a, b) => a.add(b)],
    ['a scalar', (a) => a.mul(3).sub(1), (a) => a.mul(3).sub(1)],
    ['mul, sub, div', (a, b) => a.mul(b).sub(a).div(b), (a, b) => a.mul(b).sub(a).div(b)],
    ['mean', (a) => a.mean(1, true).add(a.mean(0)), (a) => a.mean(1, true).add(a.mean(0))],
    ['rem', (a, b) => a.rem(b), (a, b) => a.fmod(b)],
    ['maximum, minimum', (a, b) => a.maximum(b).sub(a.minimum(b)), (a, b) => a.maximum(b).sub(a.minimum(b))],
    ['neg, abs', (a) => a.neg().add(a.abs()), (a) => a.neg().add(a.abs())],
    ['exp, log', (a) => a.exp().add(1).log(), (a) => a.exp().add(1).log()],
    [
      'sqrt, rsqrt',
      (a) => a.abs().sqrt().add(a.abs().add(1).rsqrt()),
      (a) => a.abs().sqrt().add(a.abs().add(1).rsqrt()),
    ],
    ['sin, cos', (a) => a.sin().add(a.cos()), (a) => a.sin().add(a.cos())],
    ['tanh, erf', (a) => a.tanh().add(a.erf()), (a) => a.tanh().add(a.erf())],
    ['sigmoid', (a) => a.sigmoid(), (a) => a.sigmoid()],
    ['floor, ceil', (a) => a.floor().add(a.ceil()), (a) => a.floor().add(a.ceil())],
    ['where, lt', (a, b) => where(a.lt(b), a, 7), (a, b) => tx.where(a.lt(b), a, 7)],
    [
      'where, and, ge, ne',
      (a, b) => where(a.ge(0).and(a.ne(b)), b, a),
      (a, b) => tx.where(a.ge(0).logicalAnd(a.ne(b)), b, a),
    ],
    [
      'where, or, eq, le, gt',
      (a, b) => where(a.eq(b).or(a.le(0)), b, where(a.gt(2), 1, a)),
      (a, b) => tx.where(a.eq(b).logicalOr(a.le(0)), b, tx.where(a.gt(2), 1, a)),
    ],
    [
      'iota',
      (a) => a.add(iota([2, 4], 1).to('f32')).mul(iota([2, 4], 0).to('f32')),
      (a) => a.add(tx.arange(4)).mul(tx.arange(2).unsqueeze(1)),
    ],
    ['sum', (a) => a.div(a.sum(1, true)), (a) => a.div(a.sum(1, true))],
    ['max, min', (a) => a.sub(a.max(1, true)).mul(a.min(0)), (a) => a.sub(a.amax(1, true)).mul(a.amin(0))],
    ['squeeze, unsqueeze', (a) => a.sum(0).unsqueeze(0).squeeze(0).add(a), (a) => a.sum(0).add(a)],
    ['t', (a) => a.t().add(1).t(), (a) => a.add(1)],
    ['dot', (a, b) => a.dot(b, { transB: true }).dot(a), (a, b) => a.matmul(b.T).matmul(a)],
    ['dot, transposed', (a, b) => a.dot(b.dot(a, { transA: true })), (a, b) => a.matmul(b.T.matmul(a))],
    ['full, zeros', (a) => a.add(full([2, 4], 2, 'f32')).add(zeros([4])), (a) => a.add(2)],
  ])('%s', async (_, inKernel, inTensors) => {
    const f = whole((a, b, out) => out.store(inKernel(a.load(), b.load())), { dtype: 'f32', shape: [2, 4] });
    await near(f(x, y), inTensors(x, y));
  });

  test.each<[string, (a: Block) => Block, (a: tx.Tensor) => tx.Tensor]>([
    ['add, mul, neg', (a) => a.add(3).mul(a).sub(a.neg()), (a) => a.add(3).mul(a).sub(a.neg())],
    ['div, rem', (a) => a.div(3).add(a.rem(3)), (a) => a.div(3, { roundingMode: 'trunc' }).add(a.fmod(3))],
    ['and, or, xor', (a) => a.and(6).or(1).xor(3), (a) => a.bitwiseAnd(6).bitwiseOr(1).bitwiseXor(3)],
    ['shl, shr', (a) => a.shl(4).shr(2), (a) => a.bitwiseLeftShift(4).bitwiseRightShift(2)],
    ['to', (a) => a.to('f32').div(2).to('i32'), (a) => a.div(2).to('i32')],
  ])('of integers: %s', async (_, inKernel, inTensors) => {
    const f = whole((a, out) => out.store(inKernel(a.load())), { dtype: 'i32', shape: [2, 4] });
    await near(f(n), inTensors(n));
  });

  test('of unsigned integers: shr fills with zeros', async () => {
    const bytes = tx.tensor([200, 255, 3], { dtype: 'u8' });
    const f = whole((a, out) => out.store(a.load().shr(4).and(15)), { dtype: 'u8', shape: [3] });
    expect(await f(bytes).tolist()).toEqual([12, 15, 0]);
  });

  test('bf16 operands, f32 product', async () => {
    const f = whole((a, b, out) => out.store(a.load().dot(b.load(), { transB: true })), {
      dtype: 'f32',
      shape: [2, 2],
    });
    const [a, b] = [x.to('bf16'), y.to('bf16')];
    await near(f(a, b), a.to('f32').matmul(b.to('f32').T));
  });

  test('NaN stays NaN in maximum and max', async () => {
    const f = whole((a, out) => out.store(a.load().maximum(0).max(1)), { dtype: 'f32', shape: [1] });
    expect(await f(tx.tensor([[1, Number.NaN, 2]])).tolist()).toEqual([Number.NaN]);
  });
});

describe('blocks', () => {
  /** Rows in blocks of 8. */
  const softmax = tx.kernel(
    function softmax(x, y) {
      const e = x.load().sub(x.load().max(1, true)).exp();
      y.store(e.div(e.sum(1, true)));
    },
    (x) => {
      const rows = block([8, x.shape[1]!], (i) => [i, 0]);
      return { grid: [Math.ceil(x.shape[0]! / 8)], in: [rows], out: { of: x, ...rows } };
    },
  );
  test.each([8, 16, 20, 3])('%i rows in blocks of 8', async (rows) => {
    const x = tx.randn([rows, 5]);
    await near(softmax(x), x.softmax(1));
  });

  test('elements of a block beyond the end are 0, and are not written', async () => {
    const sums = tx.kernel((x, y) => y.store(x.load().add(1).sum(0, true)), {
      grid: [2],
      in: [block([4], (i) => [i])],
      out: { of: { dtype: 'f32', shape: [2] }, ...block([1], (i) => [i]) },
    });
    expect(await sums(tx.ones([6])).tolist()).toEqual([8, 6]);
  });

  test('dimensions that the kernel does not see', async () => {
    const x = tx.randn([3, 4, 5]);
    const f = tx.kernel(
      (a, b) => {
        expect(a.shape).toEqual([4]);
        b.store(a.load().mul(2));
      },
      {
        grid: [3, 5],
        in: [block([null, 4, null], (i, j) => [i, 0, j])],
        out: { of: { dtype: 'f32', shape: [5, 3, 4] }, ...block([null, null, 4], (i, j) => [j, i, 0]) },
      },
    );
    await near(f(x), x.permute(2, 0, 1).mul(2));
  });

  test('a product in tiles, summed in scratch memory along a sequential dimension', async () => {
    const tiled = tx.kernel(
      function tiled(a, b, c, sum) {
        when(programId(2).eq(0), () => sum.store(0));
        sum.store(sum.load().add(a.load().dot(b.load())));
        when(programId(2).eq(4), () => c.store(sum.load()));
      },
      {
        grid: [2, 3, 5],
        sequential: [2],
        in: [block([8, 4], (i, _, k) => [i, k]), block([4, 16], (_, j, k) => [k, j])],
        out: { of: { dtype: 'f32', shape: [14, 40] }, ...block([8, 16], (i, j) => [i, j]) },
        scratch: [{ dtype: 'f32', shape: [8, 16] }],
      },
    );
    const [a, b] = [tx.randn([14, 19]), tx.randn([19, 40])];
    await near(tiled(a, b), a.matmul(b), 1e-4);
    await near(await tiled.check(a, b), a.matmul(b), 1e-4);
  });

  test('parts of a block, at places known only on the device', async () => {
    const reversed = whole(
      (x, y) => {
        loop(0, 4, [], (i) => y.store(x.load({ at: [i, 0], size: [1, 3] }), { at: [i.neg().add(3), 0] }));
      },
      { dtype: 'f32', shape: [4, 3] },
    );
    const x = tx.randn([4, 3]);
    await near(reversed(x), x.flip([0]));
  });

  test('masked parts that reach beyond the block', async () => {
    const shifted = whole(
      (x, y) => {
        const at = iota([4], 0).add(4);
        y.store(x.load({ at: [full([], 4, 'i32')], size: [4], mask: at.lt(6), other: -1 }));
      },
      { dtype: 'f32', shape: [4] },
    );
    expect(await shifted(tx.arange(6).to('f32')).tolist()).toEqual([4, 5, -1, -1]);
    const stored = whole(
      (x, y) => {
        y.store(0);
        y.store(x.load(), { at: [full([], 4, 'i32')], mask: iota([4], 0).lt(2) });
      },
      { dtype: 'f32', shape: [6] },
    );
    expect(await stored(tx.ones([4])).tolist()).toEqual([0, 0, 0, 0, 1, 1]);
  });

  test('a loop carries blocks, with bounds of the device', async () => {
    const powers = tx.kernel(
      (x, y) => {
        const [p] = loop(0, programId(0), [full([2], 1, 'f32')], (_, p) => [p.mul(x.load())]);
        y.store(p!.unsqueeze(0));
      },
      { grid: [4], out: { of: { dtype: 'f32', shape: [4, 2] }, ...block([1, 2], (i) => [i, 0]) } },
    );
    expect(await powers(tx.tensor([2, 3], { dtype: 'f32' })).tolist()).toEqual([
      [1, 1],
      [2, 3],
      [4, 9],
      [8, 27],
    ]);
  });

  test('several results', async () => {
    const both = tx.kernel(
      (x, sum, top) => {
        sum.store(x.load().sum(1, true));
        top.store(x.load().max(1, true));
      },
      { grid: [1], out: [{ of: { dtype: 'f32', shape: [3, 1] } }, { of: { dtype: 'f32', shape: [3, 1] } }] },
    );
    const x = tx.randn([3, 4]);
    const [sum, top] = both(x);
    await near(sum!, x.sum(1, true));
    await near(top!, x.amax(1, true));
  });

  test('scratch memory begins with zeros in each program that may run alone', async () => {
    const counts = tx.kernel(
      (y, n) => {
        n.store(n.load().add(1));
        y.store(n.load());
      },
      {
        grid: [3, 2],
        sequential: [1],
        out: { of: { dtype: 'i32', shape: [3, 2] }, ...block([1, 1], (i, j) => [i, j]) },
        scratch: [{ dtype: 'i32', shape: [1, 1] }],
      },
    );
    expect(await counts().tolist()).toEqual([
      [1, 2],
      [1, 2],
      [1, 2],
    ]);
  });
});

describe('as an operation', () => {
  const scale = tx.kernel(
    function scale(x, factor, y) {
      y.store(x.load().mul(factor.load()));
    },
    (x) => {
      const rows = block([2, x.shape[1]!], (i) => [i, 0]);
      return { grid: [x.shape[0]! / 2], in: [rows, null], out: { of: x, ...rows } };
    },
  );
  const x = tx.randn([4, 3]);
  const factor = tx.tensor([[2.0]], { dtype: 'f32' });

  test('in compiled functions, loops and branches', async () => {
    const f = tx.compile((a: tx.Tensor) => scale(scale(a, factor), factor));
    await near(await f(x), x.mul(4));
    await near(await f(x.add(1)), x.add(1).mul(4));
    expect(f.programs).toBe(1);
    const last = tx.foriLoop(0, 3, (_, c: tx.Tensor) => scale(c, factor), x);
    await near(last, x.mul(8));
    await near(
      tx.cond(
        x.sum().gt(1e9),
        (a: tx.Tensor) => a,
        (a: tx.Tensor) => scale(a, factor),
        x,
      ),
      x.mul(2),
    );
  });

  test('for many examples: vmap, nested, of one operand or of all', async () => {
    const xs = tx.randn([5, 4, 3]);
    await near(tx.vmap(scale, { inDims: [0, null] })(xs, factor), xs.mul(2));
    const factors = tx.rand([5, 1, 1]);
    await near(tx.vmap(scale, { inDims: [null, 0] })(x, factors), x.mul(factors));
    const twice = tx.vmap(tx.vmap(scale, { inDims: [0, null] }), { inDims: [0, 0] });
    await near(
      twice(tx.stack([xs, xs]), factors.narrow(0, 0, 2)),
      tx.stack([xs, xs]).mul(factors.narrow(0, 0, 2).unsqueeze(1)),
    );
  });

  test('with a gradient by customVjp, also in checkpoint', async () => {
    const scaled = tx.customVjp((a: tx.Tensor) => scale(a, factor), {
      backward: (_, g) => [scale(g as tx.Tensor, factor)],
    });
    const a = x.detach().requiresGrad_();
    scaled(a).square().sum().backward();
    await near(a.grad!, x.mul(8));
    const b = x.detach().requiresGrad_();
    tx.checkpoint((c: tx.Tensor) => scaled(c.tanh()), b)
      .sum()
      .backward();
    await near(b.grad!, tx.sub(1, x.tanh().square()).mul(2));
  });

  test('without one, asking for a gradient is an error that says so', () => {
    const a = x.detach().requiresGrad_();
    expect(() => scale(a, factor).sum().backward()).toThrow(/kernel/);
  });

  test('kernels that differ are other programs, equal ones are the same', async () => {
    const made = (by: number) =>
      tx.kernel(
        function times(x, y) {
          y.store(x.load().mul(by));
        },
        (x) => ({ grid: [1], out: { of: x } }),
      );
    const before = tx.metrics.counter('UncachedCompile') ?? 0;
    await near(made(3)(x), x.mul(3));
    const first = tx.metrics.counter('UncachedCompile') ?? 0;
    await near(made(3)(x), x.mul(3));
    await near(made(5)(x), x.mul(5));
    expect(first).toBeGreaterThan(before);
    expect(await made(5)(x).tolist()).not.toEqual(await made(3)(x).tolist());
  });
});

describe('check', () => {
  const of = (n: number) => ({ dtype: 'f32' as const, shape: [n] });
  const x = tx.arange(6).to('f32');
  const here = /kernels\.test\.ts:\d+/;

  test('two programs that write one element', async () => {
    const race = tx.kernel(
      function race(a, y) {
        y.store(a.load({ size: [4] }));
      },
      { grid: [2], out: { of: of(4) } },
    );
    await expect(race.check(x)).rejects.toThrow(
      /kernel race: two programs write the same element of output 0 \(f32\[4\]\)/,
    );
    await expect(race.check(x)).rejects.toThrow(here);
    const inOrder = tx.kernel((a, y) => y.store(a.load({ size: [4] })), {
      grid: [2],
      sequential: [0],
      out: { of: of(4) },
    });
    expect(await (await inOrder.check(x)).tolist()).toEqual([0, 1, 2, 3]);
  });
  test('a program that reads what another one wrote', async () => {
    const reads = tx.kernel(
      function reads(y) {
        when(programId(0).eq(0), () => y.store(1));
        when(programId(0).eq(1), () => y.store(y.load(), { mask: iota([4], 0).lt(0) }));
      },
      { grid: [2], out: { of: of(4) } },
    );
    await expect(reads.check()).rejects.toThrow('kernel reads: a program reads what another one wrote in output 0');
  });
  test('reads and writes out of bounds', async () => {
    const read = tx.kernel(
      function read(a, y) {
        y.store(a.load({ at: [programId(0)], size: [4] }));
      },
      {
        grid: [4],
        out: { of: of(16), ...block([4], (i) => [i]) },
      },
    );
    await expect(read.check(x)).rejects.toThrow('kernel read: load out of bounds: dimension 0 of input 0 (f32[6])');
    const write = tx.kernel(
      function write(a, y) {
        y.store(a.load({ size: [4] }), { at: [programId(0).sub(1)] });
      },
      { grid: [1], out: { of: of(6) } },
    );
    await expect(write.check(x)).rejects.toThrow('kernel write: store out of bounds: dimension 0 of output 0 (f32[6])');
    const masked = tx.kernel(
      (a, y) => y.store(a.load({ at: [full([], 4, 'i32')], size: [4], mask: iota([4], 0).lt(2) })),
      { grid: [1], out: { of: of(4) } },
    );
    expect(await (await masked.check(x)).tolist()).toEqual([4, 5, 0, 0]);
  });
  test('an index map that leaves its array', async () => {
    const far = tx.kernel(
      function far(a, y) {
        y.store(a.load());
      },
      {
        grid: [4],
        in: [block([2], (i) => [i])],
        out: { of: of(8), ...block([2], (i) => [i]) },
      },
    );
    await expect(far.check(x)).rejects.toThrow(
      'kernel far: the index map of input 0 (f32[2]) leaves the array: dimension 0 has 3 blocks',
    );
  });
  test('elements of a result that are read before they are written, or never written: on other devices they may be anything', async () => {
    const [half, ones] = [block([2], (i) => [i]), tx.ones([4])];
    const part = tx.kernel(
      function part(a, y) {
        when(programId(0).eq(1), () => y.store(a.load()));
      },
      { grid: [2], in: [half], out: { of: of(4), ...half } },
    );
    await expect(part.check(ones)).rejects.toThrow('kernel part: no program writes some elements of output 0 (f32[2])');
    const early = tx.kernel(
      function early(a, y) {
        y.store(y.load().add(a.load()));
      },
      { grid: [2], in: [half], out: { of: of(4), ...half } },
    );
    const message = 'kernel early: load of elements of output 0 (f32[2]) that no program has written\n    at ';
    await expect(early.check(ones)).rejects.toThrow(message);
    const ragged = tx.kernel((_, y) => y.store(1), { grid: [3], out: { of: of(5), ...half } });
    expect(await (await ragged.check(ones)).tolist()).toEqual([1, 1, 1, 1, 1]);
    expect(await (await tx.vmap(ragged)(tx.ones([2, 4]))).tolist()).toHaveLength(2);
  });
});

describe('mistakes', () => {
  const out = { of: { dtype: 'f32' as const, shape: [4, 4] } };
  const x = tx.ones([4, 3]);
  const run = (body: (a: Ref, y: Ref) => void) => () =>
    tx.kernel(
      function mine(a, y) {
        body(a, y);
      },
      { grid: [2], out },
    )(x);

  test.each<[string, (a: Ref, y: Ref) => void, string]>([
    ['if', (a) => void ((a.load() as unknown as number) > 3), 'is used as a JavaScript value: use its methods'],
    [
      'a reference as a value',
      (a, y) => y.store((a as unknown as number) + 1),
      'input 0 (f32[4, 3]) is used as a value: read it with load()',
    ],
    [
      'inner sizes',
      (a, y) => y.store(a.load().dot(a.load())),
      'dot: block f32[4, 3] x block f32[4, 3]: inner sizes 3 and 4 differ (did you mean { transB: true }?)',
    ],
    [
      'shapes',
      (a, y) => y.store(a.load().add(y.load())),
      'add: shapes of block f32[4, 3] and block f32[4, 4] do not broadcast',
    ],
    [
      'dtypes',
      (a, y) => y.store(a.load().to('bf16').add(a.load())),
      "add: dtypes of block bf16[4, 3] and block f32[4, 3] differ: convert one, x.to('bf16')",
    ],
    [
      'a stored dtype',
      (_, y) => y.store(iota([4, 4], 0)),
      "store: block i32[4, 4] into output 0 (f32[4, 4]): convert it, x.to('f32')",
    ],
    [
      'a stored operand',
      (a) => a.store(0),
      'store: input 0 (f32[4, 3]) is an operand: kernels write to results and scratch',
    ],
    [
      'a part too large',
      (a, y) => y.store(a.load({ size: [4, 4] })),
      'load: a part of shape [4, 4] does not fit in input 0 (f32[4, 3])',
    ],
    [
      'a part outside',
      (a, y) => y.store(a.load({ at: [1, 0], size: [4, 3] })),
      'load: elements 1 to 4 of dimension 0 are not in input 0 (f32[4, 3])',
    ],
    [
      'integers and fractions',
      (_, y) => y.store(iota([4, 4], 0).mul(0.5).to('f32')),
      "mul: 0.5 with integers (i32): convert the block first, x.to('f32')",
    ],
    [
      'exp of integers',
      (_, y) => y.store(iota([4, 4], 0).exp().to('f32')),
      "exp of block i32[4, 4]: takes floats: x.to('f32')",
    ],
    ['a grid dimension', (_, y) => y.store(programId(1).to('f32')), 'programId: dim 1 of a grid with 1 dimensions'],
    ['a tensor stored', (_, y) => y.store(x as never), 'store: takes a block or a number, got tensor(f32[4, 3]'],
    ['nothing stored', (_, y) => y.store(undefined as never), 'store: takes a block or a number, got undefined'],
    [
      'a block of a body that has ended',
      (_, y) => {
        let kept = zeros([4, 4]);
        when(programId(0).eq(0), () => {
          kept = zeros([4, 4]).add(1);
        });
        y.store(kept);
      },
      'store: block f32[4, 4] was made in a when or a loop that has ended, or in another kernel',
    ],
    [
      'the result of a loop from another body',
      (_, y) => {
        const inner: tx.kernels.Block[] = [];
        when(programId(0).eq(0), () => void inner.push(zeros([4])));
        loop(0, 2, [zeros([4])], () => [inner[0]!]);
        y.store(0);
      },
      'its result: block f32[4] was made in a when or a loop that has ended',
    ],
    [
      'what is carried',
      (_, y) => {
        loop(0, 2, [zeros([4])], (_, c) => [c.to('bf16')]);
        y.store(0);
      },
      'loop: what is carried begins as block f32[4], and its body returns block bf16[4]',
    ],
    [
      'a condition',
      (_, y) => when(iota([4, 4], 0).eq(0), () => y.store(0)),
      'when: the condition is block bool[4, 4]: takes one boolean',
    ],
    [
      'a reference for its block',
      (a) => (a as unknown as { add(n: number): void }).add(1),
      'add of input 0 (f32[4, 3]): it is a reference: read it first: x.load().add(...)',
    ],
    [
      'an operation of tensors',
      (a) => (a.load() as unknown as { softmax(dim: number): void }).softmax(1),
      'softmax of block f32[4, 3]: blocks have no softmax: write e.div(e.sum(dim, true)) of e = x.sub(x.max(dim, true)).exp()',
    ],
    [
      'a read',
      (a) => (a.load() as unknown as { item(): void }).item(),
      'item of block f32[4, 3]: a kernel only describes: nothing can be read in it',
    ],
    ['a result not stored', () => {}, 'output 0 (f32[4, 4]) is never stored to'],
  ])('%s', (_, body, message) => {
    expect(run(body)).toThrow(message);
    expect(run(body)).toThrow('kernel mine');
    expect(run(body)).toThrow(/kernels\.test\.ts:\d+/);
  });

  test('a function of tensors', () => {
    expect(run((a) => void tx.exp(a.load() as never))).toThrow(
      'exp: x is the block f32[4, 3] of a kernel: use its methods, as x.exp() and x.add(y)',
    );
  });
  test('a while of JavaScript on a block', () => {
    const forever = () => {
      // eslint-disable-next-line tsxla/no-tensor-condition -- this is what is tested
      while (programId(0).lt(1));
    };
    expect(run(forever)).toThrow(
      'kernel mine: its function made 20000 operations: a while of JavaScript on a block never ends',
    );
  });
  test('an if of JavaScript on a block is told: it is always true', () => {
    const said = vi.spyOn(process.stderr, 'write').mockImplementation(() => true);
    const relu = tx.kernel(
      function relu(a, b) {
        // eslint-disable-next-line tsxla/no-tensor-condition -- this is what is tested
        if (a.load().gt(0)) b.store(1);
      },
      (a) => ({ grid: [1], out: { of: a } }),
    );
    relu(x);
    const text = String(said.mock.calls.flat()[0]);
    said.mockRestore();
    expect(text).toMatch(
      /^tsxla: kernel relu: nothing uses the result of gt\. A block is always true for if, .*: use kernels\.when, kernels\.where and kernels\.loop\n {4}at .*kernels\.test\.ts:\d+\n$/,
    );
  });
  test('outside of a kernel', () => {
    expect(() => programId(0)).toThrow('programId: works inside the function of a kernel only');
  });
  test('empty operands: an empty result, or an error that says what to do', async () => {
    const rows = (x: { shape: readonly number[] }) => block([8, x.shape[1]!], (i) => [i, 0]);
    const negated = tx.kernel(
      (a, y) => y.store(a.load().neg()),
      (a) => ({ grid: [Math.ceil(a.shape[0]! / 8)], in: [rows(a)], out: { of: a, ...rows(a) } }),
    );
    expect((await negated(tx.zeros([0, 3])).tolist()) as number[]).toEqual([]);
    expect((await negated.check(tx.zeros([3, 0]))).shape).toEqual([3, 0]);
    expect(
      await tx
        .compile((a: tx.Tensor) => negated(a))(tx.zeros([0, 3]))
        .then((y) => y.shape),
    ).toEqual([0, 3]);
    const sum = tx.kernel((a, y) => y.store(a.load().sum(0)), { grid: [1], out: { of: { dtype: 'f32', shape: [3] } } });
    expect(() => sum(tx.zeros([0, 3]))).toThrow(
      'input 0: f32[0, 3] is empty and the result is not: no program would write it. Compute this case without the kernel',
    );
  });
  test('options', () => {
    const make = (options: object) => () => tx.kernel((_, y) => y.store(0), { grid: [1], out, ...options } as never)(x);
    expect(make({ grid: [0] })).toThrow('grid is [0]: takes a list of up to 4 whole numbers from 1 on');
    expect(make({ in: [block([2], (i) => [i])] })).toThrow(
      'input 0: a block of shape [2] of f32[4, 3]: takes a size, or null, for each dimension',
    );
    expect(make({ grid: 4 })).toThrow('grid is 4: takes a list of up to 4 whole numbers from 1 on');
    expect(make({ in: [block([2, 3], (i) => [i])] })).toThrow(
      'input 0: its index map gives 1 index, and f32[4, 3] has 2 dimensions: return a list with one index for each',
    );
    expect(make({ in: [block([2, 3], ((i: unknown) => i) as never)] })).toThrow(
      'input 0: its index map gives block i32[], not a list, and f32[4, 3] has 2 dimensions',
    );
    expect(make({ out: { of: { dtype: 'float32', shape: [4] } } })).toThrow(
      "kernel kernel: out: dtype 'float32' is written 'f32'",
    );
    expect(make({ in: [null, null] })).toThrow('2 blocks (in) for 1 operands');
    expect(make({ grid: [2, 2], sequential: [0] })).toThrow('sequential [0]: must be the last dimensions of the grid');
    expect(make({ scracth: [] })).toThrow("there is no option 'scracth': it takes grid, in, out, scratch");
    expect(make({ out: undefined })).toThrow('kernel kernel: out says no type');
    expect(() => tx.kernel((a) => a.load() as never, { grid: [1], out })(x)).toThrow(
      'its function returns a block: store it',
    );
    expect(() => tx.kernel((_, y) => y.store(0), { grid: [1], out })(3 as never)).toThrow(
      'operand 0 is the number 3: takes tensors',
    );
    expect(() => tx.kernel((_, y) => y.store(0), undefined as never)(x)).toThrow('kernel kernel: it has no options');
    expect(() => tx.kernel((_, _2, y) => y.store(0), { grid: [1], out })(x)).toThrow(
      'its function takes 3 references, and there are 2: of 1 operands, 1 results (out) and 0 scratch',
    );
    const whole = tx.kernel((_, y) => y.store(1.5), { grid: [1], out: { of: { dtype: 'i32', shape: [2] } } });
    expect(() => whole(x)).toThrow('store: 1.5 with integers (i32)');
  });
});
