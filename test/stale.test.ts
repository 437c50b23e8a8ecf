// A compiled function that depends on something that was fixed when it was traced: the second and third call say so.
/* eslint-disable tsxla/no-stale-capture, tsxla/no-escaped-tensor, tsxla/no-tensor-condition -- they are tested here */
import * as tx from 'tsxla';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

beforeEach(() => tx.rules.clear());
afterEach(() => {
  tx.rules.mode = 'warn';
  tx.rules.ignored.clear();
});
const stale = () => tx.rules.findings().filter(({ rule }) => rule === 'stale');
const f32 = (...values: number[]): tx.Tensor => tx.tensor(values, { dtype: 'f32' });
const DIFFERS = 'it no longer describes the program it was traced to: ';

describe('what is found', () => {
  test('a captured variable: said once, with its line, and calls go on as before', async () => {
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    let lr = 1;
    const f = tx.compile(function update(x: tx.Tensor) {
      return x.mul(lr);
    });
    const results: unknown[] = [];
    for (let i = 0; i < 5; i++, lr++) results.push(await (await f(f32(1, 2))).tolist());
    const text = said.mock.calls.map(([line]) => String(line)).join('');
    said.mockRestore();
    expect(results).toEqual(Array(5).fill([1, 2]));
    expect(text).toMatch(
      /^tsxla: rule stale: update: it no longer describes the program it was traced to: a constant f32\[2\]: was 1\.0, now 2\.0: calls still run the program of the first trace\n {4}at .*stale\.test\.ts:\d+\n {4}a number in the code is part of the program: pass it as an argument/m,
    );
    expect(text.match(/rule stale/g)).toHaveLength(1);
    expect(stale()).toHaveLength(1);
  });

  test('a counter', async () => {
    let step = 0;
    const f = tx.compile(function decay(x: tx.Tensor) {
      return x.div(++step);
    });
    for (let i = 0; i < 5; i++) expect(await (await f(f32(6))).tolist()).toEqual([6]);
    expect(step).toBe(3);
    expect(stale()[0]!.what).toBe(`decay: ${DIFFERS}a constant f32[1]: was 1.0, now 3.0`);
  });

  test('a variable that refers to another tensor', async () => {
    let w = f32(1, 2);
    const f = tx.compile(function scale(x: tx.Tensor) {
      return x.mul(w);
    });
    await f(f32(1, 1));
    w = f32(3, 4);
    expect(await (await f(f32(1, 1))).tolist()).toEqual([1, 2]);
    expect(stale()[0]!.what).toMatch(
      /^scale: .*: it uses the tensor made at .*:\d+, and used the tensor made at .*:\d+$/,
    );
    expect(stale()[0]!.fix).toMatch(
      /^which tensor a variable refers to is fixed when the function is traced: pass the tensor/,
    );
  });

  test('a flag, and values made inside', async () => {
    let [training, table] = [true, [0.5, 1.5]];
    const f = tx.compile(function branch(x: tx.Tensor) {
      return training ? x.add(1) : x.neg();
    });
    const g = tx.compile(function lookup(x: tx.Tensor) {
      return x.add(tx.tensor(table));
    });
    await f(f32(1, 2));
    await g(f32(1, 2));
    [training, table] = [false, [2.5, 3.5]];
    await f(f32(1, 2));
    await g(f32(1, 2));
    expect(stale().map(({ what }) => what.split(':')[0])).toEqual(['branch', 'lookup']);
  });

  test('a tensor that was made inside and kept: the program continues', async () => {
    let mask: tx.Tensor | undefined;
    const f = tx.compile(function masked(x: tx.Tensor) {
      mask ??= tx.ones([2]).mul(2);
      return x.mul(mask);
    });
    for (let i = 0; i < 4; i++) expect(await (await f(f32(1, 2))).tolist()).toEqual([2, 4]);
    expect(stale()[0]!.what).toMatch(
      /^masked: it fails when traced again: this f32\[2\] was made at .*, inside masked/,
    );
    expect(stale()[0]!.place).toMatch(/stale\.test\.ts:\d+$/);
  });

  test('a gradient that only a later call has to clear', async () => {
    const w = f32(1).requiresGrad_();
    const f = tx.compile(function clear() {
      w.grad = null;
      return w.mul(2);
    });
    await f();
    w.grad = f32(3);
    await f();
    expect(stale()[0]!.what).toBe(`clear: ${DIFFERS}it clears other gradients`);
  });
});

