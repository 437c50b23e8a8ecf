// Collectives: devices of a mesh exchange values inside a manual region, where each has its own value.
import { ArgumentError, ShapeError } from '../../base/errors.js';
import { isFloat, kindOf } from '../../base/promote.js';
import { normalizeDim } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import { collect } from '../../ir/graph.js';
import type { Mesh, Sharding } from '../../ir/mesh.js';
import type { Attributes, Emitter, Region, Ssa } from '../../ir/op.js';
import { Body, isParameter } from './body.js';
import { zerosLike } from './constant.js';
import { checkDType, comparing, define, forgetsNaN, i64, PICK, same, scalarConstant, shifted } from './define.js';
import { reshape } from './move.js';
import { div, mul } from './pointwise.js';

/** Axes of a mesh: devices that differ only in their positions along these exchange values. */
export interface Along {
  readonly mesh: Mesh;
  readonly axes: readonly string[];
}
const sizeOf = ({ mesh, axes }: Along): number => mesh.sizeOf(axes);

// ---- where collectives can be

let open: Mesh | undefined;
/** Describes or writes the inside of a manual region. */
export function insideRegion<T>(mesh: Mesh, run: () => T): T {
  const outer = open;
  open = mesh;
  try {
    return run();
  } finally {
    open = outer;
  }
}
/** The mesh of the region that is being described or written. */
export const openRegion = (): Mesh | undefined => open;

/** The sharding of each of a region's arguments or results, and its type. */
export interface Split {
  readonly shardings: readonly Sharding[];
  readonly types: readonly Aval[];
}
/** Writes a manual region: `run` writes what every device does with its parts, which are of these types. */
export function writeRegion(
  e: Emitter,
  mesh: Mesh,
  xs: readonly Ssa[],
  ins: Split,
  outs: Split,
  run: (parts: readonly Ssa[]) => Ssa[],
): Ssa[] {
  e.declare(mesh);
  const all = ({ shardings, types }: Split) =>
    `#sdy.sharding_per_value<[${shardings.map((s, i) => s.mlir(types[i]!.rank, mesh)).join(', ')}]>`;
  const attrs = {
    in_shardings: all(ins),
    out_shardings: all(outs),
    manual_axes: `#sdy<manual_axes{${mesh.axisNames.map((axis) => `"${axis}"`).join(', ')}}>`,
  };
  return e.op('sdy.manual_computation', xs, outs.types, attrs, [e.region(ins.types, run, true)]);
}

// ---- what differs from device to device

/** For nodes inside a region: the axes along which devices may have different values. */
const differing = new WeakMap<Expr, readonly string[]>();
/** All axes: nothing is known about the value. */
const EVERY = '*';
/** Says so of a value that a region is given. */
export const differsAlong = (e: Expr, axes: readonly string[]): Expr => {
  differing.set(e, axes);
  return e;
};

/** The axes along which values are known to differ; includes EVERY if nothing is known. */
export function differencesOf(x: Expr): readonly string[] {
  const isKnown = (e: Expr) => differing.has(e) || e.isComputed;
  for (const e of collect([x], isKnown).nodes) if (!differing.has(e)) differing.set(e, differences(e));
  return differing.get(x)!;
}
const mayDiffer = (x: Expr, axis: string): boolean => differencesOf(x).some((a) => a === axis || a === EVERY);

function differences(e: Expr): readonly string[] {
  const isBody = (x: unknown) => x instanceof Body;
  if (
    isParameter(e) ||
    Object.values(e.attrs ?? {})
      .flat()
      .some(isBody)
  )
    return [EVERY];
  if (e.op === PICK && e.inputs[0]?.op.name === 'optimizationBarrier')
    return differing.get(e.inputs[0].inputs[(e.attrs as { index: number }).index]!)!; // each result is its operand
  const given = new Set(e.isComputed ? [] : e.inputs.flatMap((x) => differing.get(x)!));
  const effect = EFFECT.get(e.op.name);
  if (effect) for (const axis of (e.attrs as Along).axes) given[effect](axis);
  return [...given];
}

/** Whether a collective makes values equal along its axes, or different. */
const EFFECT: ReadonlyMap<string, 'add' | 'delete'> = new Map([
  ['allReduce', 'delete'],
  ['allGather', 'delete'],
  ['reduceScatter', 'add'],
  ['allToAll', 'add'],
  ['collectivePermute', 'add'],
  ['axisIndex', 'add'],
]);

// ---- as text

const channels = new WeakMap<Emitter, number>();
/** Each collective of a program has its own channel. */
function channel(e: Emitter): Attributes {
  const handle = (channels.get(e) ?? 0) + 1;
  channels.set(e, handle);
  if (!open)
    throw new ArgumentError(
      'a value of the inside of a manual region is used outside of it: return it from the region',
    );
  return { channel_handle: `#stablehlo.channel_handle<handle = ${handle}, type = 1>` };
}

