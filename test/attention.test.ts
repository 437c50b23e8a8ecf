// The forms of attention: cuDNN's call as JAX writes it, chunks that compute what the plain form does in less memory, and
// dropout. Values and gradients against torch: test/ops/attention.rows.ts.
import * as tx from 'tsxla';
import { afterEach, describe, expect, test } from 'vitest';
import { collect } from '../dist/ir/graph.js';
import { evaluate } from '../dist/runtime/evaluate.js';
import { hasValue } from '../dist/runtime/value.js';
import { emitModule } from '../dist/stablehlo/emitter.js';
import { golden, startCpu } from './support.js';

const attend = tx.scaledDotProductAttention;
type T = tx.Tensor;
type Shape = readonly number[];
const KEY = 'TSXLA_ATTENTION';
process.env['TSXLA_LOG'] = 'quiet';
afterEach(() => {
  delete process.env[KEY];
});

const wave = (shape: Shape, dtype: tx.DType = 'f64', phase = 0): T => {
  const size = shape.reduce((a, b) => a * b, 1);
  const data = Float64Array.from({ length: size }, (_, i) => Math.sin(1.7 * i + phase));
  return tx.tensor(data, { shape, dtype: 'f64' }).to({ dtype }).detach().requiresGrad_();
};
const numbers = async (t: T): Promise<number[]> => Array.from((await t.data()) as Float64Array, Number);

/** The text of the program that computes these, as written for a platform. */
function textOf(platform: string, ts: readonly T[]): string {
  const graph = collect(
    ts.map((t) => t.expr),
    hasValue,
  );
  return emitModule(graph, graph.nodes.filter(hasValue), { platform });
}
/** Query, key and value that are inputs of the program, whatever their dtype. */
const operands = async (dtype: tx.DType, ...shapes: Shape[]): Promise<T[]> => {
  const xs = shapes.map((shape) => tx.zeros(shape, { dtype }));
  await tx.sync(...xs);
  return xs.map((x) => x.requiresGrad_());
};
const withGradients = (xs: readonly T[], f: (...xs: T[]) => T): T[] => {
  const y = f(...xs);
  return [y, ...tx.grad(y.sum(), xs)];
};

