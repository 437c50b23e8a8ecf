// Every layer with torch's weights, loaded by name: results, gradients of inputs and parameters, and buffers after the
// forward pass, in train and eval mode.
import { readFileSync } from 'node:fs';
import { autocast, graphText, nn, type Tensor, zeros } from 'tsxla';
import { type HostArray, readSafetensors } from 'tsxla/io';
import { expect, test } from 'vitest';
import { evaluate } from '../../dist/runtime/evaluate.js';
import { checkClose, fetch, isFloat, upload, weighted } from '../ops/check.js';
import { goldenPath } from '../support.js';
import { type LayerRow, rows } from './layers.rows.js';
import type { Case } from './moduleinfo.js';

const golden = await readSafetensors(goldenPath('nn.safetensors'));
/** What is under a prefix, by the rest of its name. */
const under = (prefix: string): Map<string, HostArray> =>
  new Map([...golden].flatMap(([key, a]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), a]] : [])));

const tensorsIn = (tree: unknown): Tensor[] =>
  Array.isArray(tree) ? tree.flatMap(tensorsIn) : tree === null ? [] : [tree as Tensor];

type Mode = 'train' | 'eval';
interface Made {
  readonly tensors: Map<string, Tensor | null>;
  readonly want: Map<string, HostArray>;
}
/** All that a layer makes, by its name in the golden file. */
function describeRow(row: LayerRow, mode: Mode): Made {
  const module = row.make().double();
  module.loadStateDict(under(`${row.name}/state/`));
  module.train(mode === 'train');
  const own = under(`${row.name}/${mode}/`);
  const want = own.size ? own : under(`${row.name}/train/`); // there is one where the modes do not differ
  const xs = row.inputs.map((_, i) => golden.get(`${row.name}/in${i}`)!).map((a) => upload(a, isFloat(a.dtype)));
  const ys = tensorsIn(row.run(module as never, ...xs));
  weighted(
    ys,
    ys.map((_, i) => upload(want.get(`seed${i}`)!, false)),
  ).backward();
  const tensors = new Map<string, Tensor | null>([
    ...ys.map((y, i) => [`out${i}`, y] as const),
    ...xs.map((x, i) => [`grad${i}`, x.grad] as const),
    ...[...module.namedParameters()].map(([name, p]) => [`param/${name}`, p.grad] as const),
    ...[...module.namedBuffers()].map(([name, b]) => [`buffer/${name}`, b] as const),
  ]);
  return { tensors, want };
}

async function check(row: LayerRow, { tensors, want }: Made): Promise<void> {
  for (const [key, array] of want) {
    if (key.startsWith('seed')) continue;
    const ours = tensors.get(key);
    if (!ours) throw new Error(`torch has ${key}, we have none`);
    checkClose(await fetch(ours), array, key, row.tolerance);
  }
  const more = [...tensors].filter(([key, t]) => t && !want.has(key)).map(([key]) => key);
  expect(more).toEqual([]); // gradients that torch does not have
}

/** Torch's results in the modes differ, or (RReLU) are drawn from one number only. */
const tellsModes = (row: LayerRow) => golden.has(`${row.name}/eval/out0`) || row.torch.startsWith('nn.RReLU');
const cases = rows.flatMap((row) => [
  { row, mode: 'train' as const },
  ...(tellsModes(row) ? [{ row, mode: 'eval' as const }] : []),
]);
// Several layers in one program: that is compiled sooner than many programs.
const TOGETHER = 16;
for (let start = 0; start < cases.length; start += TOGETHER) {
  const group = cases.slice(start, start + TOGETHER).map(({ row, mode }) => {
    try {
      return { row, mode, made: describeRow(row, mode) };
    } catch (error) {
      return { row, mode, error };
    }
  });
  const exprs = group.flatMap(({ made }) => [...(made?.tensors.values() ?? [])].flatMap((t) => (t ? [t.expr] : [])));
  const computed = evaluate(exprs, { cause: 'sync' });
  computed.catch(() => {}); // each test says so
  for (const { row, mode, made, error } of group) {
    test(`${row.name}, ${mode}`, async () => {
      if (!made) throw error;
      await computed;
      await check(row, made);
    });
  }
}

test('where torch does not tell train from eval mode, the programs are the same', () => {
  const program = (row: LayerRow, mode: Mode) =>
    graphText([...describeRow(row, mode).tensors.values()].filter((t) => t !== null));
  const alike = rows.filter((row) => !tellsModes(row));
  expect(alike.filter((row) => program(row, 'train') !== program(row, 'eval')).map((row) => row.name)).toEqual([]);
  expect(alike.length).toBeLessThan(rows.length);
});

test('inside autocast every layer takes f32, and gradients of its parameters are f32', () => {
  const wrong = rows.filter((row) => {
    const module = row.make();
    const xs = row.inputs.map(({ shape, dtype }) =>
      dtype === 'f64' ? zeros(shape, { requiresGrad: true }) : zeros(shape, { dtype }),
    );
    const run = () => tensorsIn(row.run(module as never, ...xs));
    if (module instanceof nn.BCELoss) return false; // refused there, as in torch
    for (const y of autocast({ dtype: 'bf16' }, run)) y.sum().backward();
    return module.parameters().some((p) => p.grad && p.grad.dtype !== 'f32');
  });
  expect(wrong.map((row) => row.name)).toEqual([]);
});

test('every layer has a row', () => {
  const elsewhere = ['Module', 'ModuleList', 'ModuleDict', 'LayerStack']; // module.test.ts, stack.test.ts
  const others = [
    ...['ParameterList', 'ParameterDict', 'AdaptiveLogSoftmaxWithLoss'], // names.test.ts
    'LazyLinear',
    'ChannelShuffle',
    'TripletMarginWithDistanceLoss',
    ...[1, 2, 3].map((n) => `MaxUnpool${n}d`),
    ...['Batch', 'Instance'].flatMap((k) => [1, 2, 3].map((n) => `Lazy${k}Norm${n}d`)),
  ];
  const { cases } = JSON.parse(readFileSync(goldenPath('moduleinfo/cases.json'), 'utf8')) as { cases: Case[] };
  elsewhere.push(...cases.map((c) => c.module), ...others); // moduleinfo.test.ts, options.test.ts
  const layers = Object.entries(nn).filter(([, c]) => typeof c === 'function' && c.prototype instanceof nn.Module);
  const tested = new Set(rows.map((row) => row.make().constructor.name));
  expect(layers.map(([name]) => name).filter((name) => !tested.has(name) && !elsewhere.includes(name))).toEqual([]);
  expect(layers.length).toBeGreaterThan(100);
});