/** The positions in the mesh of devices that exchange values, a list for each group, in their order along the axes. */
function groupsOf({ mesh, axes }: Along): number[][] {
  const others = mesh.axisNames.filter((axis) => !axes.includes(axis));
  const groups: number[][] = Array.from({ length: mesh.sizeOf(others) }, () => []);
  mesh.devices.forEach((_, p) => {
    groups[mesh.along(others, p)]![mesh.along(axes, p)] = p;
  });
  return groups;
}
const dense = (rows: readonly (readonly number[])[]): string =>
  `dense<${JSON.stringify(rows)}> : tensor<${rows.length}x${rows[0]?.length ?? 0}xi64>`;
const groups = (along: Along): Attributes => ({ replica_groups: dense(groupsOf(along)) });
/** Groups are of positions in the mesh, not of replicas of the program. */
const positions: Attributes = { use_global_device_ids: 'unit' };
const reducer = (e: Emitter, hlo: string, x: Aval): Region => {
  const scalar = x.withShape([]);
  return e.region([scalar, scalar], (xs) => e.op(hlo, xs, [scalar]));
};

// ---- the collectives

const REDUCERS = { sum: 'add', min: 'minimum', max: 'maximum' } as const;
export type Reducer = keyof typeof REDUCERS | 'mean';

const allReduceOp = define<[Expr], Along & { op: keyof typeof REDUCERS }>({
  name: 'allReduce',
  infer: ([x], { op }) => {
    checkDType(`allReduce with ${op}`, [x], (d) => kindOf(d) > 0, 'numbers');
    return x;
  },
  lower: (e, [x], { op, ...along }, out) => {
    const reduced = (part: Ssa, hlo: string) => {
      const attrs = { ...groups(along), ...channel(e), ...positions };
      return e.op('all_reduce', [part], [out], attrs, [reducer(e, hlo, out)])[0]!;
    };
    const y = reduced(x, REDUCERS[op]);
    if (!forgetsNaN(e, REDUCERS[op], out)) return y;
    const missing = e.op('compare', [x, x], [out.withDType('bool')], comparing('NE', out.dtype))[0]!;
    const [nan, zero] = [Number.NaN, 0].map((value) => scalarConstant(e, value, out));
    return e.op('add', [y, reduced(e.op('select', [missing, nan!, zero!], [out])[0]!, 'add')], [out])[0]!;
  },
  vjp: (g, _, { op, ...along }) => {
    if (op === 'sum') return [allReduce(g, along)];
    throw new ArgumentError(`allReduce: ${op} has no gradient: detach() its operand, or reduce with sum or mean`);
  },
  batch: same,
});

/** The sum (or another) of what the devices along the axes have, on each of them. Only what differs is exchanged. */
export function allReduce(x: Expr, { mesh, axes }: Along, op: Reducer = 'sum'): Expr {
  const along = { mesh, axes: axes.filter((axis) => mesh.sizeOf(axis) > 1 && mayDiffer(x, axis)) };
  if (op === 'mean') {
    checkDType('allReduce with mean', [x.aval], isFloat, 'floats');
    return div(allReduce(x, along), sizeOf(along));
  }
  const y = along.axes.length ? allReduceOp([x], { ...along, op }) : x;
  const same = mesh.sizeOf(axes) / sizeOf(along);
  return op === 'sum' && same > 1 ? mul(y, same) : y;
}

const allGatherOp = define<[Expr], Along & { dim: number }>({
  name: 'allGather',
  infer: ([x], { dim, ...along }) => x.withShape(x.shape.map((n, d) => (d === dim ? n * sizeOf(along) : n))),
  lower: (e, [x], { dim, ...along }, out) =>
    e.op('all_gather', [x], [out], { all_gather_dim: i64(dim), ...groups(along), ...channel(e), ...positions })[0]!,
  vjp: (g, _, { dim, ...along }) => [reduceScatter(g, along, dim)],
  batch: shifted(({ dim, ...along }) => ({ dim: dim + 1, ...along })),
});

/** What the devices along the axes have, one behind the other; `tiled: false`: along a new dimension. */
export function allGather(x: Expr, along: Along, dim: number, tiled: boolean): Expr {
  const d = normalizeDim('allGather', dim, x.shape.length + (tiled ? 0 : 1));
  return allGatherOp([tiled ? x : reshape(x, x.shape.toSpliced(d, 0, 1))], { ...along, dim: d });
}

const reduceScatterOp = define<[Expr], Along & { dim: number }>({
  name: 'reduceScatter',
  infer: ([x], { dim, ...along }) => {
    checkDType('reduceScatter', [x], (d) => kindOf(d) > 0, 'numbers');
    return divided('reduceScatter', x, dim, along);
  },
  lower: (e, [x], { dim, ...along }, out) =>
    e.op('reduce_scatter', [x], [out], { scatter_dimension: i64(dim), ...groups(along), ...channel(e), ...positions }, [
      reducer(e, 'add', out),
    ])[0]!,
  vjp: (g, _, { dim, ...along }) => [allGather(g, along, dim, true)],
  batch: shifted(({ dim, ...along }) => ({ dim: dim + 1, ...along })),
});