describe('on CUDA', () => {
  interface Call {
    readonly target: string;
    readonly config: object;
    readonly layouts: string;
    readonly types: string;
  }
  const calls = (text: string): Call[] =>
    text
      .split('\n')
      .filter((l) => l.includes('custom_call'))
      .map((line) => {
        const m = /call_target_name = "(.*?)".*backend_config = ("(?:\\.|[^"])*"), (.*)}> : (.*)/.exec(line)!;
        return { target: m[1]!, config: JSON.parse(JSON.parse(m[2]!)), layouts: m[3]!, types: m[4]! };
      });
  const wanted: Record<string, Call[]> = JSON.parse(golden('attention.json'));
  const made: Record<string, () => Promise<T[]>> = {
    causal: async () =>
      withGradients(await operands('bf16', [2, 4, 8, 64], [2, 4, 8, 64], [2, 4, 8, 64]), (q, k, v) =>
        attend(q!, k!, v!, { isCausal: true }),
      ),
    'more keys, grouped heads, f16': async () =>
      withGradients(await operands('f16', [2, 4, 8, 128], [2, 2, 12, 128], [2, 2, 12, 128]), (q, k, v) =>
        attend(q!, k!, v!, { enableGqa: true }),
      ),
    bias: async () =>
      withGradients(
        await operands('bf16', [2, 4, 8, 16], [2, 4, 12, 16], [2, 4, 12, 16], [4, 8, 12]),
        (q, k, v, attnMask) => attend(q!, k!, v!, { attnMask: attnMask! }),
      ),
  };
  test.each(Object.keys(wanted))("%s: forward and backward are JAX's calls of cuDNN", async (name) => {
    const text = textOf('cuda', await made[name]!());
    expect(calls(text)).toEqual(wanted[name]);
    expect(text).not.toContain('dot_general');
  });

  test('XLA reads the text: where there is no cuDNN it says so', async () => {
    const client = await startCpu();
    await expect(client.compile(textOf('cuda', await made['bias']!()))).rejects.toThrow('__cudnn$fmhaScaleBiasSoftmax');
  });

  test('a boolean mask is a bias without a gradient, and queries that see nothing are cleared, forward and backward', async () => {
    const qkv = await operands('bf16', [1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8]);
    const mask = tx.ones([4, 4], { dtype: 'bool' });
    await tx.sync(mask);
    const text = textOf(
      'cuda',
      withGradients(qkv, (q, k, v) => attend(q!, k!, v!, { attnMask: mask })),
    );
    const [, back] = calls(text);
    expect(back!.target).toBe('__cudnn$fmhaScaleBiasSoftmaxBackward');
    expect(back!.types.split(' -> ')[1]!.match(/tensor/g)).toHaveLength(4); // three gradients and cuDNN's own room
    expect(text).toContain('dense<-2199023255552.0>'); // -2 ** 41: what is not seen is far below, and finite
    expect(text.split('"stablehlo.select"').length - 1).toBeGreaterThanOrEqual(3);
  });

  const plain: [string, tx.DType, Shape, tx.AttentionOptions, boolean?][] = [
    ['f32', 'f32', [1, 2, 8, 64], {}],
    ['dropout', 'bf16', [1, 2, 8, 64], { dropoutP: 0.1 }],
    ['a head of 12', 'bf16', [1, 2, 8, 12], {}],
    ['a head of 136', 'bf16', [1, 2, 8, 136], {}],
    ['a single query', 'bf16', [1, 2, 1, 64], {}],
    ['a mask for an odd number of queries', 'bf16', [1, 2, 7, 64], {}, true],
  ];
  test.each(plain)('%s is computed plainly', async (_, dtype, shape, options, masked) => {
    const qkv = await operands(dtype, shape, shape, shape);
    const attnMask = masked ? tx.ones([shape[2]!, shape[2]!], { dtype: 'bool' }) : null;
    const text = textOf(
      'cuda',
      withGradients(qkv, (q, k, v) => attend(q!, k!, v!, { attnMask, ...options })),
    );
    expect(text).not.toContain('custom_call');
    expect(text).toContain('dot_general');
  });

  test('TSXLA_ATTENTION=plain, or another platform', async () => {
    const qkv = await operands('bf16', [1, 2, 8, 64], [1, 2, 8, 64], [1, 2, 8, 64]);
    const text = (platform: string) => textOf(platform, [attend(qkv[0]!, qkv[1]!, qkv[2]!)]);
    expect(text('cuda')).toContain('custom_call');
    expect(text('tpu')).not.toContain('custom_call');
    process.env[KEY] = 'plain';
    expect(text('cuda')).not.toContain('custom_call');
    process.env[KEY] = 'fast';
    expect(() => text('cuda')).toThrow('TSXLA_ATTENTION=fast is not valid: use auto, plain, or the number of queries');
  });
});

