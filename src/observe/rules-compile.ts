// Rules checked before a program is compiled: shapes and numbers that keep changing, and the cost of its matrix products on the
// device.
import { BoundedMap } from '../base/bounded.js';
import { sizeOf } from '../base/dtype.js';
import { plural, seconds } from '../base/format.js';
import { noticeOnce } from '../base/log.js';
import type { Aval } from '../ir/aval.js';
import { nodesOf } from '../ir/graph.js';
import { placeOf } from '../ir/source.js';
import type { Computation, ProgramKey, Request } from '../runtime/program.js';
import {
  differenceOf,
  factsOf,
  isWarm,
  type KnownProgram,
  MOST_LOGGED,
  markLogged,
  nearestOf,
  programsOf,
  who,
} from './explain.js';
import { broken, type Finding, isChecked } from './rules.js';
import { checkProducts, isRounded, productsOf, totalFlops } from './rules-products.js';

/** This many shapes or values are a pattern: one more than a short last batch causes. */
const HABIT = 3;
/** Programs with fewer FLOPs are not checked for the cost of their products. */
const LEAST_FLOPS = 1e9;

const ROUNDED =
  "products of f32 are computed in bf16 on this TPU, as in PyTorch/XLA: tx.setFloat32MatmulPrecision('highest') keeps all bits";

/** The platform and devices of a client. */
interface Platform {
  readonly platform: string;
  readonly devices: readonly { readonly kind: string }[];
}

/** Checks a program that is about to be compiled. Throws a RuleError in mode 'error'. */
export function checkProgram(key: ProgramKey, computation: Computation, device: Platform, request: Request): void {
  if (!isChecked() || request.internal) return;
  const place = placeOf(request.source);
  const name = who(request, place);
  const known = programsOf(request);
  // A line that reads many different values, or values one by one, for which explain.ts has better advice.
  const isMeant = (request.name === undefined && known.length >= MOST_LOGGED) || factsOf(key).late?.carried === false;
  const numbers = known.length && !isMeant ? checkConstants(key, known, name, place) : [];
  if (request.name !== undefined || (isWarm(known, request) && !isMeant)) {
    for (const finding of numbers) if (broken(finding, finding.place)) markLogged(key);
    const shapes = known.length >= HABIT - 1 && request.cause !== 'pending'; // pending values have the shapes of the step
    if (shapes) for (const finding of checkShapes(key, known, name, place)) if (broken(finding, name)) markLogged(key);
  }
  if (device.platform === 'cpu') return;
  const products = productsOf(computation.graph, computation.isGiven);
  if (device.platform === 'tpu' && products.some(isRounded)) noticeOnce(ROUNDED);
  if (totalFlops(products) < LEAST_FLOPS) return;
  const chip = device.platform === 'tpu' ? device.devices[0]!.kind : undefined;
  for (const finding of checkProducts(products, name, chip)) broken(finding, name);
}

const costOf = (known: readonly KnownProgram[]): string =>
  `${plural(known.length, 'compile')} took ${seconds(known.reduce((sum, p) => sum + p.seconds, 0))}, and this is one more`;

// ---- shapes

/** The number of calls with each type of one input. */
type Seen = Map<Aval, number>;

/** The inputs of a program by name; several with the same name are numbered. */
function inputsOf(key: ProgramKey): Map<string, Aval> {
  const { labels } = factsOf(key);
  const given = nodesOf(key.words, key.nodeCount, key.symbols).flatMap((n) => ('given' in n ? [n.given] : []));
  const inputs = new Map<string, Aval>();
  given.forEach((aval, i) => {
    let label = labels[i] ?? `input ${i}`;
    for (let n = 2; inputs.has(label); n++) label = `${labels[i]} (${n})`;
    inputs.set(label, aval);
  });
  return inputs;
}

function checkShapes(key: ProgramKey, known: readonly KnownProgram[], name: string, place: string): Finding[] {
  const others = known.map((p) => ({ inputs: inputsOf(p.key), calls: Math.max(1, p.executions) }));
  for (const [label, aval] of inputsOf(key)) {
    const seen: Seen = new Map([[aval, 1]]);
    for (const { inputs, calls } of others) {
      const other = inputs.get(label);
      if (other?.dtype === aval.dtype && other.rank === aval.rank) seen.set(other, (seen.get(other) ?? 0) + calls);
    }
    const advice = seen.size >= HABIT && adviceFor(seen);
    if (!advice) continue;
    const pads = advice.dims.map(({ dim, buckets }) => `dim ${dim} to ${buckets.join(' or ')}`).join(', ');
    const sizes = advice.dims.map(({ dim, sizes }) => `dim ${dim} was ${some(sizes)}`).join(', ');
    const what = `${name} is compiled for ${seen.size} shapes of ${label}: ${sizes}`;
    const fix = `pad ${pads} and mask the padding (${percent(advice.padding)} more elements in the calls so far); leave a last short batch out`;
    return [{ rule: 'shapes', place, what, cost: costOf(known), fix }]; // other inputs usually change with it
  }
  return [];
}

