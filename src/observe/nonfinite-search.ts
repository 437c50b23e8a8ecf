// Finds the origin of a NaN or an infinity: runs a graph once more with statistics of every value, including those inside loops,
// branches and checkpoints, and follows them back from the results.
import type { TypedArray } from '../base/dtype.js';
import { literal } from '../base/literal.js';
import { isFloat } from '../base/promote.js';
import { range } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import type { Graph } from '../ir/graph.js';
import { withSource } from '../ir/source.js';
import { Body, parameter } from '../ops/prim/body.js';
import { broadcastTo } from '../ops/prim/broadcast.js';
import { constants, full, zerosLike } from '../ops/prim/constant.js';
import { PICK, results } from '../ops/prim/define.js';
import { reshape } from '../ops/prim/move.js';
import { add, gt, where } from '../ops/prim/pointwise.js';
import { reduceMax } from '../ops/prim/reduce.js';
import { concat, sliceDim } from '../ops/prim/slice.js';
import { widest } from '../stablehlo/emitter.js';
import { measured } from './statistics.js';

/** Statistics of a value: the numbers of NaN and infinite elements, and the range of the others. */
export interface Statistics {
  readonly nan: number;
  readonly inf: number;
  readonly min: number;
  readonly max: number;
}
export type Kind = 'nan' | 'inf';

/** Operations whose results have the elements of the operand at the same position, in any shape. */
const SAME = new Set([
  'reshape',
  'transpose',
  'broadcastInDim',
  'reverse',
  'alias',
  'detach',
  'variable',
  'optimizationBarrier',
  'shardingConstraint',
  'customVjp',
]);
/** Operations that only select, convert or join elements of their operands. */
const MOVES = new Set([
  ...SAME,
  ...[
    'convert',
    'slice',
    'pad',
    'concat',
    'pieces',
    'select',
    'gather',
    'scatter',
    'dynamicSlice',
    'dynamicUpdateSlice',
  ],
]);

// ---- a graph with its statistics

/** An operation with bodies: each runs once for each pass, with separate rows of statistics. */
interface Inner {
  readonly levels: readonly Level[];
  readonly bodies: readonly Body[];
  readonly passes: number;
  /** Its first row, the rows per pass, and the meaning of the first of those: the body that ran, or the pass that was kept. */
  start: number;
  readonly width: number;
  readonly head?: 'body' | 'pass';
}

/** The nodes of a graph or body, and the row with the statistics of each of their results. */
class Level {
  readonly rows = new Map<Expr, readonly number[]>();
  readonly inner = new Map<Expr, Inner>();
  /** Loops that are computed by another loop with more results. */
  readonly cover = new Map<Expr, Expr>();
  /** The given nodes: the graph's inputs, or a body's parameters. */
  readonly given: ReadonlySet<Expr>;
  readonly #counts: Expr[] = [];
  readonly #ranges: Expr[] = [];
  readonly #blockCounts: Expr[] = [];
  readonly #blockRanges: Expr[] = [];
  #blocks = 0;
  width = 0;

  constructor(
    readonly graph: Graph,
    /** The replacement results of each node; those of given nodes exist from the start. */
    readonly values: Map<Expr, readonly Expr[]>,
    isMeasured: (given: Expr) => boolean,
  ) {
    this.given = new Set(values.keys());
    for (const e of this.given) if (isMeasured(e)) this.#measure(e, values.get(e)!);
    const wide = graph.nodes.filter((e) => e.op.covers);
    for (const e of graph.nodes) {
      if (values.has(e)) continue;
      const cover = e.op.covers && widest(e, wide);
      if (cover && cover !== e) {
        this.cover.set(e, cover);
        if (!values.has(cover)) this.#add(cover);
        values.set(e, values.get(cover)!);
      } else this.#add(e);
    }
    for (const inner of this.inner.values()) inner.start += this.width; // rows of bodies follow its own
    this.width += this.#blocks;
    this.#counts.push(...this.#blockCounts);
    this.#ranges.push(...this.#blockRanges);
  }

