// Clipping, schedules, the scaler, averages, state dicts and errors of tsxla/optim.
import * as tx from 'tsxla';
import { StateDictError } from 'tsxla';
import { readTorch } from 'tsxla/io';
import { Adafactor, AdamW, clipGradNorm, clipGradValue, EMA, GradScaler, Lion, type Optimizer, SGD } from 'tsxla/optim';
import { describe, expect, test } from 'vitest';
import { describedSince } from '../../dist/runtime/evaluate.js';
import { counts } from '../../dist/runtime/program.js';
import { golden, goldenPath } from '../support.js';

interface Golden {
  readonly saved: { then: number[]; later: number[] };
  readonly shapes: number[][];
  readonly start: number[][];
  readonly gradients: number[][][];
  readonly clipped: { normType: string; maxNorm: number; total: number; grads: number[][] }[];
  readonly scaled: { bad: Record<string, string>; seen: { p: number[]; scale: number; tracker: number }[] };
  readonly schedules: { kind: string; options: object; seen: number[][][]; one?: boolean }[];
}

const { saved, shapes, start, gradients, clipped, scaled, schedules } = JSON.parse(golden('optim.json')) as Golden;
const first = gradients[0]!;
const list = async (t: tx.Tensor) => Array.from((await t.to('f64').flatten().data()) as Float64Array);
const close = (got: readonly number[], want: readonly number[], digits = 6) => {
  expect(want.length).toBeGreaterThan(0);
  expect(got.length).toBe(want.length);
  for (const [i, x] of got.entries()) expect(x).toBeCloseTo(want[i]!, digits);
};
/** A state as a file gives it. */
const arraysOf = async (state: Readonly<Record<string, tx.Tensor>>) =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(state).map(
        async ([k, { dtype, shape }]) => [k, { dtype, shape, data: await state[k]!.data() }] as const,
      ),
    ),
  );
const parameter = (...values: number[]) => tx.tensor(values, { dtype: 'f32', requiresGrad: true });