const percent = (share: number): string => `${Math.round(share * 100)}%`;
const some = (sizes: readonly number[]): string =>
  sizes.length > 8 ? `${sizes.slice(0, 7).join(', ')} ... ${sizes.at(-1)}` : sizes.join(', ');

/** The sizes to pad to: powers of two up to 128, then multiples of 128. */
const rounded = (n: number): number => (n > 128 ? Math.ceil(n / 128) * 128 : 2 ** Math.ceil(Math.log2(Math.max(1, n))));
const FEW = 4;
/** Up to this many sizes are accepted if they are round, since the user has chosen them. */
const CHOSEN = 8;

export interface Advice {
  readonly dims: readonly {
    readonly dim: number;
    readonly sizes: readonly number[];
    readonly buckets: readonly number[];
  }[];
  /** The fraction of additional elements that it causes, over all calls. */
  readonly padding: number;
}

/** The sizes to pad an input of these shapes to; undefined if they are buckets already. */
export function adviceFor(seen: ReadonlyMap<Aval, number>): Advice | undefined {
  const all = [...seen];
  const [[{ shape }]] = all as [[Aval, number]];
  const dims = shape.flatMap((_, dim) => {
    const calls = new Map<number, number>();
    for (const [aval, n] of all) calls.set(aval.shape[dim]!, (calls.get(aval.shape[dim]!) ?? 0) + n);
    const sizes = [...calls.keys()].sort((a, b) => a - b);
    return sizes.length > 1 ? [{ dim, sizes, buckets: bucketsFor(calls) }] : [];
  });
  if (dims.every(({ sizes }) => sizes.length <= CHOSEN && sizes.every((n) => n === rounded(n)))) return undefined;
  const padded = ({ shape }: Aval) =>
    sizeOf(shape.map((n, d) => dims.find(({ dim }) => dim === d)?.buckets.find((b) => b >= n) ?? n));
  const sum = (of: (aval: Aval) => number) => all.reduce((total, [aval, n]) => total + n * of(aval), 0);
  return { dims, padding: sum(padded) / sum(({ size }) => size) - 1 };
}

/** The few round sizes that pad least, by dynamic programming: for each size, the best buckets with it as the largest. */
function bucketsFor(calls: ReadonlyMap<number, number>): readonly number[] {
  const uses = new Map<number, number>();
  for (const [size, n] of calls) uses.set(rounded(size), (uses.get(rounded(size)) ?? 0) + n);
  const sizes = [...uses.keys()].sort((a, b) => a - b);
  const costOf = (from: number, to: number) =>
    sizes.slice(from, to + 1).reduce((sum, size) => sum + uses.get(size)! * sizes[to]!, 0);
  let ways: { readonly buckets: readonly number[]; readonly cost: number }[];
  ways = sizes.map((size, i) => ({ buckets: [size], cost: costOf(0, i) }));
  for (let count = 1; count < FEW; count++) {
    ways = ways.map((own, i) =>
      ways.slice(0, i).reduce((best, way, j) => {
        const cost = way.cost + costOf(j + 1, i);
        return cost < best.cost ? { buckets: [...way.buckets, sizes[i]!], cost } : best;
      }, own),
    );
  }
  return ways.at(-1)!.buckets;
}

// ---- numbers

const FIXES = {
  constant: 'pass the number as an argument of the compiled function, or keep it in a tensor: lr.copy_(tx.tensor(0.1))',
  index: 'make an index that changes a tensor: x.indexSelect(0, i), with i an argument or a tensor',
} as const;

const MOST_SEEN = 1000;
/** The values seen at one place of one function. */
const values = new BoundedMap<string, BoundedMap<string, true>>(MOST_SEEN);

function checkConstants(program: ProgramKey, known: readonly KnownProgram[], name: string, place: string): Finding[] {
  const nearest = nearestOf(
    program,
    known.map((p) => p.key),
  );
  const difference = differenceOf(nearest!, program);
  const isIndex = difference?.kind === 'option' && difference.what === 'slice';
  if (!difference || (difference.kind !== 'constant' && !isIndex)) return [];
  const { what, was, now, at } = difference;
  const key = `${name} ${what} ${at}`;
  const seen = (values.get(key) ?? new BoundedMap<string, true>(MOST_SEEN)).set(was, true).set(now, true);
  values.set(key, seen);
  if (seen.size < HABIT) return [];
  const latest = [...seen.keys()].slice(-HABIT).join(', ');
  const found = `${name} is compiled for ${seen.size} values of ${what}: ${latest}`;
  return [
    {
      rule: 'constants',
      place: at || place,
      what: found,
      cost: costOf(known),
      fix: isIndex ? FIXES.index : FIXES.constant,
    },
  ];
}
