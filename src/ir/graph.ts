// Graphs: the nodes that some results depend on, in order, and the test whether two graphs are the same program.
import { createHash } from 'node:crypto';
import type { Aval } from './aval.js';
import type { Expr, Signature } from './expr.js';

export interface Graph {
  readonly roots: readonly Expr[];
  /** Every node once, inputs before uses, in an order that depends only on the roots' structure. */
  readonly nodes: readonly Expr[];
  readonly index: ReadonlyMap<Expr, number>;
}

/** Collects the nodes that the roots depend on. Nodes for which `stop` is true are given, not computed. */
export function collect(roots: readonly Expr[], stop: (e: Expr) => boolean = () => false): Graph {
  const nodes: Expr[] = [];
  const index = new Map<Expr, number>();
  const stack: Expr[] = []; // no recursion: chains may be 100,000 nodes long
  const next: number[] = [];
  const push = (e: Expr) => {
    stack.push(e);
    next.push(stop(e) ? Number.POSITIVE_INFINITY : 0);
  };
  for (const root of roots) {
    if (!index.has(root)) push(root);
    while (stack.length) {
      const e = stack[stack.length - 1]!;
      const i = next[next.length - 1]!;
      if (index.has(e) || i >= e.inputs.length) {
        stack.pop();
        next.pop();
        if (!index.has(e)) {
          index.set(e, nodes.length);
          nodes.push(e);
        }
      } else {
        next[next.length - 1] = i + 1;
        const input = e.inputs[i]!;
        if (!index.has(input)) push(input);
      }
    }
  }
  return { roots, nodes, index };
}

/** The graph as numbers: two graphs are the same program if and only if these are equal. */
export function structure(graph: Graph, stop: (e: Expr) => boolean = () => false): Int32Array {
  const out: number[] = [];
  for (const e of graph.nodes) {
    // For a given value, only the type counts. Ops may take any number of inputs, so their number is included.
    if (stop(e)) out.push(-1, e.aval.id);
    else {
      out.push(e.signature.id, e.inputs.length);
      for (const x of e.inputs) out.push(graph.index.get(x)!);
    }
  }
  for (const root of graph.roots) out.push(graph.index.get(root)!);
  return Int32Array.from(out);
}

/** The objects that the numbers of a structure refer to. Keep them with it, so that equal graphs get equal numbers again. */
export type Symbols = ReadonlyMap<number, Signature | Aval>;
export const symbolsOf = ({ nodes }: Graph, stop: (e: Expr) => boolean): Symbols =>
  new Map(nodes.map((e) => (stop(e) ? e.aval : e.signature)).map((x) => [x.id, x]));

/** A node decoded from a structure: a given value, or an op. */
export type NodeFact = { readonly given: Aval } | { readonly op: Signature; readonly inputs: readonly number[] };

/** Decodes the `count` nodes of a structure. */
export function nodesOf(structure: Int32Array, count: number, symbols: Symbols): NodeFact[] {
  const nodes: NodeFact[] = [];
  for (let i = 0; nodes.length < count; ) {
    const head = structure[i++]!;
    const next = structure[i++]!;
    if (head < 0) nodes.push({ given: symbols.get(next) as Aval });
    else nodes.push({ op: symbols.get(head) as Signature, inputs: [...structure.subarray(i, (i += next))] });
  }
  return nodes;
}

/** A hash of a structure, as 32 hexadecimal digits: for lookup and for messages. */
export const hashOf = ({ buffer, byteOffset, byteLength }: Int32Array): string =>
  createHash('sha256')
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest('hex')
    .slice(0, 32);