  #add(e: Expr): void {
    if (e.op === PICK) {
      this.values.set(e, [this.values.get(e.inputs[0]!)![indexOf(e)]!]);
      return;
    }
    const inputs = e.inputs.map((x) => this.values.get(x)![0]!);
    const made = this.#withBodies(e, inputs);
    const outs = made ?? this.#whileLoop(e, inputs) ?? remade(e, inputs, e.attrs, e.avals);
    if (made || SAME.has(e.op.name) || isSplat(e) || e.op.name === 'iota') this.values.set(e, outs);
    else this.#measure(e, outs);
  }

  #measure(e: Expr, outs: readonly Expr[]): void {
    const rows: number[] = [];
    const values = outs.map((x) => {
      rows.push(isFloat(x.dtype) ? this.width++ : -1);
      if (!isFloat(x.dtype)) return x;
      const { value, counts, range: ends } = measured(x);
      this.#counts.push(counts);
      this.#ranges.push(ends);
      return value;
    });
    this.values.set(e, values);
    this.rows.set(e, rows);
  }

  /** Rebuilds an operation with bodies, with their statistics as additional results. */
  #withBodies(e: Expr, inputs: readonly Expr[]): readonly Expr[] | undefined {
    const region = REGIONS[e.op.name]?.(e);
    if (!region) return undefined;
    const { bodies, passes, isMeasured, attrsWith } = region;
    const parts = bodies.map((body) => levelOf(body, isMeasured));
    const most = Math.max(...parts.map((p) => p.level.width));
    if (!most) return undefined;
    const head = bodies.length > 1; // a row for the body that ran
    const width = most + (head ? 1 : 0);
    const wide = parts.map(({ level, params, outs }, i) => {
      const { counts, ranges } = level.tables;
      const empty = (dtype: 'i32' | 'f32') => (most > level.width ? [full([most - level.width, 2], 0, dtype)] : []);
      const first = head ? [reshape(constants([i, 0], 'i32'), [1, 2])] : [];
      return new Body(params, [
        ...outs,
        concat([...first, ...counts, ...empty('i32')], 0),
        concat([...(head ? [full([1, 2], 0, 'f32')] : []), ...ranges, ...empty('f32')], 0),
      ]);
    });
    const avals = e.avals!;
    const [c, r] = wide[0]!.results
      .slice(-2)
      .map((x) => (passes.loop ? x.aval.withShape([passes.count, width, 2]) : x.aval));
    const all = remade(e, inputs, attrsWith(wide), [...avals, c!, r!]);
    const inner = { levels: parts.map((p) => p.level), bodies, passes: passes.count, width };
    this.#block(e, { ...inner, ...(head && { head: 'body' }) }, all.at(-2)!, all.at(-1)!);
    return all.slice(0, -2);
  }
  #block(e: Expr, inner: Omit<Inner, 'start'>, counts: Expr, ranges: Expr): void {
    const count = inner.passes * inner.width;
    this.inner.set(e, { ...inner, start: this.#blocks });
    this.#blocks += count;
    this.#blockCounts.push(reshape(counts, [count, 2]));
    this.#blockRanges.push(reshape(ranges, [count, 2]));
  }

  /** Rebuilds a loop of unknown length. It keeps the statistics of one pass: the first with a NaN, else with an infinity. */
  #whileLoop(e: Expr, inputs: readonly Expr[]): readonly Expr[] | undefined {
    if (e.op.name !== 'while') return undefined;
    const { fixed, condition, body } = e.attrs as { fixed: number; condition: Body; body: Body };
    const { level, params, outs } = levelOf(body, (i) => i >= fixed);
    const rows = level.width;
    if (!rows) return undefined;
    const [counts, ranges] = [concat(level.tables.counts, 0), concat(level.tables.ranges, 0)];
    const start = [full([], 0, 'i32'), full([1, 2], 0, 'i32'), zerosLike(counts), zerosLike(ranges)];
    const [pass, head, ...kept] = start.map((x) => parameter(x.aval)) as [Expr, Expr, Expr, Expr];
    const kinds = where(gt(counts, 0), broadcastTo(constants([2, 1], 'i32'), [rows, 2]), 0);
    const now = concat([reshape(pass, [1, 1]), reshape(reduceMax(kinds), [1, 1])], 1); // [[pass, kind]]
    const isWorse = gt(sliceDim(now, 1, 1, 2), sliceDim(head, 1, 1, 2)); // [1, 1]
    const next = [now, counts, ranges].map((x, i) => where(isWorse, x, [head, ...kept][i]!));
    const wide = new Body([...params, pass, head, ...kept], [...outs, add(pass, 1), ...next]);
    const again = condition.params.map((p) => parameter(p.aval));
    const goes = new Body([...again, ...start.map((x) => parameter(x.aval))], condition.apply(again));
    const attrs = { fixed, condition: goes, body: wide };
    const all = remade(e, [...inputs, ...start], attrs, [...e.avals!, ...start.map((x) => x.aval)]);
    const [first, c, r] = all.slice(-3) as [Expr, Expr, Expr];
    const inner = { levels: [level], bodies: [body], passes: 1, width: rows + 1, head: 'pass' as const };
    this.#block(e, inner, concat([first, c], 0), concat([full([1, 2], 0, 'f32'), r], 0));
    return all.slice(0, -4);
  }

  /** All rows. */
  get tables(): { counts: readonly Expr[]; ranges: readonly Expr[] } {
    return { counts: this.#counts, ranges: this.#ranges };
  }
}