describe('in chunks', () => {
  const seeded = (options: tx.AttentionOptions) => (q?: T, k?: T, v?: T, mask?: T) => {
    tx.manualSeed(3);
    return attend(q!, k!, v!, { ...(mask && { attnMask: mask }), ...options });
  };
  // biome-ignore format: a table
  const cases: [string, Shape[], tx.AttentionOptions, secondDerivatives?: boolean][] = [
    ['causal, the last chunk smaller', [[2, 7, 4], [2, 7, 4], [2, 7, 4]], { isCausal: true }, true],
    ['grouped heads', [[1, 4, 7, 4], [1, 2, 7, 4], [1, 2, 7, 4]], { enableGqa: true, isCausal: true }],
    ['a mask for each query', [[2, 2, 7, 4], [2, 2, 5, 4], [2, 2, 5, 4], [2, 1, 7, 5]], {}, true],
    ['a mask for all queries', [[2, 2, 7, 4], [2, 2, 5, 4], [2, 2, 5, 4], [2, 1, 5]], {}],
    ['dropout', [[2, 2, 7, 4], [2, 2, 5, 4], [2, 2, 5, 4]], { dropoutP: 0.3 }],
  ];
  test.each(cases)('%s: values and gradients are those of all queries at once', async (_, shapes, options, twice) => {
    const xs = shapes.map((s, i) => wave(s, 'f64', i));
    const all = (form: string) => {
      process.env[KEY] = form;
      const y = seeded(options)(...xs);
      const first = tx.grad(y.sin().sum(), xs, { createGraph: true });
      if (!twice) return [y, ...first];
      const again = first.map((g) => g.sin().sum()).reduce((a, b) => a.add(b));
      return [y, ...first, ...tx.grad(again, xs)];
    };
    const [want, got] = [all('plain'), all('3')];
    expect(textOf('cpu', got)).toContain('stablehlo.while');
    await evaluate(
      [...want, ...got].map((t) => t.expr),
      { cause: 'sync' },
    );
    for (const [i, w] of want.entries()) {
      const [a, b] = [await numbers(got[i]!), await numbers(w)];
      a.forEach((x, j) => expect(x, `number ${i}, element ${j}`).toBeCloseTo(b[j]!, 11));
    }
  });

  test('what is not seen by a whole chunk is 0, and no NaN', async () => {
    process.env[KEY] = '2';
    const xs = [wave([1, 4, 4]), wave([1, 4, 4], 'f64', 1), wave([1, 4, 4], 'f64', 2)];
    const attnMask = tx.tensor([[false], [false], [true], [false]], { dtype: 'bool' });
    const [y, ...grads] = withGradients(xs, (q, k, v) => attend(q!, k!, v!, { attnMask }));
    const rows = (await y!.tolist()) as number[][][];
    expect(rows[0]!.map((row) => row.every((x) => x === 0))).toEqual([true, true, false, true]);
    for (const g of grads) for (const x of await numbers(g)) expect(x).not.toBeNaN();
  });

  test('a compiled step needs a small part of the memory of the scores', async () => {
    const client = await startCpu();
    const [heads, tokens] = [8, 1024];
    const scores = 4 * heads * tokens ** 2;
    const temporaries = async (form: string) => {
      process.env[KEY] = form;
      const shape = [1, heads, tokens, 16];
      const text = textOf(
        'cpu',
        withGradients(await operands('f32', shape, shape, shape), (q, k, v) => attend(q!, k!, v!, { isCausal: true })),
      );
      const program = await client.compile(text);
      return program.memory().temporaries;
    };
    const [plain, chunked] = [await temporaries('plain'), await temporaries('64')];
    expect(plain).toBeGreaterThan(scores);
    expect(chunked).toBeLessThan(scores / 4); // [64, 1024] for each head, a few times, and what is [1024, 16]
  });

  test('scores above 512 MiB are, without being asked', () => {
    const text = (tokens: number) => {
      const x = tx.zeros([1, 1, tokens, 8]);
      return textOf('cpu', [attend(x, x, x)]);
    };
    expect(text(8 * 1024)).not.toContain('stablehlo.while'); // 256 MiB
    expect(text(16 * 1024)).toContain('stablehlo.while'); // 1 GiB
    expect(text(16 * 1024)).toContain('tensor<1x1x1024x16384xf32>'); // 64 MiB at a time
  });
});

