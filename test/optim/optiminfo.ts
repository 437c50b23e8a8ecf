// Replays what torch does on the samples of its own optimizer database (scripts/golden/optiminfo.py): each case passes, or says
// what went wrong.
import * as tx from 'tsxla';
import { counts } from '../../dist/runtime/program.js';
import { golden } from '../support.js';

export interface Run {
  readonly name: string;
  readonly desc: string;
  readonly dtype: 'f32' | 'f64';
  readonly grouped: boolean;
  readonly options: Readonly<Record<string, unknown>>;
  readonly losses: number[];
  readonly sums: number[][];
  readonly params: number[][];
  readonly state: Record<string, number[]>[];
  readonly keys: { readonly group: string[]; readonly state: string[] };
}
interface Resumed {
  readonly name: string;
  readonly steps: number;
  readonly then: number[][];
  readonly saved: {
    readonly state: Record<string, Record<string, number | { shape: number[]; data: number[] }>>;
    readonly param_groups: object[];
  };
  readonly later: number[][];
}
interface OneParam {
  readonly id: number;
  readonly shape: number[];
  readonly dtype: string;
  readonly grad: boolean;
  readonly name?: string;
}
interface ErrorCase {
  readonly name: string;
  readonly desc: string;
  readonly params: OneParam | (OneParam | { params: OneParam | OneParam[] })[] | null;
  readonly options: Readonly<Record<string, unknown>>;
}
type Args = Readonly<Record<string, unknown>>;
interface ScheduleCase {
  readonly kind: string;
  readonly args: Args;
  readonly optimizer: 'SGD' | 'Adam';
  readonly epochs: (number | null)[] | null;
  readonly metrics: number[] | null;
  readonly seen: number[][];
  readonly saved: object;
}
export const cases = JSON.parse(golden('optiminfo.json')) as {
  torch: string;
  shapes: number[][];
  runs: Run[];
  resumed: Resumed[];
  errors: ErrorCase[];
  schedules: ScheduleCase[];
  refused: [string, Args][];
};
const { shapes } = cases;

const size = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
const wave = (shape: readonly number[], at: number, height: number) =>
  Float64Array.from({ length: size(shape) }, (_, i) => Math.sin(i * 0.7 + at) * height);
const made = (shape: readonly number[], at: number, height: number, dtype: tx.DType) =>
  tx
    .tensor(wave(shape, at, height), { shape, dtype: 'f64' })
    .to(dtype)
    .detach();
const read = async (t: tx.Tensor) => Array.from((await t.to('f64').flatten().data()) as Float64Array);
const weighted = (shape: readonly number[], xs: readonly number[]) => {
  const weights = wave(shape, 1, 1);
  return xs.reduce((sum, x, i) => sum + x * weights[i]!, 0);
};

/** Options as they were: tensors are tensors again. */
function decoded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decoded);
  if (value && typeof value === 'object' && 'tensor' in value) {
    const { tensor } = value as { tensor: number | number[] };
    return tx.tensor(tensor as number[], { dtype: 'f32' });
  }
  return value;
}
const optionsOf = (options: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(options).map(([k, v]) => [k, decoded(v)])) as object;

// biome-ignore lint/suspicious/noExplicitAny: optimizers and schedules by name
const byName = tx.optim as any;
const close = (got: number, want: number, tolerance: number, scale = 1) =>
  Math.abs(got - want) <= tolerance * Math.max(scale, Math.abs(want));

class Mismatch extends Error {}
function check(ok: boolean, text: string): asserts ok {
  if (!ok) throw new Mismatch(text);
}
/** Muon iterates in bf16, whose products are rounded otherwise elsewhere; LBFGS chooses by values, which amplifies roundings. */
const tolerance = ({ name, dtype }: Run): number =>
  name === 'Muon' ? 2e-2 : dtype === 'f64' ? (name === 'LBFGS' ? 1e-6 : 1e-9) : name === 'LBFGS' ? 2e-3 : 5e-6;