describe('an optimizer', () => {
  const problem = () => {
    const [w, b] = [tx.zeros([3, 1], { requiresGrad: true }), tx.zeros([1], { requiresGrad: true })];
    const x = tx.tensor(
      [
        [1, 2, 3],
        [0, 1, -1],
        [2, 0, 1],
      ],
      { dtype: 'f32' },
    );
    const y = tx.tensor([[1], [2], [-1]], { dtype: 'f32' });
    const optimizer = new AdamW([w, b], { lr: 0.1 });
    const describe = () => {
      optimizer.zeroGrad();
      const loss = tx.mseLoss(x.matmul(w).add(b), y);
      loss.backward();
      clipGradNorm([w, b], 1);
      optimizer.step();
      return loss;
    };
    return { optimizer, describe };
  };

  test('is the same in a plain loop, in step and in compile, and compiles once', async () => {
    const losses: number[][] = [];
    for (const way of ['plain', 'step', 'compile']) {
      const { describe, optimizer } = problem();
      const compiled = tx.compile(describe);
      const all: number[] = [];
      for (let i = 0; i < 6; i++) {
        optimizer.paramGroups[0]!.lr = 0.1 / (1 + i);
        const loss = way === 'plain' ? describe() : await (way === 'step' ? tx.step(describe) : compiled());
        all.push(Number(await loss.item()));
      }
      losses.push(all);
      if (way === 'compile') expect(compiled.programs).toBe(1);
    }
    expect(losses[0]![5]).toBeLessThan(losses[0]![0]!);
    close(losses[1]!, losses[0]!);
    close(losses[2]!, losses[0]!);
  });

  test('a plain loop with another learning rate each time compiles nothing after its second pass', async () => {
    const { describe, optimizer } = problem();
    let after = 0;
    for (let i = 0; i < 6; i++) {
      optimizer.paramGroups[0]!.lr = 0.1 / (1 + i);
      await describe().item();
      if (i === 1) after = counts.compiled;
    }
    expect(after).toBeGreaterThan(0);
    expect(counts.compiled).toBe(after);
  });

  test('what a step was traced from does not count as waiting to be computed', async () => {
    const { describe } = problem();
    const train = tx.compile(describe);
    await train();
    expect(describedSince()).toBeLessThan(20); // several hundred operations were described
  });

  test.each([
    [SGD, 7],
    [AdamW, 14],
    [Adafactor, 51],
  ])('%o: another parameter of the same shape is that many operations', (Kind, want) => {
    const operations = (n: number) => {
      const params = Array.from({ length: n }, () => tx.zeros([8, 16], { requiresGrad: true }));
      const optimizer = new Kind(params, Kind === SGD ? { momentum: 0.9 } : {});
      const train = tx.compile((grads: tx.Tensor[]) => {
        params.forEach((p, i) => void (p.grad = grads[i]!));
        optimizer.step();
        optimizer.zeroGrad();
      });
      return train.stablehlo([params]).match(/^%\d+ = /gm)!.length;
    };
    expect(operations(4) - operations(3)).toBe(want); // numbers are brought to a shape once, not by each parameter
  });

  test('groups have options of their own, and a parameter without a gradient stays as it is', async () => {
    const [a, b, c] = [parameter(1), parameter(1), parameter(1)];
    const optimizer = new SGD(
      [
        { params: [['a', a]], lr: 0.5 },
        {
          params: new Map([
            ['b', b],
            ['c', c],
          ]),
        },
      ],
      { lr: 0.1 },
    );
    a.mul(2).add(b).sum().backward();
    optimizer.step();
    expect([await list(a), await list(c)]).toEqual([[0], [1]]);
    close(await list(b), [0.9]);
    expect(optimizer.paramGroups.map((g) => g.lr)).toEqual([0.5, 0.1]);
    optimizer.zeroGrad();
    expect(a.grad).toBe(null);
    expect(optimizer.stateDict().param_groups[1]).toMatchObject({ param_names: ['b', 'c'], params: [1, 2] });
  });

  test('skipIf leaves everything as it was', async () => {
    const p = parameter(1, 2);
    const optimizer = new AdamW([p]);
    const train = tx.compile((skip: tx.Tensor) => {
      optimizer.zeroGrad();
      p.square().sum().backward();
      optimizer.step({ skipIf: skip });
    });
    await train(tx.tensor(true));
    expect(await list(p)).toEqual([1, 2]);
    expect(await list(optimizer.state.get(p)!.expAvg!)).toEqual([0, 0]);
    await train(tx.tensor(false));
    close(await list(p), [0.99899, 1.99898]); // the first step, bias corrections and all
  });

  test('master weights keep what bf16 would lose, and follow a parameter that is set', async () => {
    const p = tx.ones([2], { dtype: 'bf16', requiresGrad: true });
    const optimizer = new SGD([p], { lr: 1e-3, masterWeights: true });
    const train = tx.compile(() => {
      p.grad = tx.ones([2], { dtype: 'bf16' });
      optimizer.step();
    });
    for (let i = 0; i < 10; i++) await train();
    const { master } = optimizer.state.get(p)!;
    close(await list(master!), [0.99, 0.99]);
    expect(await list(p)).toEqual([0.98828125, 0.98828125]); // 0.99 in bf16; without the copy: 1, for ever
    tx.noGrad(() => p.copy_([4, 8]));
    await train();
    close(await list(master!), [3.999, 7.999], 5);
  });

  test.each([
    ['no parameters', () => new SGD([]), /SGD: the list of parameters is empty/],
    ['one tensor', () => new SGD(parameter(1) as never), /the parameters are a single tensor, f32\[1\]: pass a list/],
    [
      'what is computed',
      () => new SGD([parameter(1).mul(2)]),
      /parameter 0, f32\[1\], was computed from other tensors/,
    ],
    ['what is no tensor', () => new SGD([3 as never]), /parameter 0 is .*: it must be a tensor/],
    ['integers', () => new SGD([tx.tensor([1])]), /parameter 0 is i64\[1\]: it must have a float or complex dtype/],
    ['a wrong lr', () => new SGD([parameter(1)], { lr: -1 }), /SGD: lr is -1: it must be 0 or more/],
    [
      'a wrong beta',
      () => new AdamW([parameter(1)], { betas: [0.9, 1] }),
      /betas is \[0.9,1\]: it must be 2 numbers, each from 0/,
    ],
    ['no number', () => new AdamW([parameter(1)], { eps: '1' as never }), /eps is '1': it must be 0 or more/],
    ['NaN', () => new Lion([parameter(1)], { lr: Number.NaN }), /lr is NaN/],
    [
      'an unknown option',
      () => new AdamW([parameter(1)], { momentum: 1 } as never),
      /no option 'momentum': it takes lr, betas/,
    ],
    [
      'nesterov alone',
      () => new SGD([parameter(1)], { nesterov: true }),
      /it needs a momentum above 0 and no dampening/,
    ],
  ])('%s is an error', (_, make, text) => expect(make).toThrow(text));

  test('a parameter that is given twice is an error that names it', () => {
    const p = parameter(1);
    expect(() => new SGD([p, p])).toThrow(/parameter 0, f32\[1\], is given twice/);
    expect(() => new SGD([{ params: [['w', p]] }, { params: [['w', p]] }])).toThrow(
      /parameter 'w', f32\[1\], is in group 0 and in group 1/,
    );
  });

  test('options that are numbers are set outside of steps, and flags never', async () => {
    const p = parameter(1);
    const [group] = new SGD([p]).paramGroups;
    const train = tx.compile(function train() {
      group!.lr = 0.5;
    });
    await expect(train()).rejects.toThrow(
      /SGD: lr is set inside train, which only describes a computation: set it outside/,
    );
    expect(() => void (group!.lr = -1)).toThrow(/lr is -1/);
    expect(() => void (group!.nesterov = true)).toThrow(/nesterov cannot be changed, as it is part of the program/);
    await expect(tx.compile(() => void new SGD([p]))()).rejects.toThrow(/SGD: created inside a step/);
  });
});