/** A body with its statistics. `isMeasured`: whether a parameter needs its own, as it differs from the operand. */
function levelOf(body: Body, isMeasured: (param: number) => boolean) {
  const params = body.params.map((p) => parameter(p.aval));
  const level = new Level(
    body.graph,
    new Map(body.params.map((p, i) => [p, [params[i]!]])),
    (p) => isFloat(p.dtype) && isMeasured(body.params.indexOf(p)),
  );
  return { level, params, outs: body.results.map((r) => level.values.get(r)![0]!) };
}

/** The roots of a graph, computed from replacements of the given nodes. */
export function rootsFrom(graph: Graph, values: ReadonlyMap<Expr, Expr>): Expr[] {
  const level = new Level(graph, new Map([...values].map(([e, x]) => [e, [x]])), () => false);
  return graph.roots.map((root) => level.values.get(root)![0]!);
}
/** Whether a node is the (integer) words of random numbers. */
export const isRandomWord = (e: Expr): boolean => e.op === PICK && e.inputs[0]!.op.name === 'threefry2x32';

const indexOf = (pick: Expr): number => (pick.attrs as { index: number }).index;
const remade = (e: Expr, inputs: readonly Expr[], attrs: unknown, avals: Expr['avals']): readonly Expr[] =>
  withSource(e.source, () => {
    const node = new Expr(e.op, inputs, attrs, e.aval, avals, false);
    return avals ? results(node) : [node];
  });
/** A constant with one value for all elements, whose statistics the host knows. */
const isSplat = (e: Expr): boolean =>
  e.op.name === 'constant' && !(e.attrs as { value: string }).value.startsWith('[') && isFloat(e.dtype);

interface Scan {
  readonly body: Body;
  readonly length: number;
  readonly fixed: number;
  readonly carried: number;
  readonly reverse: boolean;
}
interface Region {
  readonly bodies: readonly Body[];
  readonly passes: { readonly loop: boolean; readonly count: number };
  readonly isMeasured: (param: number) => boolean;
  readonly attrsWith: (bodies: readonly Body[]) => unknown;
}
const ONCE = { loop: false, count: 1 };
const REGIONS: Readonly<Record<string, (e: Expr) => Region>> = {
  scan: ({ attrs }) => {
    const { body, length, fixed } = attrs as Scan;
    return {
      bodies: [body],
      passes: { loop: true, count: length },
      isMeasured: (i) => i >= fixed,
      attrsWith: ([wide]) => ({ ...(attrs as Scan), body: wide }),
    };
  },
  case: ({ attrs }) => ({
    bodies: (attrs as { branches: readonly Body[] }).branches,
    passes: ONCE,
    isMeasured: () => false,
    attrsWith: (branches) => ({ branches }),
  }),
  checkpoint: ({ attrs }) => ({
    bodies: [(attrs as { body: Body }).body],
    passes: ONCE,
    isMeasured: () => false,
    attrsWith: ([body]) => ({ body }),
  }),
};

// ---- following values back to their origin

/** A graph or a body in one of its passes. */
interface Frame {
  readonly level: Level;
  /** Its first row. */
  readonly base: number;
  readonly parent?: { readonly frame: Frame; readonly node: Expr; readonly body: Body; readonly pass: number };
  readonly inside: Map<string, Frame>;
}
/** One value: a result of a node, in one pass of the loops around it. */
export interface Point {
  readonly frame: Frame;
  readonly node: Expr;
  readonly index: number;
}

export interface Origin {
  readonly point: Point;
  /** The operation that uses it, on the path to a result. */
  readonly user: Point | undefined;
}

export class Search {
  readonly #level: Level;
  readonly #top: Frame;
  #counts: TypedArray = new Int32Array();
  #ranges: TypedArray = new Float32Array();

  /** `values`: replacements of the given nodes. */
  constructor(
    readonly graph: Graph,
    values: ReadonlyMap<Expr, Expr>,
  ) {
    this.#level = new Level(graph, new Map([...values].map(([e, x]) => [e, [x]])), (e) => isFloat(e.dtype));
    this.#top = { level: this.#level, base: 0, inside: new Map() };
  }

