// tx.debug.nans: a NaN or an infinity in a result is named by the operation that made it, its line and its module; nothing
// is lost, and nothing is spent while it is off.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as tx from 'tsxla';
import * as nn from 'tsxla/nn';
import * as optim from 'tsxla/optim';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { counts } from '../dist/runtime/program.js';

const file = fileURLToPath(import.meta.url);
const lines = readFileSync(file, 'utf8').split('\n');
/** The line of this file that ends with such a comment. */
const at = (mark: string): number => lines.findIndex((line) => line.endsWith(`// ${mark}`)) + 1;

beforeEach(() => void tx.debug.nans());
afterEach(() => void tx.debug.nans(false));

/** What a search found: the error of a call that must fail with one. */
async function found(run: () => Promise<unknown>): Promise<tx.NonfiniteError & { details: Record<string, unknown> }> {
  const error = await run().then(
    () => new Error('it did not fail'),
    (e: unknown) => e as Error,
  );
  expect(error).toBeInstanceOf(tx.NonfiniteError);
  return error as tx.NonfiniteError;
}
const place = (mark: string) => ({ file, line: at(mark) });

class Mlp extends nn.Module {
  readonly upProj = new nn.Linear(4, 8);
  readonly downProj = new nn.Linear(8, 4);
  override forward(x: tx.Tensor): tx.Tensor {
    return this.downProj.forward(this.upProj.forward(x).relu()); // mlp
  }
}
class Layer extends nn.Module {
  readonly mlp = new Mlp();
  override forward(x: tx.Tensor): tx.Tensor {
    return x.add(this.mlp.forward(x));
  }
}
class Net extends nn.Module {
  readonly layers: nn.ModuleList<Layer> | nn.LayerStack<Layer>;
  constructor(count = 3, stacked = false) {
    super();
    const layers = Array.from({ length: count }, () => new Layer());
    this.layers = stacked ? new nn.LayerStack(layers) : new nn.ModuleList(layers);
  }
  override forward(x: tx.Tensor): tx.Tensor {
    if (this.layers instanceof nn.LayerStack) return this.layers.forward(x);
    for (const layer of this.layers) x = layer.forward(x);
    return x;
  }
}
/** Puts a number into one element of a tensor. */
async function spoil(t: tx.Tensor, element: number, value: number): Promise<void> {
  const data = Float32Array.from((await t.data()) as Float32Array);
  data[element] = value;
  t.assign(data);
}