/** The small model that every optimizer learns. */
function problem(name: string, dtype: tx.DType, values?: readonly number[][]) {
  const isLearned = (s: readonly number[]) => name !== 'Muon' || s.length === 2;
  const every = shapes.map((s, k) => made(s, 3 * k + 1, 0.5, dtype).requiresGrad_(isLearned(s)));
  const [x, y] = [made([6, 3], 0.3, 1, dtype), made([6, 2], 2, 1, dtype)];
  const [w1, b1, w2, b2] = every as [tx.Tensor, tx.Tensor, tx.Tensor, tx.Tensor];
  const params = every.filter((p) => isLearned(p.shape));
  tx.noGrad(() =>
    values?.forEach(
      (v, i) => void params[i]!.copy_(tx.tensor(v, { dtype: 'f64' }).reshape(params[i]!.shape).to(dtype)),
    ),
  );
  const masks = params.map((p) =>
    [0, 1, 2].map((n) =>
      tx
        .tensor(
          Float64Array.from({ length: p.numel() }, (_, i) => Number((i + n) % 3 !== 0)),
          { shape: p.shape },
        )
        .to(dtype),
    ),
  );
  const closure = (optimizer: tx.optim.Optimizer, n: number) => {
    optimizer.zeroGrad();
    const out = x.matmul(w1.t()).add(b1).tanh().matmul(w2.t()).add(b2);
    const loss = out.sub(y).square().mean();
    loss.backward();
    // torch's SparseAdam takes sparse gradients: some elements are absent.
    if (name === 'SparseAdam') for (const [i, p] of params.entries()) p.grad = p.grad!.mul(masks[i]![n % 3]!);
    return loss;
  };
  return { params, closure };
}

/** torch's state dict, taken over in the middle. */
export async function resume({ name, steps, then, saved, later }: Resumed): Promise<void> {
  const { params, closure } = problem(name, 'f32', then);
  const optimizer = new byName[name](params);
  const array = (x: number | { shape: number[]; data: number[] }) =>
    typeof x === 'number' ? x : { dtype: 'f32', shape: x.shape, data: Float32Array.from(x.data) };
  const state = Object.fromEntries(
    Object.entries(saved.state).map(([id, own]) => [
      id,
      Object.fromEntries(Object.entries(own).map(([key, value]) => [key, value && array(value)])),
    ]),
  );
  optimizer.loadStateDict({ state, param_groups: saved.param_groups });
  for (const [k, want] of later.entries()) {
    await optimizer.step(() => closure(optimizer, steps + k));
    for (const [i, p] of params.entries()) {
      const sum = weighted(p.shape, await read(p));
      const limit = name === 'Muon' ? 1e-2 : 5e-6;
      check(close(sum, want[i]!, limit), `parameter ${i}, ${k + 1} steps later: ${sum}, torch ${want[i]}`);
    }
  }
}

/** One sample of an optimizer: f32 in a compiled step, f64 in a plain loop. */
export async function replay(run: Run): Promise<void> {
  const { dtype } = run;
  const { params, closure } = problem(run.name, dtype);
  const half = params.length / 2;
  const groups = [{ params: params.slice(0, half) }, { params: params.slice(half), lr: 0.004 }];
  const optimizer = new byName[run.name](run.grouped ? groups : params, optionsOf(run.options));
  const start = optimizer.paramGroups[0].lr;
  const isCompiled = dtype === 'f32' && run.name !== 'LBFGS' && run.name !== 'SparseAdam';
  const step = tx.compile(() => {
    const loss = closure(optimizer, 0);
    optimizer.step();
    return loss;
  });
  const limit = tolerance(run);
  let compiled = 0;
  for (const [n, want] of run.sums.entries()) {
    const loss: tx.Tensor = isCompiled ? await step() : await optimizer.step(() => closure(optimizer, n));
    const got = Number(await loss.item());
    check(close(got, run.losses[n]!, limit), `loss of step ${n + 1}: ${got}, torch ${run.losses[n]}`);
    for (const [i, p] of params.entries()) {
      const sum = weighted(p.shape, await read(p));
      check(close(sum, want[i]!, limit), `parameter ${i} after step ${n + 1}: ${sum}, torch ${want[i]}`);
    }
    if (n === 1) compiled = counts.compiled;
  }
  const isSteady = run.name !== 'SparseAdam' && run.sums.length > 2; // whose masks, and steps, are few
  if (!isCompiled && isSteady) check(counts.compiled === compiled, 'a plain loop compiles after two steps');
  if (isCompiled) check(step.programs === 1, `${step.programs} programs for ${run.sums.length} steps`);
  check(optimizer.paramGroups[0].lr === start, 'the learning rate has changed');

  const { state, param_groups } = optimizer.stateDict();
  const lacking = run.keys.group.find((key) => !(key in param_groups[0]));
  check(!lacking, `the state dict's groups have no ${lacking}`);
  const missing = run.keys.state.find((key) => key !== 'al' && !(key in (state[0] ?? {})));
  check(!missing, `the state dict's state has no ${missing}`);
  for (const [i, p] of params.entries()) {
    const values = await read(p);
    values.forEach((v, k) => check(close(v, run.params[i]![k]!, limit), `parameter ${i}[${k}]: ${v}`));
    for (const [name, want] of Object.entries(run.state[i]!)) {
      const t = optimizer.state.get(p)[name] as tx.Tensor;
      const all = await read(t);
      const got = dtype === 'f64' ? [weighted(t.shape, all)] : all;
      const scale = Math.max(1e-2, ...want.map(Math.abs));
      got.forEach((v, k) => check(close(v, want[k]!, limit, scale), `state ${name} of ${i}: ${v}, torch ${want[k]}`));
    }
  }
}

