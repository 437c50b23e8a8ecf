// A compiled function and modules that are changed outside it: the next call traces it again.
import * as tx from 'tsxla';
import { nn } from 'tsxla';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

beforeEach(() => {
  tx.rules.clear();
  tx.rules.mode = 'error'; // a stale result would be a RuleError
  tx.rules.ignored.add('constants');
});
afterEach(() => {
  tx.rules.mode = 'warn';
  tx.rules.ignored.clear();
});
const f32 = (...values: number[]): tx.Tensor => tx.tensor(values, { dtype: 'f32' });
const parameter = (...values: number[]) => new nn.Parameter(f32(...values));
/** Adds a number. */
class Shift extends nn.Module {
  by: number;
  constructor(by: number) {
    super();
    this.by = by;
  }
  override forward(x: tx.Tensor): tx.Tensor {
    return x.add(this.by);
  }
}
/** Compiles forward; `at` is its result for the vector [1, 2]. */
function compiled(module: nn.Module & { forward(x: tx.Tensor): tx.Tensor }) {
  let traces = 0;
  const f = tx.compile(function apply(x: tx.Tensor) {
    traces++;
    return module.forward(x);
  });
  return { at: async () => (await f(f32(1, 2))).tolist(), traces: () => traces };
}

describe('what is changed outside is seen by the next call, however many calls went before', () => {
  /** Calls more often than the rule `stale` looks, then changes, calls twice, and gives all results that differ. */
  async function results(
    module: nn.Module & { forward(x: tx.Tensor): tx.Tensor },
    ...changes: (() => unknown)[]
  ): Promise<unknown[]> {
    const { at } = compiled(module);
    const found = [];
    for (const change of [() => {}, ...changes]) {
      change();
      const first = await at();
      for (let i = 0; i < 3; i++) expect(await at()).toEqual(first);
      found.push(first);
    }
    return found;
  }

  test('a parameter', async () => {
    const lin = new nn.Linear(2, 1, { bias: false });
    lin.weight = new nn.Parameter(tx.tensor([[1, 1]], { dtype: 'f32' }));
    const replace = (...row: number[]) => {
      lin.weight = new nn.Parameter(tx.tensor([row], { dtype: 'f32' }));
    };
    expect(
      await results(
        lin,
        () => replace(2, 0),
        () => replace(0, 5),
      ),
    ).toEqual([[3], [2], [10]]);
  });
  test('a bias that comes and goes', async () => {
    const lin = new nn.Linear(2, 1);
    tx.noGrad(() => lin.weight.fill_(1));
    tx.noGrad(() => lin.bias!.fill_(1));
    const bias = lin.bias;
    const set = (b: typeof bias) => () => {
      lin.bias = b;
    };
    expect(await results(lin, set(null), set(bias))).toEqual([[4], [3], [4]]);
  });
  test('modules: setSubmodule, append, a field, a plain list', async () => {
    const seq = new nn.Sequential(new Shift(1), new Shift(10));
    const deep = new nn.Sequential(seq);
    expect(
      await results(
        deep,
        () => deep.setSubmodule('0.1', new Shift(20)),
        () => seq.append(new Shift(100)),
      ),
    ).toEqual([
      [12, 13],
      [22, 23],
      [122, 123],
    ]);
    class Listed extends nn.Module {
      head: Shift = new Shift(1);
      list = [new Shift(10), new Shift(20)];
      override forward(x: tx.Tensor): tx.Tensor {
        return this.list.reduce((y, m) => m.forward(y), this.head.forward(x));
      }
    }
    const listed = new Listed();
    expect(
      await results(
        listed,
        () => {
          listed.head = new Shift(2);
        },
        () => listed.list.pop(),
        () => {
          listed.list[0] = listed.head;
        },
      ),
    ).toEqual([
      [32, 33],
      [33, 34],
      [13, 14],
      [5, 6],
    ]);
  });
  test('a dict of modules', async () => {
    class Named extends nn.Module {
      parts = new nn.ModuleDict({ a: new Shift(1) });
      override forward(x: tx.Tensor): tx.Tensor {
        for (const [, m] of this.parts) x = m.forward(x);
        return x;
      }
    }
    const named = new Named();
    expect(
      await results(
        named,
        () => named.parts.set('b', new Shift(2)),
        () => named.parts.set('a', new Shift(5)),
      ),
    ).toEqual([
      [2, 3],
      [4, 5],
      [8, 9],
    ]);
  });
  test('numbers of layers: p of a dropout, eps of a norm', async () => {
    const dropout = new nn.Dropout({ p: 0 });
    expect(
      await results(dropout, () => {
        dropout.p = 1;
      }),
    ).toEqual([
      [1, 2],
      [0, 0],
    ]);
    const norm = new nn.LayerNorm([2]);
    const [[low], [high]] = (await results(norm, () => {
      norm.eps = 100;
    })) as [[number], [number]];
    expect(low).toBeCloseTo(-1, 3);
    expect(high).toBeCloseTo(-0.5 / Math.sqrt(100.25), 5);
  });
  test("a number, a string, an object and a method of a user's own module", async () => {
    class Own extends nn.Module {
      scale = 2;
      mode = 'add';
      config = { offset: 1, inner: { twice: false } };
      override forward(x: tx.Tensor): tx.Tensor {
        const { offset, inner } = this.config;
        const y = this.mode === 'add' ? x.add(offset) : x.mul(this.scale);
        return inner.twice ? y.mul(2) : y;
      }
    }
    const own = new Own();
    const found = await results(
      own,
      () => {
        own.config.offset = 3;
      },
      () => {
        own.config.inner.twice = true;
      },
      () => {
        own.mode = 'mul';
      },
      () => {
        own.scale = 5;
      },
      () => {
        own.forward = (x) => x.neg();
      },
      () => {
        delete (own as Partial<Own>).forward;
      },
    );
    expect(found).toEqual([
      [2, 3],
      [4, 5],
      [8, 10],
      [4, 8],
      [10, 20],
      [-1, -2],
      [10, 20],
    ]);
  });
  test('weights that are tied after the compile, and learned from there', async () => {
    const [a, b] = [new nn.Linear(2, 2, { bias: false }), new nn.Linear(2, 2, { bias: false })];
    tx.noGrad(() => a.weight.copy_(tx.eye(2)));
    tx.noGrad(() => b.weight.copy_(tx.eye(2).mul(3)));
    const train = tx.compile(function train(x: tx.Tensor) {
      for (const p of [...a.parameters(), ...b.parameters()]) p.grad = null;
      const y = b.forward(a.forward(x));
      y.sum().backward();
      return y;
    });
    for (let i = 0; i < 4; i++)
      expect(await (await train(tx.tensor([[1, 2]], { dtype: 'f32' }))).tolist()).toEqual([[3, 6]]);
    b.weight = a.weight;
    expect(await (await train(tx.tensor([[1, 2]], { dtype: 'f32' }))).tolist()).toEqual([[1, 2]]);
    // y = x W'W': d sum(y) / dW is that of both uses.
    expect(await a.weight.grad!.tolist()).toEqual([
      [2, 4],
      [2, 4],
    ]);
  });
  test('parameters that a traced optimizer loop walks over', async () => {
    class Bag extends nn.Module {
      a = parameter(1);
      extra?: nn.Parameter;
      override forward(x: tx.Tensor): tx.Tensor {
        return this.parameters().reduce((y, p) => y.add(p), x);
      }
    }
    const bag = new Bag();
    expect(
      await results(bag, () => {
        bag.extra = parameter(10);
      }),
    ).toEqual([
      [2, 3],
      [12, 13],
    ]);
  });
});