  /** Computes the statistics. */
  async run(compute: (roots: readonly Expr[]) => Promise<readonly TypedArray[]>): Promise<void> {
    const { counts, ranges } = this.#level.tables;
    if (!counts.length) return;
    [this.#counts, this.#ranges] = (await compute([concat(counts, 0), concat(ranges, 0)])) as [TypedArray, TypedArray];
  }

  point(node: Expr, frame = this.#top): Point {
    const pick = node.op === PICK;
    const [own, index] = pick ? [node.inputs[0]!, indexOf(node)] : [node, 0];
    return { frame, node: frame.level.cover.get(own) ?? own, index };
  }

  /** The points that this one is computed from. */
  sources({ frame, node, index }: Point): Point[] {
    const { parent, level } = frame;
    const inner = level.inner.get(node);
    if (inner) return this.#results(frame, node, inner, index);
    const param = parent?.body.params.indexOf(node) ?? -1;
    if (param >= 0) return [this.#argument(frame, param)];
    if (level.given.has(node)) return [];
    if (SAME.has(node.op.name) && node.avals) return [this.point(node.inputs[index]!, frame)];
    return node.inputs.map((x) => this.point(x, frame));
  }

  /** The points inside its bodies for a result of an operation: in the last pass, or in every pass. */
  #results(frame: Frame, node: Expr, inner: Inner, index: number): Point[] {
    const { length, carried, reverse } = node.attrs as Scan;
    if (inner.head === 'pass') {
      const kept = this.#enter(frame, node, inner, 0);
      const results = kept.parent!.body.results.map((r) => this.point(r, kept));
      return [...results, ...node.inputs.map((x) => this.point(x, frame))];
    }
    const passes = inner.passes === 1 ? [0] : index < carried ? [reverse ? 0 : length - 1] : range(length);
    return passes.map((pass) => {
      const inside = this.#enter(frame, node, inner, pass);
      return this.point(inside.parent!.body.results[index]!, inside);
    });
  }

  #enter(frame: Frame, node: Expr, inner: Inner, pass: number): Frame {
    const key = `${node.serial}:${pass}`;
    let inside = frame.inside.get(key);
    if (!inside) {
      const base = frame.base + inner.start + pass * inner.width;
      const said = inner.head ? Number(this.#counts[2 * base]) : 0;
      const which = inner.head === 'body' ? said : 0;
      const parent = { frame, node, body: inner.bodies[which]!, pass: inner.head === 'pass' ? said : pass };
      inside = { level: inner.levels[which]!, base: base + (inner.head ? 1 : 0), parent, inside: new Map() };
      frame.inside.set(key, inside);
    }
    return inside;
  }

  /** The point outside of this pass for a body's parameter. */
  #argument(frame: Frame, param: number): Point {
    const { frame: outer, node, body, pass } = frame.parent!;
    const outside = (i: number) => this.point(node.inputs[i]!, outer);
    if (node.op.name === 'case') return outside(param + 1);
    if (node.op.name !== 'scan') return outside(param);
    const { fixed, carried, length, reverse } = node.attrs as Scan;
    const isFirst = pass === (reverse ? length - 1 : 0);
    if (param < fixed || param >= fixed + carried || isFirst) return outside(param);
    const before = this.#enter(outer, node, outer.level.inner.get(node)!, pass + (reverse ? 1 : -1));
    return this.point(body.results[param - fixed]!, before);
  }