/** An input that torch refuses: it must be refused here, with a sentence. */
export async function refuses({ name, params, options }: ErrorCase): Promise<void> {
  const known = new Map<number, tx.Tensor>();
  const one = (p: OneParam) => {
    if (!known.has(p.id)) {
      const dtype = p.dtype === 'complex64' ? 'c64' : 'f32';
      const t = tx.full(p.shape, 0.5, { dtype: 'f32' }).to(dtype as 'f32');
      known.set(p.id, dtype === 'f32' ? t.detach().requiresGrad_(true) : t);
    }
    const t = known.get(p.id)!;
    return p.name ? [p.name, t] : t;
  };
  const list = (p: OneParam | OneParam[]) => (Array.isArray(p) ? p.map(one) : one(p));
  try {
    const given =
      params === null
        ? [tx.zeros([1, 1], { requiresGrad: true })]
        : Array.isArray(params)
          ? params.map((p) => ('params' in p ? { ...p, params: list(p.params) } : one(p)))
          : one(params);
    const optimizer = new byName[name](given, optionsOf(options));
    for (const p of known.values()) p.grad = tx.zerosLike(p);
    await optimizer.step();
  } catch (error) {
    check(error instanceof tx.TsxlaError, `refused by ${error}`);
    check((error as Error).message.length > 20, `refused without a sentence: ${error}`);
    return;
  }
  throw new Mismatch('taken');
}

const FACTORS: Readonly<Record<string, (n: number) => number>> = {
  pow95: (n) => 0.95 ** n,
  pow9: (n) => 0.9 ** n,
  half7: (n) => (n % 7 === 3 ? 0.5 : 1),
  inverse: (n) => 1 / (1 + n),
};
const camel = (name: string) => name.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase());
function schedule(optimizer: unknown, kind: string, args: Args): Record<string, never> & tx.optim.Schedule {
  const given = Object.fromEntries(
    Object.entries(args).map(([name, value]) => {
      const key = camel(name);
      if (key === 'lrLambda' || key === 'scaleFn')
        return [key, Array.isArray(value) ? value.map((f) => FACTORS[f]) : FACTORS[value as string]];
      if (key === 'schedulers') return [key, (value as [string, Args][]).map(([k, a]) => schedule(optimizer, k, a))];
      return [key, value];
    }),
  );
  return kind === 'ChainedScheduler'
    ? new byName.ChainedScheduler(given.schedulers)
    : new byName[kind](optimizer, given);
}
const twoGroups = (kind: 'SGD' | 'Adam') =>
  new byName[kind](
    [0.1, 0.02].map((lr) => ({ params: [tx.zeros([1], { requiresGrad: true })], lr })),
    kind === 'SGD' ? { momentum: 0.9 } : {},
  );

/** A schedule's rates in every step; and from torch's state dict, and its own, in the middle. */
export function replaySchedule({ kind, args, optimizer, epochs, metrics, seen, saved }: ScheduleCase): void {
  const follow = (
    from: number,
    begin?: (s: ReturnType<typeof schedule>) => void,
    then?: (n: number, s: object) => void,
  ) => {
    const opt = twoGroups(optimizer);
    const s = schedule(opt, kind, args);
    begin?.(s);
    for (let n = from; n < seen.length; n++) {
      const want = seen[n]!;
      const groups = opt.paramGroups as { lr: number; momentum: number; betas: number[] }[];
      const got = groups.map((g) => g.lr);
      if (want.length > 2) got.push(...groups.map((g) => (optimizer === 'SGD' ? g.momentum : g.betas[0]!)));
      got.forEach((x, i) => check(close(x, want[i]!, 1e-10, 1e-4), `step ${n}: ${got}, torch ${want}`));
      check(
        String(s.getLastLr()) === String(got.slice(0, 2)),
        `getLastLr() in step ${n}: ${s.getLastLr()}, set ${got}`,
      );
      then?.(n, s);
      if (metrics) (s.step as (x: number) => void)(metrics[n]!);
      else s.step(epochs?.[n] ?? undefined);
    }
  };
  let own: object | undefined;
  follow(0, undefined, (n, s) => {
    if (n === 17) own = JSON.parse(JSON.stringify((s as tx.optim.Schedule).stateDict()));
  });
  follow(17, (s) => s.loadStateDict(own!));
  follow(17, (s) => s.loadStateDict(saved));
}