/** The sum or mean of what the devices along the axes have, of which each gets its part of a dimension. */
export function reduceScatter(x: Expr, along: Along, dim: number, op: 'sum' | 'mean' = 'sum'): Expr {
  if (op === 'mean') checkDType('reduceScatter with mean', [x.aval], isFloat, 'floats');
  const sum = reduceScatterOp([x], { ...along, dim: normalizeDim('reduceScatter', dim, x.shape.length) });
  return op === 'mean' ? div(sum, sizeOf(along)) : sum;
}

interface AllToAll extends Along {
  readonly splitDim: number;
  readonly concatDim: number;
}
const allToAllOp = define<[Expr], AllToAll>({
  name: 'allToAll',
  infer: ([x], { splitDim, concatDim, ...along }) => {
    const part = divided('allToAll', x, splitDim, along);
    return x.withShape(part.shape.map((n, d) => (d === concatDim ? n * sizeOf(along) : n)));
  },
  lower: (e, [x], { splitDim, concatDim, ...along }, out) =>
    e.op('all_to_all', [x], [out], {
      split_dimension: i64(splitDim),
      concat_dimension: i64(concatDim),
      split_count: i64(sizeOf(along)),
      ...groups(along),
      ...channel(e),
    })[0]!,
  vjp: (g, _, { splitDim, concatDim, ...along }) => [allToAll(g, along, concatDim, splitDim)],
  batch: shifted(({ splitDim, concatDim, ...along }) => ({
    splitDim: splitDim + 1,
    concatDim: concatDim + 1,
    ...along,
  })),
});

/** Each device splits a dimension into one part for each device along the axes, and joins the parts it receives. */
export function allToAll(x: Expr, along: Along, splitDim: number, concatDim: number): Expr {
  const [split, concat] = [splitDim, concatDim].map((d) => normalizeDim('allToAll', d, x.shape.length));
  return allToAllOp([x], { ...along, splitDim: split!, concatDim: concat! });
}

export type Pairs = readonly (readonly [from: number, to: number])[];
const permuteOp = define<[Expr], Along & { pairs: Pairs }>({
  name: 'collectivePermute',
  infer: ([x]) => x,
  lower: (e, [x], { pairs, ...along }, out) => {
    const all = groupsOf(along).flatMap((group) => pairs.map(([from, to]) => [group[from]!, group[to]!]));
    return e.op('collective_permute', [x], [out], { source_target_pairs: dense(all), ...channel(e) })[0]!;
  },
  vjp: (g, _, { pairs, ...along }) => [
    permute(
      g,
      along,
      pairs.map(([from, to]) => [to, from]),
    ),
  ],
  batch: same,
});

/** For each pair the first device sends its value to the second; devices that receive nothing get zeros. */
export function permute(x: Expr, along: Along, pairs: Pairs): Expr {
  checkPairs(along, pairs);
  return pairs.length ? permuteOp([x], { ...along, pairs }) : zerosLike(x);
}

function checkPairs(along: Along, pairs: Pairs): void {
  const n = sizeOf(along);
  const wrong = pairs.flat().find((i) => !Number.isInteger(i) || i < 0 || i >= n);
  if (wrong !== undefined)
    throw new ArgumentError(`permute: ${wrong} is out of range along ${along.axes.join(', ')}: use 0 to ${n - 1}`);
  for (const [k, does] of ['sends', 'is sent to'].entries()) {
    const places = pairs.map((pair) => pair[k]!);
    const twice = places.find((place, i) => places.indexOf(place) !== i);
    if (twice !== undefined)
      throw new ArgumentError(`permute: ${twice} ${does} twice in ${JSON.stringify(pairs)}: at most once is allowed`);
  }
}

const INDEX = Aval.of('i32', []);
const axisIndexOp = define<[], Along>({
  name: 'axisIndex',
  infer: () => INDEX,
  lower: (e, _, { mesh, axes }) => {
    channel(e); // where it can be, others can
    const count = (n: number) => scalarConstant(e, n, INDEX);
    const position = e.op('convert', e.op('partition_id', [], [INDEX.withDType('u32')]), [INDEX])[0]!;
    return axes.reduce((sofar, axis) => {
      const i = mesh.indexOf(axis);
      const rows = e.op('divide', [position, count(mesh.sizeOf(mesh.axisNames.slice(i + 1)))], [INDEX])[0]!;
      const [index] = e.op('remainder', [rows, count(mesh.shape[i]!)], [INDEX]);
      const [before] = e.op('multiply', [sofar, count(mesh.shape[i]!)], [INDEX]);
      return e.op('add', [before!, index!], [INDEX])[0]!;
    }, count(0));
  },
  batch: null,
});
/** The index of the device along the axes, an i32. */
export const axisIndex = (along: Along): Expr => axisIndexOp([], along);

function divided(what: string, x: Aval, dim: number, along: Along): Aval {
  const n = sizeOf(along);
  const size = x.shape[dim]!;
  if (size % n)
    throw new ShapeError(
      `${what}: ${x} over ${along.axes.join(', ')}: dimension ${dim} is ${size}, and ${size} / ${n} is not an integer`,
    );
  return x.withShape(x.shape.with(dim, size / n));
}