describe('state dicts', () => {
  const run = async (optimizer: Optimizer, p: tx.Tensor, steps: number) => {
    for (let i = 0; i < steps; i++) {
      optimizer.zeroGrad();
      p.square().sum().backward();
      optimizer.step();
      await tx.sync();
    }
    return list(p);
  };

  test('go on where they were, from tensors and from files', async () => {
    const [a, b, c] = [parameter(1, -2), parameter(1, -2), parameter(1, -2)];
    const [one, two, three] = [a, b, c].map((p) => new AdamW([p], { lr: 0.1, amsgrad: true }));
    await run(one!, a, 3);
    for (const p of [b, c]) tx.noGrad(() => p.copy_(a));
    const saved = one!.stateDict();
    expect(Object.keys(saved.state[0]!)).toEqual(['step', 'exp_avg', 'exp_avg_sq', 'max_exp_avg_sq']);
    expect(saved.param_groups[0]).toMatchObject({ lr: 0.1, weight_decay: 0.01, betas: [0.9, 0.999], params: [0] });
    two!.loadStateDict(saved);
    // As torch writes it and a file gives it back: numbers as keys of a map, arrays, options of torch's own.
    const arrays = await arraysOf(saved.state[0]!);
    const torch = {
      ...saved.param_groups[0],
      foreach: null,
      capturable: false,
      decoupled_weight_decay: true,
      initial_lr: 0.1,
    };
    three!.loadStateDict(
      new Map<string, unknown>([
        ['state', new Map([[0, new Map(Object.entries(arrays))]])],
        ['param_groups', [torch]],
      ]),
    );
    const want = await run(one!, a, 3);
    expect(await run(two!, b, 3)).toEqual(want);
    expect(await run(three!, c, 3)).toEqual(want);
  });

  test('are loaded from files without a program, and the step continues as the same program', async () => {
    const p = tx.tensor([[1, -2]], { dtype: 'f32', requiresGrad: true });
    const optimizer = new AdamW([p], { lr: 0.1 });
    const ema = new EMA([p]);
    const train = tx.compile(() => {
      optimizer.zeroGrad();
      p.square().sum().backward();
      optimizer.step();
      ema.update();
    });
    for (let i = 0; i < 3; i++) await train();
    const { state, param_groups } = optimizer.stateDict();
    const files = { state: { 0: await arraysOf(state[0]!) }, param_groups };
    const averages = await arraysOf(Object.fromEntries(ema.stateDict()));
    const then = await p.data();
    await train();
    const [want, average] = [await p.data(), await ema.averages[0]!.data()];

    const before = { compiled: counts.compiled, run: counts.executed };
    optimizer.loadStateDict(files);
    ema.loadStateDict(averages);
    tx.noGrad(() => p.copy_([[...(then as Float32Array)]]));
    await train();
    await tx.sync({ wait: true });
    expect({ compiled: counts.compiled, run: counts.executed }).toEqual({ ...before, run: before.run + 1 });
    expect([await p.data(), await ema.averages[0]!.data()]).toEqual([want, average]);
    expect(train.programs).toBe(1);
  });

  test("a file of torch's continues where torch was", async () => {
    const p = parameter(...saved.then);
    const optimizer = new AdamW([p], { amsgrad: true });
    optimizer.loadStateDict((await readTorch(goldenPath('optim.pt'))) as object);
    expect(optimizer.paramGroups[0]!.lr).toBe(0.1);
    close(await run(optimizer, p, 3), saved.later);
  });

  test("torch's SGD has no count: its buffer continues", async () => {
    const p = parameter(1);
    const optimizer = new SGD([p], { lr: 1, momentum: 0.5, dampening: 0.5 });
    const { param_groups } = optimizer.stateDict();
    const buffer = { dtype: 'f32', shape: [1], data: Float32Array.of(4) };
    optimizer.loadStateDict({ state: { 0: { momentum_buffer: buffer } }, param_groups });
    p.grad = tx.tensor([2], { dtype: 'f32' });
    optimizer.step();
    expect(await list(p)).toEqual([1 - (0.5 * 4 + 0.5 * 2)]);
  });

  test('list all that does not fit, and change nothing', async () => {
    const p = parameter(1, 2);
    const optimizer = new AdamW([p], { lr: 0.1 });
    const array = (...shape: number[]) => ({ dtype: 'f32', shape, data: new Float32Array(3) });
    const state = { 0: { step: 3, exp_avg: array(3), other: array(3) }, 7: {} };
    const group = { ...optimizer.stateDict().param_groups[0], lr: -1, amsgrad: true, more: 1 };
    const load = () => optimizer.loadStateDict({ state, param_groups: [group] });
    expect(load).toThrow(StateDictError);
    try {
      load();
    } catch (e) {
      expect((e as StateDictError).keys).toEqual({
        missing: ['state.0.exp_avg_sq'],
        unexpected: ['param_groups.0.more', 'state.0.other', 'state.7'],
        misshapen: ['param_groups.0.lr', 'param_groups.0.amsgrad', 'state.0.exp_avg'],
      });
      expect((e as Error).message).toContain('size mismatch for state.0.exp_avg: [3] in the state dict, [2] here.');
    }
    expect(optimizer.paramGroups[0]!.lr).toBe(0.1);
    const short = { dtype: 'f32', shape: [2], data: new Float32Array(3) };
    expect(() =>
      optimizer.loadStateDict({
        state: { 0: { step: 1, exp_avg: short, exp_avg_sq: short } },
        param_groups: optimizer.stateDict().param_groups,
      }),
    ).toThrow('state.0.exp_avg: 3 elements in the state dict, 2 here');
    expect(() => optimizer.loadStateDict({})).toThrow(/Missing key\(s\) in state_dict: "state", "param_groups"/);
  });
});

