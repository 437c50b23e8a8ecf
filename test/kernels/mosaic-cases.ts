// One kernel for each group of operations of the language. scripts/kernels-mosaic.py has the same in Pallas, by the same names.

import { Aval } from '../../src/ir/aval.js';
import type { Expr } from '../../src/ir/expr.js';
import { collect } from '../../src/ir/graph.js';
import { flashBackward, flashForward } from '../../src/kernels/flash.js';
import { type KernelOptions, type KernelProgram, traceKernel } from '../../src/kernels/program.js';
import { parameter } from '../../src/ops/prim/body.js';
import * as kernels from '../../src/tensor/kernels.js';

const { block, full, iota, loop, programId, when, where, zeros } = kernels;
type Run = (...refs: kernels.Ref[]) => void;

export const CASES = new Map<string, KernelProgram>();
function add(run: Run, operands: readonly Aval[], options: KernelOptions): void {
  CASES.set(run.name, traceKernel(run.name, run, operands, options));
}

const X = Aval.of('f32', [8, 128]);
const N = Aval.of('i32', [8, 128]);
const whole = (...out: readonly Aval[]): KernelOptions => ({ grid: [1], out: out.map((of) => ({ of })) });

add(
  function arithmetic(x, y, o) {
    const [a, b] = [x!.load(), y!.load()];
    o!.store(a.add(b).mul(a).sub(b).div(a).maximum(b).minimum(a.neg().abs()));
  },
  [X, X],
  whole(X),
);
add(
  function integers(x, y, o) {
    const [a, b] = [x!.load(), y!.load()];
    o!.store(a.mul(b).add(a).sub(b).div(3).rem(7).maximum(a).minimum(b));
  },
  [N, N],
  whole(N),
);
add(
  function bits(x, y, o) {
    const [a, b] = [x!.load(), y!.load()];
    o!.store(a.and(b).or(a.xor(b)).shl(4).shr(2));
  },
  [N, N],
  whole(N),
);
add(
  function functions(x, o) {
    o!.store(x!.load().exp().log().sqrt().rsqrt().sin().cos().tanh());
  },
  [X],
  whole(X),
);
add(
  function error_function(x, o) {
    o!.store(x!.load().erf());
  },
  [X],
  whole(X),
);
add(
  function rounding(x, o) {
    o!.store(x!.load().floor().add(x!.load().ceil()));
  },
  [X],
  whole(X),
);
add(
  function sigmoid(x, o) {
    o!.store(x!.load().sigmoid());
  },
  [X],
  whole(X),
);
add(
  function comparisons(x, y, o) {
    const [a, b] = [x!.load(), y!.load()];
    const [low, high] = [a.lt(b).and(a.le(0)), a.gt(b).or(a.ge(1))];
    o!.store(where(low, a, where(high, b, where(a.eq(b).xor(a.ne(2)), a, 7))));
  },
  [X, X],
  whole(X),
);
add(
  function integer_comparisons(x, y, o) {
    const [a, b] = [x!.load(), y!.load()];
    o!.store(where(a.lt(b).and(a.ge(0)), a, where(a.eq(b).or(a.ne(3)), b, where(a.gt(5).xor(b.le(2)), a, b))));
  },
  [N, N],
  whole(N),
);
const [BF, IN] = [Aval.of('bf16', [16, 128]), Aval.of('i32', [16, 128])];
add(
  function conversions(x, n, y, m) {
    const wide = x!.load().to('f32');
    y!.store(wide.add(n!.load().to('f32')).to('bf16'));
    m!.store(wide.to('i32').add(wide.gt(0).to('i32')));
  },
  [BF, IN],
  whole(BF, IN),
);
add(
  function counting(x, o) {
    const [rows, columns] = [iota([8, 128], 0), iota([8, 128], 1)];
    o!.store(
      x!
        .load()
        .add(rows.mul(128).add(columns).to('f32'))
        .add(full([8, 128], 2, 'f32')),
    );
  },
  [X],
  whole(X),
);
{
  const rows = block([8, 256], (i) => [i!, 0]);
  const of = Aval.of('f32', [16, 256]);
  add(
    function softmax(x, y) {
      const rows = x!.load();
      const e = rows.sub(rows.max(1, true)).exp();
      y!.store(e.div(e.sum(1, true)));
    },
    [of],
    { grid: [2], in: [rows], out: { of, ...rows } },
  );
}
add(
  function reductions(x, across, along) {
    const a = x!.load();
    across!.store(a.max(0, true).add(a.sum(0, true)));
    along!.store(a.min(1, true));
  },
  [Aval.of('f32', [16, 128])],
  whole(Aval.of('f32', [1, 128]), Aval.of('f32', [16, 1])),
);
add(
  function transposed(x, o) {
    o!.store(x!.load().t());
  },
  [Aval.of('f32', [128, 128])],
  whole(Aval.of('f32', [128, 128])),
);
add(
  function product(x, y, o) {
    o!.store(x!.load().dot(y!.load(), { transB: true }));
  },
  [Aval.of('bf16', [32, 128]), Aval.of('bf16', [64, 128])],
  whole(Aval.of('f32', [32, 64])),
);
add(
  function product_of_f32(x, y, o) {
    o!.store(x!.load().dot(y!.load(), { transA: true, precision: 'highest' }));
  },
  [Aval.of('f32', [128, 32]), Aval.of('f32', [128, 64])],
  whole(Aval.of('f32', [32, 64])),
);
add(
  function product_of_i8(x, y, o) {
    o!.store(x!.load().dot(y!.load()));
  },
  [Aval.of('i8', [32, 128]), Aval.of('i8', [128, 128])],
  whole(Aval.of('i32', [32, 128])),
);
add(
  function linear(x, w, y, total) {
    when(programId(2).eq(0), () => total!.store(0));
    total!.store(total!.load().add(x!.load().dot(w!.load(), { transB: true })));
    when(programId(2).eq(1), () => y!.store(total!.load().maximum(0).to('bf16')));
  },
  [Aval.of('bf16', [64, 256]), Aval.of('bf16', [256, 256])],
  {
    grid: [2, 2, 2],
    sequential: [2],
    in: [block([32, 128], (i, _, l) => [i!, l!]), block([128, 128], (_, j, l) => [j!, l!])],
    out: { of: Aval.of('bf16', [64, 256]), ...block([32, 128], (i, j) => [i!, j!]) },
    scratch: [{ dtype: 'f32', shape: [32, 128] }],
  },
);
add(
  function looped(x, o) {
    const [total] = loop(0, 4, [zeros([8, 128])], (i, sum) => [
      sum!.add(x!.load({ at: [0, i.mul(128)], size: [8, 128] })),
    ]);
    o!.store(total!);
  },
  [Aval.of('f32', [8, 512])],
  whole(X),
);
add(
  function parts(x, o) {
    o!.store(x!.load({ at: [8, 0], size: [8, 128] }), { at: [0, 128] });
    o!.store(x!.load({ at: [8, 128], size: [8, 128] }), { at: [8, 128] });
    o!.store(x!.load({ at: [0, 128], size: [16, 128] }), { at: [0, 0] });
  },
  [Aval.of('f32', [16, 256])],
  whole(Aval.of('f32', [16, 256])),
);
add(
  function masked(x, o) {
    const columns = iota([8, 128], 1);
    o!.store(0);
    o!.store(x!.load({ mask: columns.lt(100), other: 1 }), { mask: columns.gt(3) });
  },
  [X],
  whole(X),
);
add(
  function unseen(x, o) {
    o!.store(x!.load().mul(programId(0).add(1).to('f32')));
  },
  [Aval.of('f32', [4, 16, 256])],
  {
    grid: [4, 2],
    in: [block([null, 8, 128], (i, j) => [i!, 1, j!])],
    out: { of: Aval.of('f32', [4, 8, 256]), ...block([null, 8, 128], (i, j) => [i!.add(1).rem(4), 0, j!]) },
  },
);

// One whole attention, forward and backward: causal, two heads to a key, a last block of keys that is not full.
{
  const [Q, K] = [Aval.of('bf16', [1, 4, 512, 128]), Aval.of('bf16', [1, 2, 400, 128])];
  const [q, k, v, g] = [Q, K, K, Q].map((t) => parameter(t)) as [Expr, Expr, Expr, Expr];
  const of = { scale: 0.125, causal: true, blocks: { queries: 256, keys: 256 } };
  const [output, statistic] = flashForward({ q, k, v }, of);
  const [dq, dk] = flashBackward({ q, k, v }, { output, statistic, g }, of);
  for (const e of collect([output, dq, dk]).nodes) {
    const { kernel } = (e.attrs ?? {}) as { kernel?: KernelProgram };
    if (kernel) CASES.set(kernel.name, kernel);
  }
}