describe('what causes no trace', () => {
  test('changes of other modules, new modules, values of parameters and equal values', async () => {
    const [used, other] = [new Shift(1), new Shift(2)];
    const { at, traces } = compiled(new nn.Sequential(used));
    for (let i = 0; i < 3; i++) await at();
    expect(traces()).toBe(3); // the rule `stale` looks twice
    other.by = 7;
    used.by = 1;
    new nn.Sequential(new nn.Linear(2, 2)).append(new nn.ReLU());
    for (let i = 0; i < 3; i++) expect(await at()).toEqual([2, 3]);
    expect(traces()).toBe(3);
  });

  test('what the function changes itself: a counter, a list it adds to, a value it keeps', async () => {
    class Counts extends nn.Module {
      calls = 0;
      sizes: number[] = [];
      last?: string;
      kept?: number;
      override forward(x: tx.Tensor): tx.Tensor {
        this.calls++;
        this.sizes.push(x.numel());
        this.last = `call ${this.calls}`;
        this.kept ??= 5;
        return x.add(this.kept + (this.last ? 6 : 0));
      }
    }
    const module = new Counts();
    const { at, traces } = compiled(module);
    for (let i = 0; i < 6; i++) expect(await at()).toEqual([12, 13]);
    expect(traces()).toBe(3);
    expect(module.calls).toBe(3);
    module.kept = 7; // from outside
    for (let i = 0; i < 6; i++) expect(await at()).toEqual([14, 15]);
    expect(traces()).toBe(6);
    module.forward(f32(1)); // its own code, outside of the compiled function
    for (let i = 0; i < 6; i++) expect(await at()).toEqual([14, 15]);
    expect(traces()).toBeLessThanOrEqual(9);
  });

  test('modules that the function makes', async () => {
    let traces = 0;
    const f = tx.compile(function inner(x: tx.Tensor) {
      traces++;
      const m = new Shift(2);
      m.by = 3;
      return m.forward(x);
    });
    for (let i = 0; i < 6; i++) expect(await (await f(f32(1))).tolist()).toEqual([4]);
    expect(traces).toBe(3);
  });

  test('a value that comes back, whose program and trace are still there', async () => {
    const shift = new Shift(1);
    const { at, traces } = compiled(shift);
    for (let i = 0; i < 12; i++) {
      shift.by = i % 2;
      expect(await at()).toEqual([1 + (i % 2), 2 + (i % 2)]);
    }
    expect(traces()).toBe(6); // three for each of both
  });
});

test('a module that was replaced is not kept alive by old traces', async () => {
  const seq = new nn.Sequential(new Shift(1));
  const { at } = compiled(seq);
  await at();
  const gone = new WeakRef(seq.at(0));
  seq.setSubmodule('0', new Shift(2));
  await at();
  await new Promise((resolve) => setImmediate(resolve));
  (globalThis as { gc?: () => void }).gc?.();
  expect(typeof (globalThis as { gc?: unknown }).gc).toBe('function');
  expect(gone.deref()).toBeUndefined();
});