  /** The statistics of a point; undefined for integers and booleans. */
  statistics(point: Point): Statistics | undefined {
    for (let p = point; ; ) {
      const { frame, node, index } = p;
      const aval = node.avals?.[index] ?? node.aval;
      if (!isFloat(aval.dtype)) return undefined;
      const row = frame.level.rows.get(node)?.[index];
      if (row !== undefined) return this.#row(frame.base + row);
      if (isSplat(node)) return ofSplat(node);
      if (node.op.name === 'iota') return { nan: 0, inf: 0, min: 0, max: Math.max(...node.shape, 1) - 1 };
      const from = this.sources(p);
      if (from.length !== 1) return from.map((x) => this.statistics(x)!).reduce(merged, EMPTY);
      p = from[0]!;
    }
  }
  #row(i: number): Statistics {
    const [nan, inf, min, max] = [this.#counts, this.#counts, this.#ranges, this.#ranges].map((t, k) =>
      Number(t[2 * i + (k % 2)]),
    ) as [number, number, number, number];
    return { nan, inf, min, max };
  }

  has(point: Point, kind: Kind): boolean {
    return (this.statistics(point)?.[kind] ?? 0) > 0;
  }

  /** The origins of values of this kind in these points: the first points on the path with such values, in order of computation. */
  origins(from: readonly Point[], kind: Kind): Origin[] {
    const seen = new Map<Frame, Set<string>>();
    const found: Origin[] = [];
    const stack: Origin[] = from.filter((p) => this.has(p, kind)).map((point) => ({ point, user: undefined }));
    while (stack.length) {
      const { point: p, user } = stack.pop()!;
      const known = seen.get(p.frame) ?? new Set();
      seen.set(p.frame, known);
      const key = `${p.node.serial}:${p.index}`;
      if (known.has(key)) continue;
      known.add(key);
      const before = this.sources(p).filter((x) => this.has(x, kind));
      const isOperation = !SAME.has(p.node.op.name) && !this.#isParameter(p) && !p.frame.level.inner.has(p.node);
      if (before.length) stack.push(...before.map((point) => ({ point, user: isOperation ? p : user })));
      else found.push({ point: this.#isParameter(p) ? this.#loopOf(p) : p, user });
    }
    return found.sort((a, b) => earlier(a.point, b.point));
  }

  /** Whether all infinities of a point were only passed on from given values. */
  isCopy(point: Point): boolean {
    const stack = [point];
    const seen = new Set<Expr>();
    while (stack.length) {
      const p = stack.pop()!;
      if (seen.has(p.node)) continue;
      seen.add(p.node);
      const before = this.sources(p).filter((x) => this.has(x, 'inf'));
      const isHandedOn =
        MOVES.has(p.node.op.name) || this.isGiven(p) || p.frame.level.inner.has(p.node) || this.#isParameter(p);
      if (!isHandedOn) return p.node.inputs.length === 0;
      if (!before.length && !this.isGiven(p)) return false; // a conversion that overflowed
      stack.push(...before);
    }
    return true;
  }
  /** The loop that passed on a value from a pass without kept statistics. */
  #loopOf({ frame }: Point): Point {
    const { frame: outer, node } = frame.parent!;
    return { frame: outer, node, index: 0 };
  }
  #isParameter({ frame, node }: Point): boolean {
    return frame.parent?.body.params.includes(node) ?? false;
  }

  /** The operands of an operation. */
  operands({ frame, node }: Point): Point[] {
    return node.inputs.map((x) => this.point(x, frame));
  }

  /** The loops around a point, outermost first, with its pass in each. */
  loops({ frame }: Point): { readonly node: Expr; readonly pass: number; readonly length: number | undefined }[] {
    const loops = [];
    for (let f = frame; f.parent; f = f.parent.frame) {
      const { node, pass } = f.parent;
      const isLoop = node.op.name === 'scan' || node.op.name === 'while';
      if (isLoop) loops.unshift({ node, pass, length: (node.attrs as Partial<Scan>).length });
    }
    return loops;
  }

  /** Whether a point is one of the graph's given values. */
  isGiven({ frame, node }: Point): boolean {
    return !frame.parent && frame.level.given.has(node);
  }
}

const EMPTY: Statistics = { nan: 0, inf: 0, min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY };
const merged = (a: Statistics, b: Statistics): Statistics => ({
  nan: a.nan + b.nan,
  inf: a.inf + b.inf,
  min: Math.min(a.min, b.min),
  max: Math.max(a.max, b.max),
});

function ofSplat({ attrs, aval }: Expr): Statistics {
  const { value } = attrs as { value: string };
  if (!value.startsWith('0x')) return { nan: 0, inf: 0, min: Number(value), max: Number(value) };
  const isInf = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].some((x) => literal(x, aval.dtype) === value);
  return { ...EMPTY, ...(isInf ? { inf: aval.size } : { nan: aval.size }) };
}

/** The position of a point in the order of computation: from the outermost level, a node's number and its loop's pass. */
function placeOf({ frame, node }: Point): number[] {
  const place = [node.serial];
  for (let f = frame; f.parent; f = f.parent.frame) {
    const { node: loop, pass } = f.parent;
    place.unshift(loop.serial, (loop.attrs as Partial<Scan>).reverse ? -pass : pass);
  }
  return place;
}
function earlier(a: Point, b: Point): number {
  const [x, y] = [placeOf(a), placeOf(b)];
  const i = x.findIndex((n, k) => n !== y[k]);
  return i < 0 ? 0 : x[i]! - (y[i] ?? Number.POSITIVE_INFINITY);
}
