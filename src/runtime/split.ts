// Splits pending nodes into programs: by devices, and into equal parts that share one program.
import type { Expr } from '../ir/expr.js';
import { collect, type Graph, hashOf, structure } from '../ir/graph.js';
import { Mesh, Sharding } from '../ir/mesh.js';
import { meshesIn } from '../ops/prim/body.js';
import { isAdvanced } from '../ops/prim/threefry.js';
import type { Client } from '../pjrt/index.js';
import { ownRecord, recordOf } from './record.js';
import { missingDevices } from './sharded.js';
import { hasValue } from './value.js';

/**
 * Groups roots by devices: a program has one list of devices, and a root that depends on no mesh is computed on one device. A
 * root that needs values on several lists, or missing devices, is left out so that others can be computed; if it was requested,
 * it is kept and causes an error.
 */
export function byDevices(client: Client, graph: Graph, isAsked: (e: Expr) => boolean): (readonly Expr[])[] {
  if (!Mesh.exists) return [graph.roots];
  // A replicated sharding stands for the devices of its mesh. `firm`: a node cannot be computed elsewhere.
  const on = new Map<Expr, { readonly firm: ReadonlySet<Sharding>; readonly at: Sharding | undefined }>();
  for (const e of graph.nodes) {
    const inputs = hasValue(e) ? [] : e.inputs.map((x) => on.get(x)!);
    const { sharding } = recordOf(e);
    const split = sharding && !sharding.isReplicated ? [sharding.mesh] : [];
    const own = (hasValue(e) ? split : meshesIn(e)).map(Sharding.replicated);
    const firm = new Set([...own, ...inputs.flatMap((x) => [...x.firm])]);
    const lies = sharding && Sharding.replicated(sharding.mesh);
    on.set(e, { firm, at: [...firm][0] ?? lies ?? inputs.find((x) => x.at)?.at });
  }
  const needsSeveral = (root: Expr) => {
    const { firm, at } = on.get(root)!;
    return firm.size > 1 || (at !== undefined && missingDevices(client, at.mesh).length > 0);
  };
  const roots = graph.roots.filter((root) => isAsked(root) || !needsSeveral(root));
  const first = roots.map((root) => on.get(root)!.at).find((at) => at);
  return grouped(roots, (root) =>
    needsSeveral(root) ? root : (on.get(root)!.at ?? (recordOf(root).followsProgram ? first : undefined)),
  );
}

/** Where a part ends: at existing values, and at states of random generators, which are computed first. */
const isGiven = (e: Expr): boolean => hasValue(e) || isAdvanced(e);
/** The least number of equal parts, and of operations in each, that are worth a separate program. */
const [MANY, LARGE] = [3, 16];

/**
 * Independent and equal parts, such as the initial values of a network's layers: each kind is compiled once and run many
 * times. In one program, XLA would compile every copy.
 */
export function equalParts(roots: readonly Expr[]): (readonly Expr[])[] {
  const whole = roots.flatMap(rowsOf);
  if (whole.length < MANY) return [];
  const parts = separate(whole).filter(({ nodes }) => nodes.length >= LARGE);
  const kinds = grouped(parts, (part) => hashOf(structure(part, isGiven)));
  return kinds.filter((same) => same.length >= MANY).flatMap((same) => same.map((part) => part.roots));
}
/** The tensors that are stacked or joined to make a node, or the node itself. */
function rowsOf(root: Expr): readonly Expr[] {
  let e = root;
  while (e.inputs.length === 1 && !hasValue(e)) e = e.inputs[0]!;
  if (e.op.name !== 'concat' || e.inputs.length < MANY || hasValue(e)) return [root];
  const rows = e.inputs.filter((x) => !hasValue(x));
  const { dim } = e.attrs as { dim: number };
  const { sharding } = recordOf(root);
  // Split like the whole: otherwise one device would have to hold all of them.
  if (sharding && !sharding.axes[dim]?.length && String(e.shape) === String(root.shape))
    for (const row of rows) ownRecord(row).sharding ??= sharding;
  return rows;
}

/** The graphs of these nodes, in parts that share only existing values; none if there are few. */
function separate(roots: readonly Expr[]): Graph[] {
  const part = new Map<Expr, number>(); // for each node: the first root that needs it
  const joined = roots.map((_, i) => i); // for each root: one that shares nodes with it, or itself
  const find = (i: number): number => (joined[i] === i ? i : (joined[i] = find(joined[i]!)));
  roots.forEach((root, i) => {
    const stack = [root];
    while (stack.length) {
      const e = stack.pop()!;
      if (isGiven(e)) continue;
      const other = part.get(e);
      if (other !== undefined) joined[find(i)] = find(other);
      else {
        part.set(e, i);
        for (const x of e.inputs) stack.push(x); // one at a time: there may be more than a call's argument limit
      }
    }
  });
  const lists = grouped(
    roots.filter((e) => !isGiven(e)),
    (e) => find(part.get(e)!),
  );
  return lists.length < MANY ? [] : lists.map((list) => collect(list, isGiven));
}

function grouped<T, K>(list: readonly T[], keyOf: (x: T) => K): T[][] {
  const groups = new Map<K, T[]>();
  for (const x of list) {
    const key = keyOf(x);
    const group = groups.get(key);
    if (group) group.push(x);
    else groups.set(key, [x]);
  }
  return [...groups.values()];
}