describe('clipping', () => {
  const withGradients = () =>
    start.map((x, i) => {
      const p = tx.tensor(Float32Array.from(x), { shape: shapes[i]!, requiresGrad: true });
      p.grad = tx.tensor(Float32Array.from(first[i]!), { shape: shapes[i]! });
      return p;
    });

  test.each(clipped)('by norm $normType to $maxNorm is torch’s', async ({ normType, maxNorm, total, grads }) => {
    const params = withGradients();
    const norm = clipGradNorm(params, maxNorm, {
      normType: normType === 'inf' ? Number.POSITIVE_INFINITY : Number(normType),
    });
    expect(Number(await norm.item())).toBeCloseTo(total, 5);
    for (const [i, p] of params.entries()) close(await list(p.grad!), grads[i]!);
  });

  test('by value limits every element', async () => {
    const params = withGradients();
    clipGradValue(params, 0.25);
    const all = (await Promise.all(params.map((p) => list(p.grad!)))).flat();
    expect(all).toEqual(first.flat().map((x: number) => Math.fround(Math.min(0.25, Math.max(-0.25, x)))));
  });

  test('a norm that is not finite is an error of the next step, where that is asked for', async () => {
    const p = parameter(1);
    const train = tx.compile((g: tx.Tensor) => {
      p.grad = g;
      clipGradNorm([p], 1, { errorIfNonfinite: true });
    });
    await train(tx.tensor([Number.NaN]));
    await expect(tx.sync({ wait: true })).rejects.toThrow(tx.NonfiniteGradientError);
  });
});