describe('the five places', () => {
  test('a bad weight inside a layer of a model', async () => {
    const net = new Net();
    await spoil((net.layers as nn.ModuleList<Layer>).at(1).mlp.downProj.weight, 9, Number.NaN);
    const x = tx.ones([2, 4]);
    const { message, details } = await found(() => tx.step(() => ({ loss: net.forward(x).mean() })));
    expect(message).toContain(
      'step: its result loss is NaN. It comes from the parameter layers.1.mlp.downProj.weight, f32[4, 8], which holds NaN at [1, 1]: 1 of 32 elements are NaN.',
    );
    expect(message).toContain(`(${file}:${at('mlp')}, layers.1.mlp.downProj)`);
    expect(details).toMatchObject({
      step: 'step',
      kind: 'NaN',
      results: ['its result loss'],
      input: { path: 'layers.1.mlp.downProj.weight', index: [1, 1], count: 1, dtype: 'f32', shape: [4, 8] },
      usedBy: { ...place('mlp'), call: 'linear', module: 'layers.1.mlp.downProj' },
    });
  });

  test('the logarithm of a negative number', async () => {
    class Head extends nn.Module {
      override forward(x: tx.Tensor): tx.Tensor {
        return x.log(); // log
      }
    }
    class Model extends nn.Module {
      readonly head = new Head();
      override forward(x: tx.Tensor): tx.Tensor {
        return this.head.forward(x.sub(1)).sum();
      }
    }
    const [model, x] = [new Model(), tx.tensor([3, 0.5, 2])];
    const { message, details } = await found(() => tx.step(() => model.forward(x), { name: 'train' }));
    expect(message).toBe(
      `train: its result is NaN. It was first made by log (${file}:${at('log')}, head).\n` +
        '    operand 0: f32[3], from -0.5 to 2\n' +
        '    result: f32[3], from 0 to 0.693147, 1 NaN\n' +
        '    All tensors are as they were before.',
    );
    expect(details).toMatchObject({
      op: 'log',
      ...place('log'),
      module: 'head',
      operands: [{ dtype: 'f32', shape: [3], min: -0.5, max: 2, nan: 0, inf: 0 }],
      result: { nan: 1, inf: 0 },
    });
  });

  // The search would compile for minutes if it computed them again for each value that is made of them.
  test('the logarithm of random numbers that are negative', async () => {
    tx.manualSeed(5);
    const { details } = await found(async () => tx.rand([5, 16]).sub(9).log().sum().item()); // random
    tx.debug.nans(false);
    tx.manualSeed(5);
    const min = Math.min(...((await tx.rand([5, 16]).sub(9).data()) as Float32Array)); // the same numbers
    expect(details).toMatchObject({ op: 'log', ...place('random'), operands: [{ min: expect.closeTo(min, 5) }] });
  });

  test('an overflow in f16, also where it has become NaN', async () => {
    class Score extends nn.Module {
      override forward(x: tx.Tensor): tx.Tensor {
        return x.mul(x); // overflow
      }
    }
    const [score, x] = [new Score(), tx.full([2, 3], 300, { dtype: 'f16' })];
    const first = await found(() => tx.step(() => score.forward(x)));
    expect(first.message).toContain(
      `its result is infinite. It was first made by mul (${file}:${at('overflow')}, Score)`,
    );
    expect(first.message).toContain('The largest f16 is 65504');
    expect(first.details).toMatchObject({ kind: 'inf', op: 'mul', operands: [{ max: 300 }, { max: 300 }] });
    const then = await found(() => tx.step(() => score.forward(x).softmax(-1).sum())); // softmax
    expect(then.details).toMatchObject({
      kind: 'NaN',
      op: 'mul',
      ...place('overflow'),
      module: 'Score',
      became: { call: 'softmax', ...place('softmax') },
    });
    expect(then.message).toContain(`It became NaN in softmax (${file}:${at('softmax')})`);
  });

  test('0 / 0 in a custom gradient', async () => {
    const scaled = tx.customVjp((x: tx.Tensor) => x.mul(2), {
      backward: ({ inputs: [x] }, g) => [g.mul(x).div(x)], // custom
    });
    class Scale extends nn.Module {
      readonly weight = new nn.Parameter(tx.tensor([1, 0]).float());
      override forward(x: tx.Tensor): tx.Tensor {
        return scaled(this.weight).mul(x);
      }
    }
    const [scale, x] = [new Scale(), tx.ones([2])];
    const { message, details } = await found(() =>
      tx.step(() => {
        const loss = scale.forward(x).sum();
        loss.backward();
        return loss;
      }),
    );
    expect(message).toContain('the gradient of the parameter weight is NaN');
    expect(details).toMatchObject({ op: 'div', ...place('custom'), module: 'Scale' });
    expect(scale.weight.grad).toBe(null);
  });

  test('an infinity in the data', async () => {
    const net = new Net(1);
    const train = tx.compile(function train({ x }: { x: tx.Tensor }) {
      return net.forward(x).mean();
    });
    await train({ x: tx.ones([1, 4]) });
    const { message, details } = await found(() => train({ x: tx.tensor([[1, 2, Number.POSITIVE_INFINITY, 4]]) }));
    expect(message).toContain('It comes from argument [0].x, f32[1, 4], which holds Infinity at [0, 2]');
    expect(details).toMatchObject({ input: { index: [0, 2], value: Number.POSITIVE_INFINITY }, usedBy: { file } });
  });
});

