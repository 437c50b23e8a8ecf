// Indexing of a tensor that already has a value, outside of steps. The numbers of an index are inputs of the program, so that
// a loop over data compiles once for all offsets. A value on the host is sliced there, without a program. Inside steps and
// bodies of loops the numbers are constants.
import { type DType, hostArray, sizeOf, type TypedArray } from '../base/dtype.js';
import { ShapeError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { isFloat, isInteger } from '../base/promote.js';
import { type Shape, sameShape, showShape } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import { Expr, nodeCount } from '../ir/expr.js';
import { openScopes } from '../ir/scope.js';
import { tensorSplit } from '../ops/parts.js';
import type { Operand } from '../ops/prim/align.js';
import { full } from '../ops/prim/constant.js';
import { dynamicSlice, dynamicUpdateSlice } from '../ops/prim/dynamic.js';
import { detach, input } from '../ops/prim/variable.js';
import { repeatInterleave } from '../ops/shape.js';
import { CONSTANTS, type Index, type Numbers, narrowed, readAt, selected, write } from '../ops/spec.js';
import { describedSince } from '../runtime/evaluate.js';
import { ownRecord, recordOf } from '../runtime/record.js';
import { hasValue, nodeValue, setValue } from '../runtime/value.js';
import { isLate } from './carried.js';
import { varies } from './varying.js';

/** Replacements for the operations of the same names. */
export const byOffsets = {
  narrow: (x: Expr, dim: number, start: number | Expr, length: number) =>
    narrowed(x, dim, start, length, numbersFor(x)),
  select: (x: Expr, dim: number, index: number | Expr) => selected(x, dim, index, numbersFor(x)),
  repeatInterleave: (
    x: Expr,
    repeats: number | Shape | Expr,
    options?: { readonly dim?: number; readonly outputSize?: number },
  ) => repeatInterleave(x, numbersOf(repeats), options),
  tensorSplit: (x: Expr, sections: number | Shape | Expr, dim?: number | { readonly dim?: number }) =>
    tensorSplit(x, numbersOf(sections), dim),
  index: (x: Expr, ...spec: Index[]) => readAt('index', x, seen('index', x, spec, true), numbersFor(x)),
  indexPut: (x: Expr, spec: readonly Index[], values: Operand, { accumulate = false } = {}) =>
    write('indexPut', x, seen('indexPut', x, spec, false), values, accumulate ? 'add' : 'set', numbersFor(x, false)),
};

const isMask = (i: Index): i is Expr => i instanceof Expr && i.dtype === 'bool' && i.shape.length > 0;
/** Replaces masks by the indices they select, if the host has their values, and checks the other indices. */
function seen(op: string, x: Expr, spec: readonly Index[], masks: boolean): readonly Index[] {
  if (!spec.some((i) => i instanceof Expr) || openScopes().length) return spec;
  const dimsOf = (i: Index) => (i === null || i === '...' ? 0 : isMask(i) ? i.shape.length : 1);
  const rest = x.shape.length - spec.reduce((sum: number, i) => sum + dimsOf(i), 0); // what '...' stands for
  if (rest < 0) return spec; // too many indices: an error is thrown later
  let d = 0;
  return spec.flatMap((item) => {
    const start = d;
    d += item === '...' ? rest : dimsOf(item);
    if (item instanceof Expr && !isMask(item)) checkRange(op, item, x, start);
    const values = masks && isMask(item) ? hostArrayOf(item) : undefined;
    if (!values) return [item];
    const { shape, aval } = item as Expr;
    if (!sameShape(x.shape.slice(start, d), shape))
      throw new ShapeError(
        `${op}: the mask ${aval} does not match ${showShape(x.shape.slice(start, d))}, the dimensions of ${x.aval} that it indexes`,
      );
    const places = Array.from(values as Uint8Array).flatMap((held, i) => (held ? [i] : []));
    return shape.map((n, k) => {
      const stride = sizeOf(shape.slice(k + 1));
      const along = places.map((i) => Math.floor(i / stride) % n);
      return given(along, [places.length]);
    });
  });
}

/** The most elements to copy or check on the host, as the caller waits for that. */
const MOST_COPIED = 1 << 20;

/** The first integer that satisfies a condition, if the host has the values, outside of compiled functions. */
export function elementOf(x: Expr, isSo: (i: number | bigint) => boolean): number | bigint | undefined {
  if (openScopes().length || x.aval.size > MOST_COPIED || !isInteger(x.dtype)) return undefined;
  return hostArrayOf(x)?.find(isSo as (i: number | bigint) => boolean);
}

/** The first number that violates a condition, if the host has the values, outside of compiled functions. Ignores gradients. */
export function numberOf(x: Expr, isSo: (v: number) => boolean): number | undefined {
  if (openScopes().length || x.aval.size > MOST_COPIED || !isFloat(x.dtype)) return undefined;
  const data = hostArrayOf(detach(x));
  return data && Array.from(decodeFloats(x.dtype, data), Number).find((v) => !isSo(v));
}

/** Rejects indices out of range if the host has their values, outside of compiled functions. Values on the device are not checked. */
export function checkRange(op: string, index: Expr, x: Expr, dim: number): void {
  const n = x.shape[dim < 0 ? dim + x.shape.length : dim];
  if (!n) return;
  const wrong = elementOf(index, (i) => i >= n || i < -n);
  if (wrong !== undefined)
    throw new ShapeError(
      `${op}: index ${wrong} in ${index.aval} is out of range for size ${n} of dim ${dim} in ${x.aval}`,
    );
}

/** The numbers of a tensor that determines a shape, if the host has them; otherwise the tensor, which is rejected later. */
function numbersOf(x: number | Shape | Expr): number | Shape | Expr {
  if (!(x instanceof Expr) || openScopes().length) return x;
  const values = hostArrayOf(x);
  if (!values) return x;
  const numbers = Array.from(values as ArrayLike<number | bigint>, Number);
  return x.shape.length ? numbers : numbers[0]!;
}

function numbersFor(x: Expr, onHost = true): Numbers {
  if (openScopes().length) return CONSTANTS;
  const given = givenOf(x);
  if (!given) return learned(x); // computed by the same program, in which XLA can remove unused parts
  const { sharding } = recordOf(given);
  return sharding && !sharding.isReplicated ? CONSTANTS : inputs(onHost); // an offset input would gather a sharded dimension
}

/** XLA's compile time grows faster than the number of inputs: 1,000 offsets took 6 s, as constants 1 s. */
const MOST_INPUTS = 256;
let [computed, since] = [0, 0];
/** Whether many parts were described since the last computation: one program may compute all of them. */
function isOneOfMany(): boolean {
  const now = nodeCount() - describedSince();
  [computed, since] = now === computed ? [computed, since + 1] : [now, 1];
  return since > MOST_INPUTS;
}

const SAME_ELEMENTS: ReadonlySet<string> = new Set(['detach', 'alias', 'reshape']);
const FORMS: ReadonlySet<string> = new Set([...SAME_ELEMENTS, 'convert']);
/** Whether a node's value is an input of the programs that use it: it exists, or an earlier step computes it. */
const isGiven = (e: Expr): boolean => hasValue(e) || recordOf(e).queued || isLate(e);
/** The node with the value of this one, possibly in another form. */
function givenOf(e: Expr, forms = FORMS): Expr | undefined {
  let at = e;
  while (!isGiven(at) && forms.has(at.op.name)) at = at.inputs[0]!;
  return isGiven(at) ? at : undefined;
}

/** The elements of x, if the host has them, x is not differentiated, and they are not sharded over devices. */
export function hostArrayOf(x: Expr): TypedArray | undefined {
  const given = x.differentiable ? undefined : givenOf(x, SAME_ELEMENTS);
  if (!given || recordOf(given).sharding) return undefined;
  const value = nodeValue(given);
  return ArrayBuffer.isView(value) ? (value as TypedArray) : undefined;
}

/** Constants, but inputs in source lines whose numbers were seen to change. */
function learned(x: Expr): Numbers {
  const since = nodeCount() - describedSince();
  const numbersOf = (kind: string, numbers: readonly number[]): Numbers =>
    varies(`${x.aval} ${kind}`, numbers, since) ? inputs(false) : CONSTANTS;
  return {
    cut(x, start, limit, step, shape) {
      const spans = start.map((s, d) => limit[d]! - s);
      return numbersOf(`cut ${spans} ${step}`, start).cut(x, start, limit, step, shape);
    },
    put: (x, part, start) => numbersOf(`put ${part.aval}`, start).put(x, part, start),
    list: (indices) => numbersOf(`list ${indices.length}`, indices).list(indices),
  };
}

/** Numbers as inputs of the program. Inputs are not shared between calls: which numbers are equal must not change the graph. */
function inputs(onHost: boolean): Numbers {
  const offsets = new Map<number, Expr>();
  const startOf = (d: number, start: number) => {
    if (!offsets.has(d)) offsets.set(d, given([start], []));
    return offsets.get(d)!;
  };
  const startsOf = (x: Expr, part: readonly number[], start: readonly number[]) =>
    part.map((n, d) => (n === x.shape[d] ? full([], 0, 'i64') : startOf(d, start[d]!)));
  return {
    cut(x, start, limit, step, shape) {
      const counts = start.map((s, d) => Math.ceil((limit[d]! - s) / step[d]!));
      if (counts.includes(0) || String(counts) === String(x.shape)) return CONSTANTS.cut(x, start, limit, step, shape);
      const array = onHost ? hostArrayOf(x) : undefined;
      const part = array && cutOnHost(array, x.aval, start, step, counts);
      if (part) return made(part, x.dtype, shape ?? counts);
      if (isOneOfMany()) return CONSTANTS.cut(x, start, limit, step, shape);
      const spans = counts.map((n, d) => 1 + (n - 1) * step[d]!);
      const span = dynamicSlice(x, startsOf(x, spans, start), spans);
      const zeros = start.map(() => 0);
      return CONSTANTS.cut(span, zeros, spans, step, shape);
    },
    put: (x, part, start) => dynamicUpdateSlice(x, part, startsOf(x, part.shape, start)),
    list: (indices) => given(indices, [indices.length]),
  };
}

function given(numbers: readonly number[], shape: Shape): Expr {
  const node = input(Aval.of('i64', shape));
  ownRecord(node).value = BigInt64Array.from(numbers, BigInt);
  return node;
}
function made(array: TypedArray, dtype: DType, shape: Shape): Expr {
  const node = input(Aval.of(dtype, shape));
  setValue(node, array);
  return node;
}

/** A part of an array on the host. Contiguous rows are a view, as such an array is never changed. */
function cutOnHost(
  array: TypedArray,
  { dtype, shape }: Aval,
  start: readonly number[],
  step: readonly number[],
  counts: Shape,
): TypedArray | undefined {
  const strides = shape.map((_, d) => sizeOf(shape.slice(d + 1)));
  // From this dimension on elements are contiguous: all later dimensions are taken whole.
  const last = shape.findLastIndex((n, d) => counts[d] !== n);
  const inner = step[last] === 1 || counts[last] === 1 ? last : last + 1;
  const run = sizeOf(counts.slice(inner));
  const from = start.reduce((at, s, d) => at + s * strides[d]!, 0);
  const size = sizeOf(counts);
  if (size === run) return array.subarray(from, from + run);
  if (size > MOST_COPIED) return undefined;
  const part = hostArray({ dtype, shape: counts });
  let to = 0;
  const copy = (d: number, at: number): void => {
    if (d < inner) for (let i = 0; i < counts[d]!; i++) copy(d + 1, at + i * step[d]! * strides[d]!);
    else {
      (part as Float32Array).set(array.subarray(at, at + run) as Float32Array, to);
      to += run;
    }
  };
  copy(0, from);
  return part;
}