describe('schedules', () => {
  type Kind = 'StepLR';
  test.each(schedules.map((s) => [s.kind, JSON.stringify(s.options), s] as const))(
    '%s %s is torch’s in every step',
    (kind, _, { options, seen, one }) => {
      const rates = one ? [0.1] : [0.1, 0.02];
      const make = () =>
        new SGD(
          rates.map((lr) => ({ params: [parameter(1)], lr })),
          { momentum: 0.9 },
        );
      const [optimizer, other] = [make(), make()];
      const how = kind === 'LambdaLR' ? (n: number) => 0.95 ** n : options;
      const schedule = new tx.optim[kind as Kind](optimizer, how as never);
      const resumed = new tx.optim[kind as Kind](other, how as never);
      seen.forEach((want: number[][], n: number) => {
        expect(schedule.at(n)).toEqual(schedule.getLastLr());
        optimizer.paramGroups.forEach((g, i) => {
          expect(g.lr).toBeCloseTo(want[i]![0]!, 12);
          expect(g.momentum).toBeCloseTo(want[i]![1]!, 12);
        });
        if (n === 50) {
          resumed.loadStateDict(schedule.stateDict());
          expect(schedule.state()).toEqual(schedule.stateDict());
          expect(other.paramGroups.map((g) => g.lr)).toEqual(optimizer.paramGroups.map((g) => g.lr));
        }
        schedule.step();
      });
    },
  );

  test('a cosine stays on its floor; a cycle that is over is an error; momentum is needed where it is cycled', () => {
    const optimizer = new AdamW([parameter(1)], { lr: 1 });
    expect(new tx.optim.CosineLR(optimizer, { totalSteps: 10, floor: 0.1 }).at(500)).toEqual([0.1]);
    expect(() => new tx.optim.OneCycleLR(optimizer, { maxLr: 1, totalSteps: 5 }).at(6)).toThrow(
      /step 6 exceeds totalSteps 5/,
    );
    expect(optimizer.paramGroups[0]!.betas[0]).toBe(0.95);
    const adagrad = new tx.optim.Adagrad([parameter(1)], { lr: 1 });
    expect(() => new tx.optim.OneCycleLR(adagrad, { maxLr: 1, totalSteps: 5 })).toThrow(
      /OneCycleLR: Adagrad has neither momentum nor betas to cycle: pass cycleMomentum: false/,
    );
    new tx.optim.OneCycleLR(adagrad, { maxLr: 1, totalSteps: 5, cycleMomentum: false });
    expect(adagrad.paramGroups[0]!.lr).toBeCloseTo(0.04, 12);
    expect(() => new tx.optim.CosineLR(optimizer, { totalSteps: 0 })).toThrow(
      /totalSteps is 0: it must be more than 0/,
    );
  });
});