describe('what is not', () => {
  test('functions that describe the same: gradients, changes in place, random numbers, tables, branches on arguments', async () => {
    const w = tx.ones([4]).requiresGrad_();
    const table = Float32Array.from({ length: 20_000 }, (_, i) => i); // too large to be compared
    const f = tx.compile((x: tx.Tensor, mode: string) => {
      w.grad = null;
      const y = tx.dropout(mode === 'a' ? x.mul(w) : x.add(w), { p: 0.5 });
      y.sum().add(tx.tensor(table).sum()).backward();
      tx.noGrad(() => w.sub_(w.grad!));
      return y;
    });
    for (let i = 0; i < 4; i++) for (const mode of ['a', 'b']) await f(tx.ones([4]), mode);
    w.grad = null;
    for (let i = 0; i < 4; i++) await f(tx.ones([4]), 'a');
    expect(stale()).toEqual([]);
  });

  test('a gradient that was there in the first call', async () => {
    const w = f32(1).requiresGrad_();
    const f = tx.compile(() => {
      w.grad = null;
      return w.mul(2);
    });
    w.grad = f32(3);
    for (let i = 0; i < 3; i++) await f();
    expect([w.grad, stale()]).toEqual([null, []]);
  });

  test('a tensor that is gone: the call says so', async () => {
    const w = f32(1);
    const f = tx.compile((x: tx.Tensor) => x.mul(w));
    await f(f32(1));
    w.dispose();
    await expect(f(f32(1))).rejects.toThrow('was disposed');
    expect(stale()).toEqual([]);
  });
});

describe('the extra traces', () => {
  /** Six steps with everything a step can have, and what they leave. */
  async function train(check: boolean | undefined) {
    tx.manualSeed(7);
    const model = new tx.nn.Sequential(
      new tx.nn.Linear(4, 8),
      new tx.nn.BatchNorm1d(8),
      new tx.nn.Dropout(0.5),
      new tx.nn.Linear(8, 1),
    );
    const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 0.1 });
    const seen: number[] = [];
    let traces = 0;
    const step = tx.compile(
      (x: tx.Tensor) => {
        traces++;
        optimizer.zeroGrad();
        const loss = model.forward(x).square().mean();
        loss.backward();
        optimizer.step();
        tx.afterStep(async (l: tx.Tensor) => void seen.push(Number(await l.item())), loss);
        return loss;
      },
      { ...(check !== undefined && { check }) },
    );
    const losses: unknown[] = [];
    for (let i = 0; i < 6; i++)
      losses.push(await (await step(tx.ones([3, 4]).mul(tx.arange(3).reshape([3, 1])))).item());
    await tx.sync({ wait: true });
    const state = await Promise.all(Object.values(model.stateDict()).map((t) => t.tolist()));
    return { losses, seen, state, next: await tx.rand([2]).tolist(), traces, programs: step.programs };
  }

  test('change nothing: losses, statistics, moments, random numbers, gradients and afterStep', async () => {
    const [plain, checked] = [await train(false), await train(undefined)];
    expect([plain.traces, checked.traces]).toEqual([1, 3]);
    expect({ ...checked, traces: 0 }).toEqual({ ...plain, traces: 0 });
    expect(checked.seen).toEqual(checked.losses);
    expect(stale()).toEqual([]);
  });

  test('happen in the second and third call with each kind of arguments; true: in each; false and without the rule: never', async () => {
    const traces = async (check?: boolean) => {
      let n = 0;
      const f = tx.compile((x: tx.Tensor) => x.add(n++ < 0 ? 0 : 1), { ...(check !== undefined && { check }) });
      for (const size of [2, 3]) for (let i = 0; i < 5; i++) await f(tx.ones([size]));
      f.lower([tx.ones([2])]);
      expect(f.programs).toBe(2);
      return n;
    };
    expect([await traces(), await traces(false), await traces(true)]).toEqual([6, 2, 11]);
    tx.rules.ignored.add('stale');
    expect(await traces()).toBe(2);
    tx.rules.ignored.clear();
    tx.rules.mode = 'off';
    expect([await traces(), await traces(true)]).toEqual([2, 11]);
  });

  test('rules.mode error: a RuleError, and nothing was changed', async () => {
    tx.rules.mode = 'error';
    let k = 1;
    const total = f32(0);
    const f = tx.compile(function addAll() {
      total.add_(k);
    });
    await f();
    k = 2;
    await expect(f()).rejects.toThrow(/^rule stale: addAll: /);
    expect(await total.tolist()).toEqual([1]);
  });
});

describe('a number that is an argument', () => {
  const USES: [string, (n: tx.Tensor) => unknown][] = [
    ['n > 3', (n) => (n as unknown as number) > 3],
    ['n + 1', (n) => (n as unknown as number) + 1],
    ['-n', (n) => -n],
    ['n % 2', (n) => (n as unknown as number) % 2],
    ['Math.max(n, 1)', (n) => Math.max(n as unknown as number, 1)],
    [
      'for (i < n)',
      (n) => {
        for (let i = 0; i < (n as unknown as number); i++);
      },
    ],
    ['Array.from({ length: n })', (n) => Array.from({ length: n as unknown as number })],
  ];
  test.each(USES)('%s is an error that says how to have the number', async (_, use) => {
    const f = tx.compile((x: tx.Tensor, n: tx.Tensor) => {
      use(n);
      return x;
    });
    await expect(f(f32(1), 2)).rejects.toThrow(
      /this f32\[\] is not a number \(a number that is an argument of a compiled function is a tensor inside; staticArguments are not\)/,
    );
    let seen: unknown;
    const record = (x: tx.Tensor, n: number) => {
      seen = use(n as unknown as tx.Tensor);
      return x;
    };
    const g = tx.compile(record, { staticArguments: [1] });
    await g(f32(1), 2);
    expect(seen).toEqual(use(2 as unknown as tx.Tensor));
  });
});