describe('loops, branches and gradients', () => {
  test('an iteration of a scan', async () => {
    const { message, details } = await found(() =>
      tx.step(() =>
        tx.scan(
          (c: tx.Tensor, row: tx.Tensor) => [c.sub(1), c.log().mul(row)], // scanned
          tx.tensor(3).float(),
          tx.ones([6]),
        ),
      ),
    );
    expect(message).toContain(`made by log (${file}:${at('scanned')}), iteration 4 of 6 (from 0)`);
    expect(details).toMatchObject({ op: 'log', iterations: [{ iteration: 4, length: 6 }], operands: [{ min: -1 }] });
  });

  test('an iteration of the gradient of a scan', async () => {
    const v = tx.tensor(5).float().requiresGrad_();
    const { message, details } = await found(() =>
      tx.step(() => {
        const body = (c: tx.Tensor, row: tx.Tensor): [tx.Tensor, tx.Tensor] => [
          c.sub(1),
          c.clamp({ min: 0 }).sqrt().mul(row), // root
        ];
        tx.scan(body, v, tx.ones([8]))[1]
          .sum()
          .backward();
      }),
    );
    expect(message).toContain(`div, in the gradient of sqrt (${file}:${at('root')}), iteration 5 of 8 (from 0)`);
    expect(details).toMatchObject({ op: 'div', gradientOf: ['sqrt'], ...place('root') });
  });

  test('a layer of a stack, forward and backward, by its number', async () => {
    const net = new Net(5, true);
    const { weight } = (net.layers as nn.LayerStack<Layer>).layer.mlp.downProj;
    const x = tx.ones([2, 4]);
    const train = () =>
      tx.step(() => {
        const loss = net.forward(x).square().mean();
        loss.backward();
        return loss;
      });
    await spoil(weight, 4 * 32 + 9, Number.NaN);
    const bad = await found(train);
    expect(bad.details).toMatchObject({
      input: { path: 'layers.4.mlp.downProj.weight', index: [1, 1] },
      usedBy: { module: 'layers.4.mlp.downProj' },
    });
    await spoil(weight, 4 * 32 + 9, 0.1);
    for (let i = 0; i < 8; i++) await spoil(weight, 3 * 32 + i, 3e38);
    const large = await found(train);
    expect(large.details['module']).toBe('layers.3.mlp.downProj');
    expect(large.details['iterations']).toMatchObject([{ iteration: 3, length: 5 }]);
  });

  test('layers that share the code of one, with checkpoints', async () => {
    class Stacked extends nn.Module {
      readonly blocks = Array.from({ length: 4 }, () => new Layer());
      override forward(x: tx.Tensor): tx.Tensor {
        return nn.scanLayers(this.blocks, x, { checkpoint: true });
      }
    }
    const net = new Stacked();
    const { weight } = net.blocks[2]!.mlp.upProj;
    weight.assign(new Float32Array(32).fill(3e38));
    const { details } = await found(() =>
      tx.step(() =>
        net
          .forward(tx.ones([2, 4]))
          .square()
          .mean(),
      ),
    );
    expect(details).toMatchObject({ module: 'blocks.2.mlp.upProj', call: 'linear', became: { file } });
  });

  test('inside a checkpoint, forward and backward', async () => {
    const v = tx.tensor([5, 6]).float().requiresGrad_();
    const run = (less: number) => () =>
      tx.step(() => {
        const loss = tx.checkpoint((x: tx.Tensor) => x.sub(less).sqrt().exp(), v).sum(); // checkpoint
        loss.backward();
        return loss;
      });
    expect((await found(run(5.5))).details).toMatchObject({ op: 'sqrt', kind: 'NaN', ...place('checkpoint') });
    const { message, details } = await found(run(5));
    expect(details).toMatchObject({ op: 'div', kind: 'inf', gradientOf: ['sqrt'], ...place('checkpoint') });
    expect(message).toContain('the gradient of the tensor made at');
  });

  test('in the branch that was taken', async () => {
    const x = tx.tensor([-1, 2]).float();
    const choose = (limit: number) =>
      tx.step(() =>
        tx.cond(
          x.sum().gt(limit),
          (y: tx.Tensor) => y.mul(2).log(), // yes
          (y: tx.Tensor) => y.mul(3).sqrt(), // no
          x,
        ),
      );
    expect((await found(() => choose(0))).details).toMatchObject({
      op: 'log',
      ...place('yes'),
      operands: [{ min: -2 }],
    });
    expect((await found(() => choose(9))).details).toMatchObject({
      op: 'sqrt',
      ...place('no'),
      operands: [{ min: -3 }],
    });
  });

  test('loops in loops, and a branch in a loop', async () => {
    const v = tx.tensor([2.5]).requiresGrad_();
    const nested = () =>
      tx.step(() => {
        const inner = (d: tx.Tensor, s: tx.Tensor): [tx.Tensor, tx.Tensor] => [d.sub(0.25), d.sqrt().mul(s)]; // inner
        const outer = (c: tx.Tensor, r: tx.Tensor): [tx.Tensor, tx.Tensor] => {
          const [d, ys] = tx.scan(inner, c, tx.ones([4]));
          return [d, ys.sum().mul(r)];
        };
        const loss = tx.scan(outer, v, tx.ones([5]))[1].sum();
        loss.backward();
        return loss;
      });
    const both = [
      { iteration: 2, length: 5 },
      { iteration: 3, length: 4 },
    ];
    expect((await found(nested)).details).toMatchObject({ op: 'sqrt', ...place('inner'), iterations: both });
    const branched = () =>
      tx.step(() => {
        const body = (c: tx.Tensor, r: tx.Tensor): [tx.Tensor, tx.Tensor] => [
          tx.cond(
            c.sum().lt(1),
            (x: tx.Tensor) => x.neg().log(), // branched
            (x: tx.Tensor) => x.sub(1),
            c,
          ),
          r,
        ];
        return tx.scan(body, v.detach(), tx.ones([5]));
      });
    const { details } = await found(branched);
    expect(details).toMatchObject({ op: 'log', ...place('branched'), iterations: [{ iteration: 2, length: 5 }] });
  });

  test('an iteration of a loop of unknown length', async () => {
    const start = { i: tx.zeros([], { dtype: 'i32' }), y: tx.tensor([3.5, 9]) };
    const { message, details } = await found(() =>
      tx.step(() =>
        tx.whileLoop(
          ({ i }: typeof start) => i.lt(9),
          ({ i, y }) => ({ i: i.add(1), y: y.sub(1).sqrt() }), // while
          start,
        ),
      ),
    );
    // 3.5, 1.58, 0.76 - 1 is negative
    expect(message).toContain(`made by sqrt (${file}:${at('while')}), iteration 2 (from 0)`);
    expect(details).toMatchObject({ op: 'sqrt', kind: 'NaN', iterations: [{ iteration: 2 }], result: { nan: 1 } });
  });

  test('the micro-batch of an accumulation', async () => {
    const v = tx.ones([2]).requiresGrad_();
    const batches = tx.tensor([
      [1, 2],
      [3, -4],
      [5, 6],
    ]);
    const run = () =>
      tx.step(
        () => tx.accumulate(batches, (b: tx.Tensor) => b.mul(v).log().sum()), // micro
      );
    const { details } = await found(run);
    expect(details).toMatchObject({ op: 'log', ...place('micro'), iterations: [{ iteration: 1, length: 3 }] });
  });

  test('the gradient of an operation names it, and what the infinity became', async () => {
    class Norm extends nn.Module {
      override forward(x: tx.Tensor): tx.Tensor {
        return x.square().sum().sqrt(); // norm
      }
    }
    class Model extends nn.Module {
      readonly weight = new nn.Parameter(tx.zeros([3]));
      readonly norm = new Norm();
      override forward(): tx.Tensor {
        return this.norm.forward(this.weight);
      }
    }
    const model = new Model();
    const { message } = await found(() =>
      tx.step(() => {
        const loss = model.forward();
        loss.backward();
        return loss;
      }),
    );
    expect(message).toContain(
      `It was first an infinity, made by div, in the gradient of sqrt (${file}:${at('norm')}, norm).\n` +
        '    operand 0: f32[], from 1 to 1\n    operand 1: f32[], from 0 to 0\n',
    );
    expect(message).toContain(`It became NaN in mul, in the gradient of mul in square (${file}:${at('norm')}, norm)`);
  });
});