export function refusesSchedule([kind, args]: [string, Args]): void {
  try {
    schedule(twoGroups('SGD'), kind, args);
  } catch (error) {
    check(error instanceof tx.TsxlaError, `refused by ${error}`);
    return;
  }
  throw new Mismatch('taken');
}

export interface Case {
  readonly section: 'optimizers' | 'error inputs' | 'schedules' | "schedules' error inputs";
  readonly name: string;
  readonly desc: string;
  /** One of the selection that the quick suite runs. */
  readonly isQuick: boolean;
  readonly run: () => void | Promise<void>;
}
/** f32 runs are compiled, f64 runs are plain loops. Where rules have no numbers that groups share, a few are enough for every day. */
const SHARING = ['SGD', 'NAdam', 'ASGD', 'Rprop', 'RAdam', 'LBFGS'];
const isChosen = ({ name, desc, dtype, grouped }: Run): boolean =>
  (dtype === 'f32' ? !grouped : desc === 'default')
    ? dtype === 'f32' || SHARING.includes(name)
    : SHARING.includes(name) && grouped;
const quick = new Set(cases.runs.filter(isChosen).filter((_, i) => i % 2 === 0));
export const all: readonly Case[] = [
  ...cases.runs.map((run) => ({
    ...{ section: 'optimizers' as const, name: run.name, desc: `${run.desc}, ${run.dtype}` },
    isQuick: quick.has(run),
    run: () => replay(run),
  })),
  ...cases.resumed.map((r) => ({
    ...{ section: 'optimizers' as const, name: r.name, desc: "torch's state dict" },
    isQuick: SHARING.includes(r.name),
    run: () => resume(r),
  })),
  ...cases.errors.map((e) => ({
    ...{ section: 'error inputs' as const, name: e.name, desc: e.desc, isQuick: true },
    run: () => refuses(e),
  })),
  ...cases.schedules.map((s) => ({
    ...{ section: 'schedules' as const, name: s.kind, desc: JSON.stringify(s.args), isQuick: true },
    run: () => replaySchedule(s),
  })),
  ...cases.refused.map((r) => ({
    ...{ section: "schedules' error inputs" as const, name: r[0], desc: JSON.stringify(r[1]), isQuick: true },
    run: () => refusesSchedule(r),
  })),
];

/** What does not pass, and why. A case that passes and is listed here is an error, as is one that fails and is not. */
const KNOWN: readonly { readonly of: (c: Case) => boolean; readonly why: string }[] = [
  {
    of: ({ section, desc }) => section === 'optimizers' && desc.includes('Tensor betas'),
    why: 'differs: betas are numbers here. They may be set at any time (group.betas = ...) and are inputs of the program',
  },
  {
    of: ({ section, desc }) => section === 'error inputs' && desc.startsWith("lr as Tensor doesn't work with foreach"),
    why: 'differs: foreach has no effect here, so there is nothing to refuse',
  },
  {
    of: ({ section, name, desc }) =>
      section === 'error inputs' && name === 'SparseAdam' && desc.startsWith('dense params'),
    why: 'absent: there are no sparse tensors here',
  },
];
export const knownReason = (c: Case): string | undefined => KNOWN.find((k) => k.of(c))?.why;

/** What is not as it is said to be, of a selection. */
export async function surprises(selected: readonly Case[]): Promise<string[]> {
  const found: string[] = [];
  for (const c of selected) {
    const failure = await Promise.resolve()
      .then(c.run)
      .then(
        () => undefined,
        (error: Error) => error.message.split('\n')[0],
      );
    const title = `${c.section}: ${c.name} ${c.desc}`;
    if (failure && !knownReason(c)) found.push(`${title}: ${failure}`);
    if (!failure && knownReason(c)) found.push(`${title}: passes, and is listed as "${knownReason(c)}"`);
  }
  return found;
}
