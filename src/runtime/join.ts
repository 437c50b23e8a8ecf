// Joining very many tensors. XLA's compile time grows faster than the number of a program's parameters: on two cores it
// took 1.7 s to join 250 tensors and 16 s for 1,000. So host values are joined on the host, and device values in pieces, whose
// programs are equal and compiled once.

import { hostArray, sizeOf, type TypedArray } from '../base/dtype.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Graph } from '../ir/graph.js';
import { concat } from '../ops/prim/slice.js';
import { input } from '../ops/prim/variable.js';
import { recordOf } from './record.js';
import { freeValue, hasValue, isUnsettled, nodeValue, setValue } from './value.js';

/** The most tensors that one program joins. */
export const MOST_JOINED = 64;

/** Computes nodes whose inputs all have values. */
type Run = (nodes: readonly Expr[]) => Promise<void>;

/** Computes all nodes of a graph that join more tensors than one program should. Returns whether there were any. */
export async function joinMany({ nodes }: Graph, run: Run): Promise<boolean> {
  const many = nodes.filter(joinsMany);
  for (const e of many) {
    const { dim } = e.attrs as { dim: number };
    const given = new Set(e.inputs);
    let parts = joinOnHost(e.inputs, dim);
    while (parts.length > 1) {
      const pieces = chunks(parts).map((piece) => concat(piece, dim));
      await run(pieces.filter((piece) => !hasValue(piece)));
      // Parts made here are no longer needed: the runs keep their memory as long as necessary.
      for (const part of parts) if (!given.has(part) && !pieces.includes(part)) freeValue(part);
      parts = pieces;
    }
    setValue(e, nodeValue(parts[0]!) as TypedArray);
    if (!e.differentiable) e.forget();
  }
  return many.length > 0;
}

function joinsMany(e: Expr): boolean {
  if (e.op.name !== 'concat' || e.inputs.length <= MOST_JOINED || hasValue(e) || recordOf(e).sharding) return false;
  return e.inputs.every((x) => {
    const given = givenOf(x);
    return given && !recordOf(given).sharding && !recordOf(x).sharding;
  });
}

/** The node with the same value as this one, up to its form: stack reshapes tensors first. */
function givenOf(e: Expr, forms: ReadonlySet<string> = FORMS): Expr | undefined {
  let at = e;
  while (!hasValue(at) && forms.has(at.op.name) && at.inputs.length === 1) at = at.inputs[0]!;
  return hasValue(at) && !isUnsettled(at) ? at : undefined;
}
const FORMS: ReadonlySet<string> = new Set(['reshape', 'convert']);
const SAME_ELEMENTS: ReadonlySet<string> = new Set(['reshape']);

/** The same tensors, with neighbouring host values joined into one. */
function joinOnHost(parts: readonly Expr[], dim: number): Expr[] {
  const joined: Expr[] = [];
  let run: Expr[] = [];
  const end = () => {
    if (run.length > 1) joined.push(hostConcat(run, dim));
    else joined.push(...run);
    run = [];
  };
  for (const part of parts) {
    if (arrayOf(part)) run.push(part);
    else {
      end();
      joined.push(part);
    }
  }
  end();
  return joined;
}

/** The elements of a node, if the host has them. Conversions, which may round or truncate, are left to the device. */
function arrayOf(e: Expr): TypedArray | undefined {
  const given = givenOf(e, SAME_ELEMENTS);
  const value = given && nodeValue(given);
  return ArrayBuffer.isView(value) ? (value as TypedArray) : undefined;
}

function hostConcat(parts: readonly Expr[], dim: number): Expr {
  const [{ dtype, shape }] = parts as [Expr];
  const total = parts.reduce((n, part) => n + part.shape[dim]!, 0);
  const type = { dtype, shape: shape.with(dim, total) };
  const all = hostArray(type);
  const outer = sizeOf(shape.slice(0, dim));
  const row = all.length / outer || 0;
  let at = 0;
  for (const part of parts) {
    const array = arrayOf(part)!;
    const width = array.length / outer || 0;
    for (let i = 0; i < outer; i++)
      (all as Float32Array).set((array as Float32Array).subarray(i * width, (i + 1) * width), i * row + at);
    at += width;
  }
  const result = input(Aval.of(dtype, type.shape));
  setValue(result, all);
  return result;
}

function chunks(parts: readonly Expr[]): Expr[][] {
  const count = Math.ceil(parts.length / MOST_JOINED);
  return Array.from({ length: count }, (_, i) => parts.slice(i * MOST_JOINED, (i + 1) * MOST_JOINED));
}
