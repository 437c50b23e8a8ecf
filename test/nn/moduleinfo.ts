// Replays cases of PyTorch's ModuleInfo database (scripts/golden/moduleinfo.py): results, gradients of inputs and parameters,
// buffers after the call and the names of the state dict, against torch.
import { readFileSync } from 'node:fs';
import { nn, Tensor, tensor } from 'tsxla';
import { type HostArray, readSafetensors } from 'tsxla/io';
import { DTYPES, type DType } from '../../dist/base/dtype.js';
import { evaluate } from '../../dist/runtime/evaluate.js';
import { checkClose, fetch, upload } from '../ops/check.js';

export interface Case {
  readonly key: string;
  readonly module: string;
  readonly dtype: 'f32' | 'f64';
  readonly training: boolean;
  readonly make: readonly unknown[];
  readonly call: readonly unknown[];
  readonly outputs: number;
  /** The results that a gradient starts from. */
  readonly backward: readonly number[];
}
export interface Database {
  readonly torch: string;
  readonly cases: readonly Case[];
  readonly tensors: ReadonlyMap<string, HostArray>;
}
export async function readDatabase(folder: string): Promise<Database> {
  const { torch, cases } = JSON.parse(readFileSync(`${folder}/cases.json`, 'utf8')) as Omit<Database, 'tensors'>;
  const found = await readSafetensors(`${folder}/tensors.safetensors`);
  return { torch, cases, tensors: found };
}

/** Python's, as the script does: the same for every result of a size. */
const seedOf = (y: Tensor): Tensor =>
  tensor(
    Float64Array.from({ length: y.numel() }, (_, k) => (((k * 5 + 3) % 17) - 8) / 8),
    { dtype: 'f64', shape: y.shape },
  ).to(y.dtype);

const FUNCTIONS = nn.functional as unknown as Record<string, unknown>;
const CLASSES = nn as unknown as Record<string, new (...args: unknown[]) => nn.Module>;
const classOf = (name: string) => {
  const found = CLASSES[name];
  if (!found) throw new Error(`absent: nn.${name}`);
  return found;
};
/** An argument, of what the script wrote. */
function argument(x: unknown, inputs: readonly Tensor[]): unknown {
  if (Array.isArray(x)) return x.map((e) => argument(e, inputs));
  if (x === null || typeof x !== 'object') return x;
  const given = x as Record<string, unknown>;
  if ('tensor' in given) return inputs[given['tensor'] as number];
  if ('function' in given) return FUNCTIONS[given['function'] as string];
  if ('number' in given) return Number(String(given['number']).replace('inf', 'Infinity'));
  if ('module' in given) return new (classOf(given['module'] as string))(...list(given['args'], inputs));
  if ('packed' in given)
    return nn.utils.rnn.packPaddedSequence(argument(given['packed'], inputs) as Tensor, given['lengths'] as number[], {
      batchFirst: true,
    });
  return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, argument(value, inputs)]));
}
const list = (x: unknown, inputs: readonly Tensor[]) => (x as unknown[]).map((e) => argument(e, inputs));

const tensorsIn = (x: unknown): Tensor[] => {
  if (x instanceof Tensor) return [x];
  if (x instanceof nn.utils.rnn.PackedSequence) return [nn.utils.rnn.padPackedSequence(x, { batchFirst: true })[0]];
  if (x === null || typeof x !== 'object') return [];
  return (Symbol.iterator in x ? [...(x as Iterable<unknown>)] : Object.values(x)).flatMap(tensorsIn);
};

interface Made {
  readonly got: ReadonlyMap<string, Tensor | null>;
  readonly want: ReadonlyMap<string, HostArray>;
}
function describe(c: Case, tensors: Database['tensors']): Made {
  const under = (prefix: string) =>
    new Map(
      [...tensors].flatMap(([key, a]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), a] as const] : [])),
    );
  const own = under(`${c.key}/`);
  const state = under(`${c.key}/state/`);
  const given = [...own.keys()].filter((key) => /^in\d+$/.test(key)).length;
  const wants = JSON.stringify([c.make, c.call]);
  const inputs = Array.from({ length: given }, (_, i) =>
    upload(own.get(`in${i}`)!, wants.includes(`{"tensor":${i},"grad":true}`)),
  );
  const make = list(c.make, inputs);
  const module = new (classOf(c.module))(...make).to(c.dtype as DType).train(c.training);
  if (c.module.startsWith('Lazy')) (module.forward as (...args: unknown[]) => unknown)(...list(c.call, inputs));
  const names = [...module.stateDict().keys()].toSorted();
  if (String(names) !== String([...state.keys()].toSorted()))
    throw new Error(`the state dict has ${names.join(', ') || 'nothing'}, torch's ${[...state.keys()].join(', ')}`);
  module.loadStateDict(state);
  const ys = tensorsIn((module.forward as (...args: unknown[]) => unknown)(...list(c.call, inputs)));
  if (ys.length !== c.outputs) throw new Error(`there are ${ys.length} results, torch has ${c.outputs}`);
  const sums = c.backward.map((i) => ys[i]!.mul(seedOf(ys[i]!)).sum());
  if (sums.length) sums.reduce((a, b) => a.add(b)).backward();
  const got = new Map<string, Tensor | null>([
    ...ys.map((y, i) => [`out${i}`, y] as const),
    ...inputs.map((x, i) => [`grad${i}`, x.grad] as const),
    ...[...module.namedParameters()].map(([name, p]) => [`param/${name}`, p.grad] as const),
    ...[...module.namedBuffers()].map(([name, b]) => [`buffer/${name}`, b] as const),
  ]);
  const want = new Map([...own].filter(([key]) => !/^(in\d+$|state\/)/.test(key)));
  return { got, want };
}

/** Sums of many roundings, as in torch's own tests of modules. */
export const TOLERANCE = { f32: 1e-4, f64: 1e-8 };
async function compare({ dtype }: Case, { got, want }: Made): Promise<void> {
  for (const [name, array] of want) {
    const ours = got.get(name);
    if (!ours) throw new Error(`torch has ${name}, there is none here`);
    const tolerance = DTYPES[array.dtype].mlir.includes('f') ? TOLERANCE[dtype] : 0;
    checkClose(await fetch(ours), array, name, tolerance);
  }
}

const TOGETHER = 24;
const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).split('\n')[0]!;
/** What is wrong with each of these cases; undefined where nothing is. Many go into one program: that is compiled sooner. */
export async function replay(database: Database, cases: readonly Case[]): Promise<Map<string, string | undefined>> {
  const byCase = new Map<string, Map<string, HostArray>>();
  for (const [key, a] of database.tensors) {
    const of = cases.length && key.match(/^\w+\/\d+\/f\d+(\/eval)?(?=\/)/)![0];
    byCase.set(of as string, (byCase.get(of as string) ?? new Map()).set(key, a));
  }
  const outcomes = new Map<string, string | undefined>();
  for (let start = 0; start < cases.length; start += TOGETHER) {
    const group = cases.slice(start, start + TOGETHER).flatMap((c) => {
      try {
        return [{ c, made: describe(c, byCase.get(c.key) ?? new Map()) }];
      } catch (error) {
        outcomes.set(c.key, textOf(error));
        return [];
      }
    });
    const exprs = group.flatMap(({ made }) => [...made.got.values()].flatMap((t) => (t ? [t.expr] : [])));
    await evaluate(exprs, { cause: 'sync' }).catch(() => undefined); // then each fails or succeeds by itself
    for (const { c, made } of group) outcomes.set(c.key, await compare(c, made).then(() => undefined, textOf));
  }
  return outcomes;
}