describe('dropout', () => {
  const eye = (n: number) => tx.eye(n, { dtype: 'f32' }).reshape([1, 1, n, n]);
  /** The weights themselves: all are 1 / 64 before. */
  const weights = (dropoutP: number, generator?: tx.Generator) =>
    attend(tx.zeros([1, 1, 64, 8]), tx.zeros([1, 1, 64, 8]), eye(64), { dropoutP, ...(generator && { generator }) });

  test('drops its part of the weights, and makes up for it in the others', async () => {
    const got = await numbers(weights(0.25, new tx.Generator(1)));
    const kept = got.filter((x) => x !== 0);
    for (const x of kept) expect(x).toBeCloseTo(1 / 64 / 0.75, 6);
    expect(Math.abs(kept.length / got.length - 0.75)).toBeLessThan(4 * Math.sqrt((0.25 * 0.75) / got.length));
  });

  test('a seed gives the same again, the next draw others; without dropout nothing is drawn', async () => {
    const g = new tx.Generator(1);
    const [a, b] = [await numbers(weights(0.5, g)), await numbers(weights(0.5, g))];
    expect(b).not.toEqual(a);
    expect(await numbers(weights(0.5, new tx.Generator(1)))).toEqual(a);
    const before = await numbers(g.state);
    weights(0, g);
    expect(await numbers(g.state)).toEqual(before);
  });

  test('of everything is 0', async () => {
    expect(new Set(await numbers(weights(1)))).toEqual(new Set([0]));
  });

  test('its gradient goes by what was kept', async () => {
    const xs = [wave([1, 3, 2]), wave([1, 4, 2], 'f64', 1), wave([1, 4, 2], 'f64', 2)];
    const f = (q: T, k: T, v: T) => {
      tx.manualSeed(7);
      return attend(q, k, v, { dropoutP: 0.4 });
    };
    expect(await tx.gradcheck(f as never, xs as never)).toBe(true);
  });
});

test('a step has six products: the weights of the gradient are those of the forward pass', async () => {
  const client = await startCpu();
  const shape = [2, 4, 32, 8];
  const made = withGradients(await operands('f32', shape, shape, shape), (q, k, v) => attend(q!, k!, v!));
  const text = textOf('cpu', made);
  expect(text.split('dot_general').length - 1).toBe(7); // the scores are written twice
  const program = await client.compile(text);
  expect((await program.optimizedHlo()).match(/ dot\(/g)).toHaveLength(6);
});

test('one tensor may be query, key and value: its gradients, of first and second order, add up', async () => {
  const x = wave([1, 3, 2]);
  const run = (f: (x: T) => T) => {
    const [g] = tx.grad(f(x).sin().sum(), [x], { createGraph: true });
    return [g!, ...tx.grad(g!.sin().sum(), [x])];
  };
  const byHand = (y: T) => y.matmul(y.transpose(1, 2)).div(Math.SQRT2).softmax(2).matmul(y);
  const [got, want] = [run((y) => attend(y, y, y)), run(byHand)];
  for (const [i, g] of got.entries()) {
    const w = await numbers(want[i]!);
    (await numbers(g)).forEach((v, j) => expect(v).toBeCloseTo(w[j]!, 11));
  }
});

test('in a scan and in a checkpoint it is itself', async () => {
  const x = wave([2, 3, 4]);
  const layer = (y: T) => y.add(attend(y, y, y, { isCausal: true }));
  const plain = tx.grad(layer(layer(x)).sum(), [x])[0]!;
  const scanned = tx.grad(tx.scan((y: T, _: T) => [layer(y), []], x, tx.zeros([2]))[0].sum(), [x])[0]!;
  const again = tx.grad(tx.checkpoint(layer, tx.checkpoint(layer, x)).sum(), [x])[0]!;
  const want = await numbers(plain);
  for (const got of [scanned, again]) (await numbers(got)).forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 11));
});

test('a causal one is computed in bands on the CPU, without what is hidden, and gives the same', async () => {
  const shape = [2, 3, 256, 4];
  const xs = [wave(shape), wave(shape, 'f64', 1), wave(shape, 'f64', 2)];
  const banded = withGradients(xs, (q, k, v) => attend(q, k, v, { isCausal: true }).tanh());
  const attnMask = tx.ones([256, 256], { dtype: 'bool' }).tril();
  const whole = withGradients(xs, (q, k, v) => attend(q, k, v, { attnMask }).tanh());
  const scores = (ts: T[]) => [...new Set(textOf('cpu', ts).match(/-> tensor<6x64x(64|128|192|256)xf64>/g))];
  expect(scores(banded).length).toBe(4);
  expect(scores(whole).length).toBe(0);
  for (const [i, t] of banded.entries()) {
    const [ours, theirs] = [await numbers(t), await numbers(whole[i]!)];
    expect(Math.max(...ours.map((x, j) => Math.abs(x - theirs[j]!)))).toBeLessThan(1e-12);
  }
});
