// Rules that a program shows before it is compiled: shapes and numbers that keep changing, and what its products cost on the
// device it is for.
import { BoundedMap } from '../base/bounded.js';
import { sizeOf } from '../base/dtype.js';
import { plural, seconds } from '../base/format.js';
import type { Aval } from '../ir/aval.js';
import { nodesOf } from '../ir/graph.js';
import { placeOf } from '../ir/source.js';
import type { Computation, ProgramKey, Request } from '../runtime/program.js';
import {
  differenceOf,
  factsOf,
  isWarm,
  type Known,
  MOST_LOGGED,
  markLogged,
  nearestOf,
  programsOf,
  who,
} from './explain.js';
import { broken, type Finding, isChecked } from './rules.js';
import { checkProducts, productsOf, totalFlops } from './rules-products.js';

/** As many kinds of one thing are a habit: one more than a last short batch makes. */
const HABIT = 3;
/** Smaller programs do not matter for what their products cost. */
const LEAST_FLOPS = 1e9;

/** What a client says of its devices. */
interface Platform {
  readonly platform: string;
  readonly devices: readonly { readonly kind: string }[];
}

/** Looks at a program that is about to be compiled. Throws a RuleError if that is the mode. */
export function checkProgram(key: ProgramKey, computation: Computation, device: Platform, request: Request): void {
  if (!isChecked()) return;
  const place = placeOf(request.source);
  const name = who(request, place);
  const known = programsOf(request);
  const isMeant = request.name === undefined && known.length >= MOST_LOGGED; // a line that reads whatever comes
  const numbers = known.length && !isMeant ? checkConstants(key, known, name, place) : [];
  if (request.name !== undefined || isWarm(known, request)) {
    for (const finding of numbers) if (broken(finding, finding.place)) markLogged(key);
    const shapes = known.length >= HABIT - 1 && request.cause !== 'pending'; // what is pending has the shapes of the step
    if (shapes) for (const finding of checkShapes(key, known, name, place)) if (broken(finding, name)) markLogged(key);
  }
  if (device.platform === 'cpu') return;
  const products = productsOf(computation.graph, computation.isGiven);
  if (totalFlops(products) < LEAST_FLOPS) return;
  const chip = device.platform === 'tpu' ? device.devices[0]!.kind : undefined;
  for (const finding of checkProducts(products, name, chip)) broken(finding, name);
}

const costOf = (known: readonly Known[]): string =>
  `${plural(known.length, 'compile')} took ${seconds(known.reduce((sum, p) => sum + p.seconds, 0))}, and here is one more`;

// ---- shapes

/** The calls that came with each type of one input. */
type Seen = Map<Aval, number>;

/** The inputs of a program by what they are to the user; of several with one name, each has its number. */
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

function checkShapes(key: ProgramKey, known: readonly Known[], name: string, place: string): Finding[] {
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
    return [{ rule: 'shapes', place, what, cost: costOf(known), fix }]; // the other inputs change with it
  }
  return [];
}

const percent = (share: number): string => `${Math.round(share * 100)}%`;
const some = (sizes: readonly number[]): string =>
  sizes.length > 8 ? `${sizes.slice(0, 7).join(', ')} ... ${sizes.at(-1)}` : sizes.join(', ');

/** The sizes to pad to: powers of two, from 128 on multiples of it. */
const rounded = (n: number): number => (n > 128 ? Math.ceil(n / 128) * 128 : 2 ** Math.ceil(Math.log2(Math.max(1, n))));
const FEW = 4;
/** So many sizes are still few if they are round: somebody has chosen them. */
const CHOSEN = 8;

export interface Advice {
  readonly dims: readonly {
    readonly dim: number;
    readonly sizes: readonly number[];
    readonly buckets: readonly number[];
  }[];
  /** How many more elements there are for it, over all calls. */
  readonly padding: number;
}

/** What to pad an input to that came in these shapes; undefined if they are buckets already. */
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

/** The few of the round sizes that pad least: for each, the best way to have it as the largest, with one more at a time. */
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
  index: 'an index that changes is a tensor: x.indexSelect(0, i), with i an argument or a tensor',
} as const;

const MOST_SEEN = 1000;
/** The values that were seen at one place of one function. */
const values = new BoundedMap<string, BoundedMap<string, true>>(MOST_SEEN);

function checkConstants(program: ProgramKey, known: readonly Known[], name: string, place: string): Finding[] {
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