// The numbers are torch's: p of [1, -2, 3] after six steps.
describe('a momentum that was 0', () => {
  const run = async (options: object, way: string, each: (optimizer: SGD) => (n: number) => void) => {
    const p = tx.tensor([1, -2, 3], { dtype: 'f64', requiresGrad: true });
    const optimizer = new SGD([p], { lr: 0.1, ...options });
    const after = each(optimizer);
    const describe = () => {
      optimizer.zeroGrad();
      const weights = tx.tensor([1, 0.5, 0.25], { dtype: 'f64' });
      p.sub(1).square().mul(weights).sum().backward();
      optimizer.step();
    };
    const step = way === 'compile' ? tx.compile(describe) : describe;
    for (let n = 1; n <= 6; n++) {
      await step();
      after(n);
    }
    return { optimizer, values: await list(p) };
  };
  const oneCycle = (optimizer: SGD) => {
    const schedule = new tx.optim.OneCycleLR(optimizer, { maxLr: 0.2, totalSteps: 8 });
    return () => schedule.step();
  };
  const later = (optimizer: SGD) => (n: number) => {
    if (n === 3) optimizer.paramGroups[0]!.momentum = 0.9;
  };
  test.each(['plain', 'compile'])('is cycled, and set later: %s', async (way) => {
    const { values, optimizer } = await run({}, way, oneCycle);
    close(values, [1, 2.20844282253541, 1.298021915690886], 12);
    close((await run({ dampening: 0.3 }, way, oneCycle)).values, [1, 1.61120886242084, 1.6179587318295656], 12);
    close((await run({}, way, later)).values, [1, -0.062882, 2.2541252812499994], 12);
    const other = new SGD([parameter(1, -2, 3)], { lr: 1 });
    other.loadStateDict(optimizer.stateDict());
    expect(other.paramGroups[0]!.momentum).toBe(optimizer.paramGroups[0]!.momentum);
    expect([...other.state.values()].map((s) => Object.keys(s))).toEqual([['momentumBuffer']]);
  });
  test('cannot be set later where dampening tells the first gradient from others', async () => {
    await expect(run({ dampening: 0.3 }, 'plain', later)).rejects.toThrow(
      /momentum was 0 in earlier steps, so there is no buffer to dampen: create a new optimizer/,
    );
  });
});

describe('the scaler', () => {
  test("skips, shrinks and grows as torch's does, in one program, and reads nothing", async () => {
    const p = parameter(1, -2);
    const optimizer = new AdamW([p], { lr: 0.1 });
    const scaler = new GradScaler({ initScale: 16, growthInterval: 3 });
    const train = tx.compile((factor: tx.Tensor) => {
      optimizer.zeroGrad();
      scaler.scale(p.square().sum().mul(factor)).backward();
      scaler.unscale_(optimizer);
      clipGradNorm([p], 1);
      scaler.step(optimizer);
      scaler.update();
    });
    const bad = new Map(
      Object.entries(scaled.bad).map(([k, v]) => [Number(k), Number(String(v).replace('inf', 'Infinity'))]),
    );
    for (const [k, want] of scaled.seen.entries()) {
      await train(bad.get(k) ?? 1);
      close(await list(p), want.p);
      expect(await scaler.getScale()).toBe(want.scale);
      expect(await list((scaler.stateDict() as { _growth_tracker: tx.Tensor })._growth_tracker)).toEqual([
        want.tracker,
      ]);
    }
    expect(train.programs).toBe(1);
  });

  test('is off, loads, and says what is called in the wrong order', async () => {
    const p = parameter(1);
    const optimizer = new SGD([p], { lr: 1 });
    const off = new GradScaler({ enabled: false });
    p.grad = tx.tensor([0.25]);
    off.step(optimizer);
    off.update();
    expect([await list(p), await off.getScale()]).toEqual([[0.75], 1]);
    const scaler = new GradScaler();
    expect(() => scaler.update()).toThrow(/update\(\) was called before step\(\)/);
    scaler.step(optimizer);
    expect(() => scaler.step(optimizer)).toThrow(/step\(\) has already been called/);
    expect(() => scaler.unscale_(optimizer)).toThrow(/unscale_\(\) after step\(\)/);
    scaler.update();
    scaler.loadStateDict({ scale: 8, growth_factor: 4, backoff_factor: 0.25, growth_interval: 1, _growth_tracker: 0 });
    p.grad = tx.tensor([8]).to('f32');
    scaler.step(optimizer);
    scaler.update();
    expect(await scaler.getScale()).toBe(32);
    expect(() => new GradScaler({ growthFactor: 1 })).toThrow(/growthFactor is 1: it must be more than 1/);
    const half = tx.zeros([1], { dtype: 'f16', requiresGrad: true });
    half.grad = tx.ones([1], { dtype: 'f16' });
    expect(() => scaler.step(new SGD([half]))).toThrow(/would be lost in f16: keep parameters in f32/);
    scaler.step(new SGD([half], { masterWeights: true }));
  });
});

