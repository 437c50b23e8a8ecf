// The check behind tx.debug.nans: a program with a NaN or an infinity in its results is run again in a form that finds the
// operation that produced it. Loaded when the check is turned on.
import type { DType, TypedArray } from '../base/dtype.js';
import { NonfiniteError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { isFloat } from '../base/promote.js';
import { type Shape, showShape, unravel } from '../base/shape.js';
import { messageOf } from '../base/thrown.js';
import type { Expr } from '../ir/expr.js';
import { collect, type Graph } from '../ir/graph.js';
import { CallSource, type Source } from '../ir/source.js';
import { Body } from '../ops/prim/body.js';
import { concat } from '../ops/prim/slice.js';
import { input } from '../ops/prim/variable.js';
import type { Cell } from '../runtime/cell.js';
import type { Compute, Ran } from '../runtime/events.js';
import { type NodeRecord, ownRecord, recordOf } from '../runtime/record.js';
import { isStored } from '../runtime/sharded.js';
import { nodeValue, setValue } from '../runtime/value.js';
import { modules, type NamedTensor } from './module-names.js';
import {
  isRandomWord,
  type Kind,
  type Origin,
  type Point,
  rootsFrom,
  Search,
  type Statistics,
} from './nonfinite-search.js';
import { nonfiniteFlags } from './statistics.js';

/** The error for a program with nonfinite results; undefined if they are finite. `infs`: whether infinities are errors too. */
export async function findNonfinite(ran: Ran, compute: Compute, infs: boolean): Promise<NonfiniteError | undefined> {
  const { computation, outputs } = ran;
  const floats = computation.graph.roots.flatMap(({ aval }, i) => (isFloat(aval.dtype) && aval.size ? [i] : []));
  if (!floats.length) return undefined;
  const values = floats.map((i) => holding(computation.graph.roots[i]!, { value: outputs[i]! }));
  const [flags] = (await compute([concat(values.map(nonfiniteFlags), 0)], 'nan_check')) as [TypedArray];
  const [inf, nan] = [1, 2].map((kind) => floats.filter((_, j) => Number(flags[j]) === kind)) as [number[], number[]];
  const kind: Kind = nan.length ? 'nan' : 'inf';
  const roots = nan.length || !infs ? nan : inf;
  // The result with the fewest operations first: the loss, which gradients and weights depend on. One search is enough, unless
  // its infinities turn out to be intended.
  const size = new Map(roots.map((i) => [i, collect([computation.graph.roots[i]!], computation.isGiven).nodes.length]));
  const bad = roots.toSorted((a, b) => size.get(a)! - size.get(b)!);
  const [first, ...others] = bad;
  if (first === undefined) return undefined;
  const search = async (some: readonly number[]) => (await Finder.of(ran, kind, bad, some, compute)).find(compute);
  return (await search([first])) ?? (others.length ? search(others) : undefined);
}

function holding({ aval }: Expr, { value, sharding }: Partial<NodeRecord>): Expr {
  const node = input(aval);
  if (isStored(value)) setValue(node, value);
  else {
    Object.assign(ownRecord(node), { value, sharding });
  }
  return node;
}

const MOST_WORDS = 2 ** 24;
/**
 * The words of random numbers, computed beforehand. Inside the search program, XLA would compute them again for the statistics
 * of each value that depends on them: with a few hundred numbers, that took minutes to compile.
 */
async function randomWords(graph: Graph, values: ReadonlyMap<Expr, Expr>, compute: Compute): Promise<Map<Expr, Expr>> {
  const words = graph.nodes.filter(isRandomWord);
  const size = words.reduce((sum, { aval }) => sum + aval.size, 0);
  if (!size || size > MOST_WORDS || [...values.values()].some((x) => recordOf(x).sharding)) return new Map();
  const needed = collect(words, (e) => values.has(e));
  const arrays = await compute(rootsFrom(needed, values), 'nan_search_random');
  return new Map(words.map((e, i) => [e, holding(e, { value: arrays[i]! })]));
}

const UNCHANGED = '\n    All tensors are as they were before.';
const WORD = { nan: 'NaN', inf: 'infinite' } as const;

class Finder {
  readonly #ran: Ran;
  readonly #search: Search;
  readonly #names: Map<Expr, Name>;
  readonly #kind: Kind;
  /** The nonfinite results, and those among them that are searched. */
  readonly #bad: readonly number[];
  readonly #roots: readonly Expr[];

  private constructor(ran: Ran, kind: Kind, bad: readonly number[], roots: readonly Expr[], search: Search) {
    this.#ran = ran;
    this.#kind = kind;
    this.#bad = bad;
    this.#roots = roots;
    this.#search = search;
    this.#names = namesOf(ran);
  }
  static async of(ran: Ran, kind: Kind, bad: readonly number[], searched: readonly number[], compute: Compute) {
    const { computation, given } = ran;
    const roots = searched.map((i) => computation.graph.roots[i]!);
    const all = collect(roots, computation.isGiven);
    const values = new Map(
      computation.parameters.flatMap((p, i) =>
        all.index.has(p) ? [[p, holding(p, recordOf(given[i]!))] as const] : [],
      ),
    );
    const words = await randomWords(all, values, compute);
    const graph = words.size ? collect(roots, (e) => computation.isGiven(e) || words.has(e)) : all;
    const search = new Search(graph, new Map([...values, ...words].filter(([e]) => graph.index.has(e))));
    return new Finder(ran, kind, bad, roots, search);
  }

  async find(compute: Compute): Promise<NonfiniteError | undefined> {
    const [search, kind] = [this.#search, this.#kind];
    try {
      await search.run((tables) => compute(tables, 'nan_search'));
    } catch (cause) {
      const why = `The search for the operation failed: ${messageOf(cause)}`; // memory may be short
      return new NonfiniteError(`${this.#head()} ${why}${UNCHANGED}`, { details: this.#details(), cause });
    }
    const points = this.#roots.map((root) => search.point(root));
    // Infinities that are constants in the code, or only passed on, are intended.
    const from = kind === 'nan' ? points : points.filter((p) => !search.has(p, 'inf') || !search.isCopy(p));
    const isMeant = ({ point }: Origin) => kind === 'inf' && isConstant(point);
    const all = search.origins(from, kind);
    const origins = all.filter((o) => !isMeant(o));
    const first = origins.find((o) => search.isGiven(o.point)) ?? origins[0];
    if (!first) {
      const isLost = !from.some((p) => search.has(p, kind));
      return kind === 'inf' && (!from.length || !isLost) ? undefined : this.#unexplained();
    }
    // If a NaN comes from infinities, their origin is the cause.
    const isMade = kind === 'nan' && !search.isGiven(first.point);
    const causes = isMade ? search.origins(search.sources(first.point), 'inf').filter((o) => !isConstant(o.point)) : [];
    const cause = causes.find((o) => search.isGiven(o.point)) ?? causes[0];
    return this.#error(cause ?? first, cause && first.point);
  }

  async #error(origin: Origin, became: Point | undefined): Promise<NonfiniteError> {
    const search = this.#search;
    const { point, user } = origin;
    const made: Kind = became ? 'inf' : this.#kind;
    const head = this.#head();
    const details = this.#details();
    const thenNaN = became ? `\n    It became NaN in ${this.#describe(became)}.` : '';
    if (search.isGiven(point)) {
      const held = await this.#input(point.node, made);
      const used = user ? `\n    It is used by ${this.#describe(user)}.` : '';
      return new NonfiniteError(
        `${head} It comes from ${held.name}, ${point.node.aval}, which holds ${held.value} at ${showShape(held.index)}: ` +
          `${held.count} of ${point.node.aval.size} elements are ${WORD[made]}.${used}${thenNaN}${UNCHANGED}`,
        { details: { ...details, input: held, ...(user && { usedBy: this.#facts(user) }) } },
      );
    }
    const facts = this.#facts(point);
    const lines = facts.operands.map((x, i) => `\n    operand ${i}: ${showValue(x)}`).join('');
    const what = isConstant(point) ? 'a' : 'made by';
    return new NonfiniteError(
      `${head} It was first ${became ? 'an infinity, ' : ''}${what} ${this.#describe(point)}.${lines}\n    result: ${showValue(facts.result)}${overflow(made, facts)}${thenNaN}${UNCHANGED}`,
      { details: { ...details, ...facts, ...(became && { became: this.#facts(became) }) } },
    );
  }

  /** The error if the operations, run one by one, give finite values. */
  #unexplained(): NonfiniteError {
    return new NonfiniteError(
      `${this.#head()} Run again operation by operation, all values are finite: the compiled program rounds differently. Compute in a wider dtype.${UNCHANGED}`,
      { details: this.#details() },
    );
  }

  #details() {
    const kind = this.#kind === 'nan' ? 'NaN' : 'inf';
    return { step: this.#ran.request.name, kind, results: this.#results() };
  }
  #results(): string[] {
    const labels = this.#ran.computation.labels();
    const nameOf = (i: number) => this.#names.get(this.#ran.computation.parameters[i]!)?.text ?? labels[i]!;
    return this.#bad.map((i) => this.#ran.resultName(i, nameOf));
  }
  #head(): string {
    const names = this.#results();
    const shown = names.slice(0, 3).join(', ') + (names.length > 3 ? ` and ${names.length - 3} more` : '');
    const { name, cause } = this.#ran.request;
    const who = name ?? (cause === 'read' ? 'reading a tensor' : 'sync');
    return `${who}: ${shown} ${names.length > 1 ? 'are' : 'is'} ${WORD[this.#kind]}.`;
  }

  // ---- describing a point

  #describe(point: Point): string {
    const { op, call, gradientOf, file, line, module, iterations } = this.#facts(point);
    const name = (x: string) => (call && call !== x ? `${x} in ${call}` : x);
    const what = gradientOf.length
      ? `${op}, in ${gradientOf.map((_, i) => `the gradient of ${i === gradientOf.length - 1 ? name(gradientOf[i]!) : ''}`).join('')}`
      : name(op);
    const places = [...(file ? [`${file}:${line}`] : []), ...(module ? [module] : [])].join(', ');
    const loops = iterations
      .map(({ iteration, length }) => `, iteration ${iteration}${length === undefined ? '' : ` of ${length}`} (from 0)`)
      .join('');
    return `${what}${places && ` (${places})`}${loops}`;
  }

  #facts(point: Point): Facts {
    const { node } = point;
    const { source } = node;
    const frame = source?.frames[0];
    const loops = this.#search.loops(point);
    const value = (p: Point): Value => {
      const { dtype, shape } = p.node.avals?.[p.index] ?? p.node.aval;
      return { dtype, shape, ...this.#search.statistics(p) };
    };
    return {
      op: node.op.name,
      call: source instanceof CallSource ? source.call : undefined,
      gradientOf: source instanceof CallSource ? source.gradientOf : [],
      file: frame?.file,
      line: frame?.line,
      module: pathOf(source, loops),
      iterations: loops.map(({ node: loop, pass, length }) => ({
        iteration: pass,
        length,
        file: loop.source?.frames[0]?.file,
        line: loop.source?.frames[0]?.line,
      })),
      operands: this.#search.operands(point).map(value),
      result: value(point),
    };
  }

  /** A given value, and the position of its first nonfinite element. */
  async #input(node: Expr, kind: Kind) {
    const { computation, given } = this.#ran;
    const i = computation.parameters.indexOf(node);
    const value = nodeValue(given[i]!);
    const raw = isStored(value) ? await value.toHost() : (value as TypedArray);
    const data = decodeFloats(node.dtype, raw) as ArrayLike<number>;
    const isBad = (x: number) => (kind === 'nan' ? Number.isNaN(x) : !Number.isFinite(x) && !Number.isNaN(x));
    let [at, count] = [-1, 0];
    for (let k = 0; k < data.length; k++)
      if (isBad(data[k]!)) {
        if (at < 0) at = k;
        count++;
      }
    const index = unravel(at, node.shape);
    const { path, text } = this.#names.get(node) ?? { path: undefined, text: computation.labels()[i]! };
    const isStacked = path?.includes('*') && index.length > 0;
    const named = (x: string) => (isStacked ? x.replace('*', String(index[0])) : x);
    return {
      name: named(text),
      ...(path !== undefined && { path: named(path) }),
      dtype: node.dtype,
      shape: node.shape,
      index: isStacked ? index.slice(1) : index,
      value: data[at]!,
      count,
    };
  }
}

/** A value in a message and in `details`: its type, and statistics for floats. */
interface Value extends Partial<Statistics> {
  readonly dtype: DType;
  readonly shape: Shape;
}
interface Facts {
  readonly op: string;
  /** The API function it is part of. */
  readonly call: string | undefined;
  readonly gradientOf: readonly string[];
  readonly file: string | undefined;
  readonly line: number | undefined;
  readonly module: string | undefined;
  readonly iterations: readonly {
    readonly iteration: number;
    readonly length: number | undefined;
    readonly file: string | undefined;
    readonly line: number | undefined;
  }[];
  readonly operands: readonly Value[];
  readonly result: Value;
}

const isConstant = ({ node }: Point): boolean => node.op.name === 'constant';

function pathOf(source: Source | undefined, loops: ReturnType<Search['loops']>): string | undefined {
  if (!(source instanceof CallSource) || !source.scope.length || !modules()) return undefined;
  const passOf = (loop: object) =>
    loops.findLast(({ node }) => node.source instanceof CallSource && node.source.scope.at(-1) === loop)?.pass;
  return modules()!.pathOf(source.scope, passOf) || undefined;
}

interface Name {
  /** model.layers.0.weight */
  readonly path: string;
  /** The same for use in a sentence. */
  readonly text: string;
}
/** The names of inputs that are tensors of modules whose code made a part of the graph, or optimizer state of such tensors. */
function namesOf({ computation, given, cells = [] }: Ran): Map<Expr, Name> {
  const names = new Map<Expr, Name>();
  const tensorsOf = modules()?.tensorsOf;
  if (!tensorsOf) return names;
  const known = new Map<Cell | Expr, NamedTensor>();
  for (const root of rootsOf(computation.graph.nodes))
    for (const tensor of tensorsOf(root))
      for (const key of [tensor.cell, tensor.expr]) if (!known.has(key)) known.set(key, tensor);
  computation.parameters.forEach((p, i) => {
    const cell = cells[i];
    const own = (cell && known.get(cell)) ?? known.get(given[i]!);
    const of = cell?.follows && known.get(cell.follows);
    if (own) names.set(p, { path: own.path, text: `the ${own.kind} ${own.path}` });
    else if (of) names.set(p, { path: of.path, text: `the optimizer's state of ${of.path}` });
  });
  return names;
}
/** The outermost modules. */
function rootsOf(nodes: readonly Expr[], found = new Set<object>()): Set<object> {
  for (const { source, attrs } of nodes) {
    if (source instanceof CallSource && source.scope.length) found.add(source.scope[0]!);
    for (const body of attrs ? Object.values(attrs).flat() : [])
      if (body instanceof Body) rootsOf(body.graph.nodes, found);
  }
  return found;
}

const number = (x: number): string => String(Number(x.toPrecision(6)));
function showValue({ dtype, shape, nan, inf, min, max }: Value): string {
  const type = `${dtype}${showShape(shape)}`;
  if (nan === undefined) return type;
  const bad = [...(nan ? [`${nan} NaN`] : []), ...(inf ? [`${inf} infinite`] : [])].join(', ');
  const finite = min! <= max! ? `from ${number(min!)} to ${number(max!)}` : '';
  return [type, finite, bad].filter(Boolean).join(', ');
}

/** Operations without poles, which overflow only for large operands. */
const GROWING = new Set(['mul', 'add', 'sub', 'dot', 'exp', 'convert', 'reduceSum', 'cumsum', 'convolution']);
const LARGEST: Partial<Record<DType, string>> = { f16: '65504', bf16: '3.39e38', f32: '3.40e38' };
/** Advice for an infinity from finite operands. */
function overflow(kind: Kind, { op, result }: Facts): string {
  const limit = LARGEST[result.dtype];
  if (kind !== 'inf' || !limit || !GROWING.has(op)) return '';
  return `\n    The largest ${result.dtype} is ${limit}: scale the operands down, or compute in ${result.dtype === 'f16' ? 'f32' : 'f64'}.`;
}
