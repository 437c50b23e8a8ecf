// Replays golden cases of PyTorch's operator database: calls, compares dtypes, shapes, values, gradients; many in a program.
import * as tx from 'tsxla';
import { Absent, bytesOf, callCase, decode, type Value } from './call.js';
import { type Case, type Entry, type Expected, type Golden, type Sampled, titleOf } from './golden.js';
import { flatResults } from './spelled.js';

export type Part = 'value' | 'grad' | 'grad2' | 'error';
export interface Outcome {
  readonly entry: string;
  readonly dtype: Sampled | 'error';
  readonly index: number;
  readonly part: Part;
  /** Why it is not as torch's; nothing if it is. */
  readonly wrong?: string;
  /** The function is not here, or needs what is not here. */
  readonly absent?: boolean;
}

/** A tensor to be read and what it must be. */
interface Read {
  readonly tensor: tx.Tensor;
  readonly expected: number | null; // null: zeros
  readonly rtol: number;
  readonly atol: number;
  readonly noise: number;
  readonly what: string;
}
interface Job {
  readonly outcome: Omit<Outcome, 'wrong'>;
  readonly reads: readonly Read[];
}

const sentence = (e: unknown): string =>
  e instanceof tx.TsxlaError && !(e instanceof tx.PjrtError)
    ? `${e.name}: ${e.message}`
    : `raw ${(e as Error).name}: ${(e as Error).message}`;

/** Factors of a result in the sum whose gradient is taken: `seed_like` of scripts/golden/opinfo.py. */
function seedLike(y: tx.Tensor, salt: number): tx.Tensor {
  const seed = Float32Array.from({ length: y.numel() }, (_, n) => (((n * 37 + salt * 11) % 13) - 6) / 8);
  return tx.tensor(seed, { shape: [...y.shape] }).to(y.dtype);
}

/** A value that is no tensor as text: 3n and 3 are the same integer. */
const plainOf = (x: Value): string => (Array.isArray(x) ? `[${x.map(plainOf)}]` : String(x));

/** The first difference of a list of results in dtype and shape; else what is to be read. */
function plan(
  golden: Golden,
  ys: Value[],
  expected: readonly Expected[],
  tolerance: readonly number[],
  signs: readonly number[] = [],
): Read[] | string {
  if (!ys.length && JSON.stringify(expected) === '[{"v":[]}]') return []; // the shape of a scalar
  if (ys.length !== expected.length) return `${ys.length} results instead of ${expected.length}`;
  const reads: Read[] = [];
  for (const [i, e] of expected.entries()) {
    const y = ys[i];
    if (e === null || !('t' in e)) {
      const value = e === null ? null : e.v;
      if (y instanceof tx.Tensor && value !== null && typeof value !== 'object' && y.numel() === 1) {
        const made = tx.tensor(value as number, { dtype: y.dtype });
        if (!y.shape.length)
          reads.push({
            tensor: tx.eq(y, made).logicalNot(),
            expected: null,
            rtol: 0,
            atol: 0,
            noise: 0,
            what: `result ${i}`,
          });
        continue;
      }
      const [got, want] = [plainOf(y), plainOf(decode(golden, value, []))];
      if (got !== want) return `result ${i} is ${got} instead of ${want}`;
      continue;
    }
    const [dtype, shape] = golden.tensors[e.t]!;

    if (!(y instanceof tx.Tensor))
      return `result ${i} is ${y === null ? 'null' : typeof y} instead of ${dtype}[${shape}]`;
    if (y.dtype !== dtype || String(y.shape) !== String(shape))
      return `result ${i} is ${y.dtype}[${y.shape}] instead of ${dtype}[${shape}]`;
    const tensor = signs.includes(i) ? y.abs() : y;
    reads.push({
      tensor,
      expected: e.t,
      rtol: tolerance[0]!,
      atol: tolerance[1]!,
      noise: e.n ?? 0,
      what: `result ${i}`,
    });
  }
  return reads;
}

function planGradients(
  golden: Golden,
  grads: readonly (tx.Tensor | null)[],
  leaves: readonly tx.Tensor[],
  expected: readonly Expected[],
  tolerance: readonly number[],
): Read[] | string {
  const reads: Read[] = [];
  for (const [i, e] of expected.entries()) {
    const [y, what] = [grads[i] ?? null, `gradient ${i}`];
    const common = { rtol: tolerance[0]!, atol: tolerance[1]!, what };
    if (e === null) {
      if (y) reads.push({ tensor: y, expected: null, noise: 0, ...common });
      continue;
    }
    if (!('t' in e)) return `${what}: no tensor`;
    const [dtype, shape] = golden.tensors[e.t]!;
    const tensor = y ?? tx.zerosLike(leaves[i]!); // none is zeros
    if (tensor.dtype !== dtype || String(tensor.shape) !== String(shape))
      return `${what} is ${tensor.dtype}[${tensor.shape}] instead of ${dtype}[${shape}]`;
    reads.push({ tensor, expected: e.t, noise: e.n ?? 0, ...common });
  }
  return reads;
}