describe('nothing is lost', () => {
  const job = () => {
    const model = new nn.Linear(2, 2);
    const optimizer = new optim.Adam(model.parameters(), { lr: 0.1 });
    const train = tx.compile(function train(x: tx.Tensor) {
      const loss = tx.dropout(model.forward(x), { p: 0.5 }).square().mean();
      loss.backward();
      optimizer.step();
      optimizer.zeroGrad();
      return loss;
    });
    const state = async () => [
      await model.weight.tolist(),
      await model.bias!.tolist(),
      ...(await Promise.all(
        Object.values(optimizer.stateDict().state)
          .flatMap(tensorsIn)
          .map((t) => t.tolist()),
      )),
    ];
    return { model, optimizer, train, state };
  };
  const tensorsIn = (x: unknown): tx.Tensor[] =>
    x instanceof tx.Tensor ? [x] : x !== null && typeof x === 'object' ? Object.values(x).flatMap(tensorsIn) : [];

  test('weights, optimizer state and random numbers are as before a step that failed', async () => {
    tx.manualSeed(7);
    const x = tx.ones([4, 2]);
    const { train, state } = job();
    await train(x);
    const before = await state();
    expect(before.length).toBeGreaterThan(4);
    await found(() => train(tx.full([4, 2], Number.NaN)));
    expect(await state()).toEqual(before);
    await train(x);
    const after = await state();

    tx.debug.nans(false);
    tx.manualSeed(7);
    const other = job();
    await other.train(x);
    await other.train(x);
    expect(after).toEqual(await other.state()); // as if the bad step had never been
  });

  test('a compiled function that was traced before is searched, too', async () => {
    tx.debug.nans(false);
    const net = new Net(2);
    const run = tx.compile(function run(x: tx.Tensor) {
      return net.forward(x).log();
    });
    await run(tx.tensor([[0.5, 2, 3, 4]]));
    const compiled = counts.compiled;
    const big = tx.tensor([[1.5, 2, 3, 4]]);
    await run(big);
    expect(counts.compiled).toBe(compiled);
    tx.debug.nans();
    const { details } = await found(() => run(tx.tensor([[1, 2, 3, Number.NaN]])));
    expect(details).toMatchObject({ usedBy: { module: 'layers.0.mlp.upProj', ...place('mlp') } });
    expect(run.programs).toBe(1);
  });

  test('calls that were made behind a step that fails, fail with its error; the state is that of before', async () => {
    const w = tx.ones([2]);
    const add = tx.compile(function add(x: tx.Tensor) {
      w.add_(x);
    });
    const calls = [add(tx.ones([2])), add(tx.full([2], Number.NaN)), add(tx.ones([2]))];
    const ends = await Promise.allSettled(calls);
    expect(ends.map((e) => e.status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(await w.tolist()).toEqual([2, 2]);
  });

  test('an argument that is disposed behind the call is still used', async () => {
    const double = tx.compile((x: tx.Tensor) => x.mul(2));
    const x = tx.tensor([1.5, 2]);
    await tx.sync(x);
    const called = double(x);
    x.dispose();
    expect(await (await called).tolist()).toEqual([3, 4]);
  });

  test('the plain loop: a read names it, and what was changed in place is as before', async () => {
    const model = new nn.Linear(2, 1);
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
    const turn = async (x: tx.Tensor) => {
      const loss = model.forward(x).square().mean();
      loss.backward();
      optimizer.step();
      optimizer.zeroGrad();
      return loss.item();
    };
    await turn(tx.ones([3, 2]));
    const before = await model.weight.tolist();
    const { message } = await found(() => turn(tx.tensor([[1, Number.NaN]])));
    expect(message).toContain('SGD.step: ');
    expect(message).toContain('holds NaN at [0, 1]');
    expect(await model.weight.tolist()).toEqual(before);
    await turn(tx.ones([3, 2]));
    expect(await model.weight.tolist()).not.toEqual(before);
  });

  test('the plain loop with clipped gradients continues after errors', async () => {
    const model = new nn.Linear(2, 1);
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
    const turn = async (x: tx.Tensor) => {
      const loss = model.forward(x).square().mean();
      loss.backward();
      optim.clipGradNorm(model.parameters(), 1); // changes gradients in place
      optimizer.step();
      optimizer.zeroGrad();
      return loss.item();
    };
    await turn(tx.ones([3, 2]));
    const before = await model.weight.tolist();
    const errors = [];
    for (let i = 0; i < 2; i++) errors.push(await found(() => turn(tx.tensor([[1, Number.NaN]]))));
    expect(errors[1]!.details.results).toEqual(errors[0]!.details.results); // none of the first one
    expect(await model.weight.tolist()).toEqual(before);
    await turn(tx.ones([3, 2]));
    expect(await model.weight.tolist()).not.toEqual(before);
  });

  test('the plain loop: values that were put in before stay', async () => {
    const w = tx.tensor([1, 1], { dtype: 'f32' });
    await tx.sync(w);
    w.copy_(tx.tensor([3, 4], { dtype: 'f32' })); // as a state dict is loaded
    w.neg_().log_();
    await found(() => w.tolist());
    expect(await w.tolist()).toEqual([3, 4]);
  });

  test('sync: the same', async () => {
    const x = tx.ones([2]);
    x.sub_(2).log_(); // synced
    const { details } = await found(() => tx.sync());
    expect(details).toMatchObject({ op: 'log', ...place('synced') });
    expect(await x.tolist()).toEqual([1, 1]);
  });
});

test('what a later call has put in place stays when an earlier sync fails', async () => {
  const [x, z] = [tx.tensor([1, 2], { dtype: 'f32' }), tx.tensor([7, 8], { dtype: 'f32' })];
  await tx.sync(x, z);
  const over = tx.compile(() => void x.copy_(z.mul(2)), { name: 'over' });
  await over();
  x.copy_(tx.tensor([3, 4], { dtype: 'f32' }));
  await tx.sync();
  x.mul_(Number.NaN);
  const failing = tx.sync();
  for (let i = 0; i < 6; i++) await Promise.resolve();
  const [first, second] = await Promise.allSettled([failing, over()]);
  expect([first!.status, second!.status]).toEqual(['rejected', 'fulfilled']);
  expect(await x.tolist()).toEqual([14, 16]);
});

describe('what is meant is no error', () => {
  test('masks of -infinity that end in a softmax, inside and as results', async () => {
    const net = new nn.MultiheadAttention(4, 2);
    const x = tx.randn([3, 1, 4]);
    await tx.step(() => {
      const [y] = net.forward(x, x, x, { isCausal: true });
      const loss = y.sum();
      loss.backward();
      return loss;
    });
    const seen = tx.ones([4, 4], { dtype: 'bool' }).tril();
    const scores = await tx.step(() => tx.where(seen, tx.ones([4, 4]), Number.NEGATIVE_INFINITY));
    expect(((await scores.tolist()) as number[][])[0]!.slice(0, 2)).toEqual([1, Number.NEGATIVE_INFINITY]);
    const mask = tx.tensor([0, Number.NEGATIVE_INFINITY]).to('f16').reshape([2, 1]);
    expect(await mask.tolist()).toEqual([[0], [Number.NEGATIVE_INFINITY]]);
    expect(await tx.step(() => mask.softmax(0)).then((t) => t.tolist())).toEqual([[1], [0]]);
  });

  test('a row of a mask without any key is named as the softmax, not as the mask', async () => {
    const mask = tx.full([2, 2], Number.NEGATIVE_INFINITY);
    const { details } = await found(() => tx.step(() => tx.zeros([2, 2]).add(mask).softmax(-1).sum()));
    expect(details).toMatchObject({ kind: 'NaN', input: { value: Number.NEGATIVE_INFINITY } });
    const written = await found(
      () => tx.step(() => tx.full([2, 2], Number.NEGATIVE_INFINITY).softmax(-1).sum()), // all masked
    );
    expect(written.details).toMatchObject({ kind: 'NaN', call: 'softmax', ...place('all masked') });
  });

  test('infinities alone, with infs: false', async () => {
    const x = tx.tensor([0, 1]).float();
    expect((await found(() => tx.step(() => x.log()))).details).toMatchObject({ kind: 'inf', op: 'log' });
    tx.debug.nans(true, { infs: false });
    expect(await (await tx.step(() => x.log())).tolist()).toEqual([Number.NEGATIVE_INFINITY, 0]);
    await found(() => tx.step(() => x.sub(1).log()));
  });
});

describe('on and off', () => {
  const x = () => tx.tensor([-1, 1]).float();
  test('off again at the end of a block, or with false', async () => {
    tx.debug.nans(false);
    {
      using _ = tx.debug.nans();
      await found(() => tx.step(() => x().log()));
    }
    expect(await (await tx.step(() => x().log())).tolist()).toEqual([Number.NaN, 0]);
    expect(() => tx.debug.nans(true, { inf: true } as never)).toThrow("there is no option 'inf'");
  });

  test('TSXLA_DEBUG_NANS=1 turns it on for a process', () => {
    const script = "import * as tx from 'tsxla'; console.log(await tx.tensor([-1, 0.5]).log().tolist());";
    const run = (value: string) =>
      spawnSync(process.execPath, ['--input-type=module', '-e', script], {
        encoding: 'utf8',
        env: { ...process.env, TSXLA_DEBUG_NANS: value },
      });
    expect(run('1').stderr).toContain('NonfiniteError: reading a tensor: ');
    expect(run('1').status).toBe(1);
    expect(run('0').stdout).toContain('NaN');
  });

  test('off: the same programs, no more compiles, no more runs, memory given up as ever', async () => {
    tx.debug.nans(false);
    const w = tx.ones([64]);
    const grow = tx.compile(function grow(by: tx.Tensor) {
      w.mul_(by);
      return w.sum();
    });
    const by = tx.full([64], 2);
    await grow(by);
    const cost = async () => {
      const [compiled, executed] = [counts.compiled, counts.executed];
      const old = w.cell.peek().record!.value as { disposed: boolean };
      await grow(by);
      return [counts.compiled - compiled, counts.executed - executed, old.disposed];
    };
    expect(await cost()).toEqual([0, 1, true]);
    tx.debug.nans();
    expect(await cost()).toEqual([1, 2, true]); // the check of its results; its own program is the same one
    expect(await cost()).toEqual([0, 2, true]);
    tx.debug.nans(false);
    expect(await cost()).toEqual([0, 1, true]);
    expect(grow.programs).toBe(1);
  });
});