describe('averages of parameters', () => {
  test.each([false, true])('follow them inside the step (warm-up: %s)', async (warmup) => {
    const p = parameter(1, 2);
    const ema = new EMA(new Map([['w', p]]), { decay: 0.9, warmup });
    expect(() => ema.swap()).toThrow(/swap\(\) was called before the first update\(\)/);
    const train = tx.compile(() => {
      tx.noGrad(() => p.mul_(2));
      ema.update();
    });
    let want = [0, 0];
    for (let n = 0; n < 5; n++) {
      await train();
      const decay = n === 0 ? 0 : warmup ? Math.min(0.9, (1 + n) / (10 + n)) : 0.9;
      want = want.map((x, i) => decay * x + (1 - decay) * 2 ** (n + 1) * (i + 1));
    }
    close(await list(ema.averages[0]!), want, 4);
    ema.swap();
    close(await list(p), want, 4);
    expect(() => ema.update()).toThrow(/while the averages are swapped in/);
    ema.swap();
    expect(await list(p)).toEqual([32, 64]);
    const other = new EMA([['w', parameter(0, 0)]]);
    other.loadStateDict(ema.stateDict());
    const target = parameter(0, 0);
    other.applyTo([target]);
    close(await list(target), want, 4);
    expect(() => other.loadStateDict({ updates: tx.zeros([]) })).toThrow(
      /Missing key\(s\) in state_dict: "averages.w"/,
    );
    expect(() => other.applyTo([parameter(1)])).toThrow(/f32\[1\] has another shape than its average/);
  });
});

test('state is loaded by the names of parameters, where both sides have them', async () => {
  const make = (order: readonly string[]) => {
    const params = new Map(order.map((name) => [name, tx.ones([2], { requiresGrad: true })] as const));
    return { params, optimizer: new tx.optim.SGD(params, { lr: 1, momentum: 1 }) };
  };
  const [from, to] = [make(['a', 'b']), make(['b', 'a'])];
  for (const [name, p] of from.params) p.grad = tx.full([2], name === 'a' ? 1 : 10, { dtype: 'f32' });
  from.optimizer.step();
  to.optimizer.loadStateDict(from.optimizer.stateDict());
  const moved = to.optimizer.state.get(to.params.get('a')!)!;
  expect(await (Object.values(moved)[0] as tx.Tensor).tolist()).toEqual([1, 1]);
  expect(() => make(['a', 'c']).optimizer.loadStateDict(from.optimizer.stateDict())).toThrow(
    'param_groups.0.param_names: b in the state dict, not here',
  );
});

test('while averages are swapped in, nothing is saved, and a compiled step notices', async () => {
  const p = tx.ones([2], { requiresGrad: true });
  const ema = new tx.optim.EMA([p], { decay: 0.5 });
  const step = tx.compile(() => {
    tx.noGrad(() => p.add_(1));
    ema.update();
  });
  await step();
  ema.swap();
  await expect(step()).rejects.toThrow('EMA: update() was called while the averages are swapped in: call swap() first');
  expect(() => ema.stateDict()).toThrow('EMA: stateDict() was called while the averages are swapped in');
  ema.swap();
  await step();
  expect(await p.tolist()).toEqual([3, 3]);
});