const ARRAYS = {
  bool: Uint8Array,
  u8: Uint8Array,
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  i64: BigInt64Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  f32: Float32Array,
  c64: Float32Array,
  c128: Float64Array,
  f64: Float64Array,
} as const;
function expectedArray(golden: Golden, i: number): ArrayLike<number | bigint> {
  const bytes = bytesOf(golden, i);
  return new ARRAYS[golden.tensors[i]![0] as 'f32'](bytes.slice().buffer);
}

/** torch.testing.assert_close's tolerances, relative and absolute. */
const LEAST: Readonly<Record<string, readonly [number, number]>> = {
  f32: [1.3e-6, 1e-5],
  f64: [1e-7, 1e-7],
  c64: [1.3e-6, 1e-5],
  c128: [1e-7, 1e-7],
};

function difference(golden: Golden, read: Read, got: ArrayLike<number | bigint>): string | undefined {
  const want = read.expected === null ? undefined : expectedArray(golden, read.expected);
  const dtype = read.expected === null ? '' : golden.tensors[read.expected]![0];
  const [rtol, atol] = [Math.max(read.rtol, LEAST[dtype]?.[0] ?? 0), Math.max(read.atol, LEAST[dtype]?.[1] ?? 0)];
  for (let i = 0; i < got.length; i++) {
    const [a, b] = [got[i]!, want ? want[i]! : 0];
    if (typeof a === 'bigint' || typeof b === 'bigint') {
      if (BigInt(a) !== BigInt(b)) return `${read.what}[${i}] is ${a} instead of ${b}`;
      continue;
    }
    if (Object.is(a, b) || a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    const allowed = atol + rtol * Math.abs(b) + 3 * read.noise * Math.max(1, Math.abs(b));
    if (!(Math.abs(a - b) <= allowed) || !Number.isFinite(b)) return `${read.what}[${i}] is ${a} instead of ${b}`;
  }
  return undefined;
}

/** What to read for a case, and what is known without reading. */
async function prepare(
  golden: Golden,
  entry: Entry,
  dtype: Sampled,
  index: number,
  c: Case,
): Promise<{ jobs: Job[]; known: Outcome[] }> {
  const [jobs, known]: [Job[], Outcome[]] = [[], []];
  const about = { entry: titleOf(entry), dtype, index };
  const { tolerance } = entry.dtypes[dtype]!;
  const parts: Part[] = ['value', ...(c.grad ? ['grad' as const] : []), ...(c.grad2 ? ['grad2' as const] : [])];
  const fail = (from: number, wrong: string, absent = false) => {
    for (const part of parts.slice(from)) known.push({ ...about, part, wrong, absent });
  };
  let at = 0;
  try {
    const { result, leaves } = callCase(golden, entry, c);
    const ys = flatResults(await result); // item() and tolist() are asynchronous
    if (c.random) {
      const kinds = ys.map((y) => `${(y as tx.Tensor).dtype}[${(y as tx.Tensor).shape}]`).join();
      const wanted = c.random.map(([d, shape]) => `${d}[${shape}]`).join();
      if (kinds !== wanted) fail(0, `${kinds} instead of ${wanted}`);
      else
        jobs.push({
          outcome: { ...about, part: 'value' },
          reads: ys.map((tensor) => ({
            tensor: tx.ne(tensor as tx.Tensor, tensor as tx.Tensor).logicalAnd(tx.tensor(false)),
            expected: null,
            rtol: 0,
            atol: 0,
            noise: 0,
            what: 'a random result',
          })),
        });
      return { jobs, known };
    }
    const reads = plan(golden, ys, c.out!, tolerance, entry.upToSign);
    if (typeof reads === 'string') {
      fail(0, reads);
      return { jobs, known };
    }
    jobs.push({ outcome: { ...about, part: 'value' }, reads });
    at = 1;
    if (!c.grad) return { jobs, known };
    const floats = ys.map((y, i) => (y instanceof tx.Tensor && entry.upToSign?.includes(i) ? y.abs() : y));
    const wanted = floats.map((y, i) => [y, i] as const).filter(([y]) => y instanceof tx.Tensor && y.requiresGrad) as [
      tx.Tensor,
      number,
    ][];
    const grads = !wanted.length
      ? leaves.map(() => null)
      : tx.grad(
          wanted.map(([y]) => y),
          leaves,
          { gradOutputs: wanted.map(([y, i]) => seedLike(y, i)), createGraph: Boolean(c.grad2), allowUnused: true },
        );
    const first = planGradients(golden, grads, leaves, c.grad, tolerance);
    if (typeof first === 'string') fail(1, first);
    else jobs.push({ outcome: { ...about, part: 'grad' }, reads: first });
    at = 2;
    if (!c.grad2 || typeof first === 'string') return { jobs, known };
    const further = grads.map((g, i) => [g, i] as const).filter(([g]) => g?.requiresGrad) as [tx.Tensor, number][];
    const again = further.length
      ? tx.grad(
          further.map(([g]) => g),
          leaves,
          { gradOutputs: further.map(([g, i]) => seedLike(g, i + 5)), allowUnused: true },
        )
      : leaves.map(() => null);
    const second = planGradients(golden, again, leaves, c.grad2, tolerance);
    if (typeof second === 'string') fail(2, second);
    else jobs.push({ outcome: { ...about, part: 'grad2' }, reads: second });
  } catch (e) {
    if (e instanceof Absent) fail(at, e.message, true);
    else fail(at, sentence(e));
  }
  return { jobs, known };
}

/** Reads the results of jobs in one program; if that fails, of each half, so that one bad job spoils no other. */
async function settle(golden: Golden, jobs: readonly Job[]): Promise<Outcome[]> {
  if (!jobs.length) return [];
  try {
    const arrays = (await tx.read(jobs.map((job) => job.reads.map((r) => r.tensor)))) as unknown as [
      ArrayLike<number>[][],
    ];
    return jobs.map((job, j) => {
      const wrong = job.reads.map((r, i) => difference(golden, r, arrays[0][j]![i]!)).find(Boolean);
      return { ...job.outcome, ...(wrong !== undefined && { wrong }) };
    });
  } catch (e) {
    if (jobs.length === 1) return [{ ...jobs[0]!.outcome, wrong: sentence(e) }];
    const half = jobs.length >> 1;
    return [...(await settle(golden, jobs.slice(0, half))), ...(await settle(golden, jobs.slice(half)))];
  }
}

/** An input that torch refuses: it must be refused here, by a sentence. */
async function refuses(golden: Golden, entry: Entry, index: number): Promise<Outcome> {
  const about = { entry: titleOf(entry), dtype: 'error', index, part: 'error' } as const;
  const { message } = entry.errors[index]!;
  try {
    await callCase(golden, entry, entry.errors[index]!).result; // what is only found when it is computed is no sentence
  } catch (e) {
    if (e instanceof Absent) return { ...about, wrong: e.message, absent: true };
    if (e instanceof tx.TsxlaError && !(e instanceof tx.PjrtError)) return about;
    return { ...about, wrong: `${sentence(e)}; torch: ${message}` };
  }
  return { ...about, wrong: `accepted; torch: ${message}` };
}

export interface ReplayOptions {
  /** Entries whose name or title is among these only. */
  readonly only?: readonly string[];
  /** Results in one program, about. */
  readonly together?: number;
  readonly each?: (outcomes: readonly Outcome[]) => void;
}
/** Replays a file; gives the outcome of each part of each case. */
export async function replay(golden: Golden, { only, together = 60, each }: ReplayOptions = {}): Promise<Outcome[]> {
  const all: Outcome[] = [];
  let pending: Job[] = [];
  const add = (outcomes: readonly Outcome[]) => {
    all.push(...outcomes);
    each?.(outcomes);
  };
  const flush = async () => {
    const jobs = pending;
    pending = [];
    add(await settle(golden, jobs));
  };
  for (const entry of golden.entries) {
    if (only && !only.includes(entry.name) && !only.includes(titleOf(entry))) continue;
    for (const [dtype, samples] of Object.entries(entry.dtypes) as [Sampled, Entry['dtypes'][Sampled] & object][]) {
      for (const [index, c] of samples.cases.entries()) {
        const { jobs, known } = await prepare(golden, entry, dtype, index, c);
        add(known);
        pending.push(...jobs);
        if (pending.length >= together) await flush();
      }
    }
    for (const index of entry.errors.keys()) add([await refuses(golden, entry, index)]);
  }
  await flush();
  return all;
}
