// Tracing a step: the function is called on stand-in tensors to find what it computes, its inputs and its results.
import { gradEnabled } from '../autograd/mode.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { type Flat, flatten } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { hooksVersion } from '../ir/hooks.js';
import { inScope, type Touched } from '../ir/scope.js';
import { recordsCalls, type Source } from '../ir/source.js';
import { meshesOf } from '../ops/prim/body.js';
import { precisionKey } from '../ops/prim/precision.js';
import { input, isInput, isVariable } from '../ops/prim/variable.js';
import type { Cell } from '../runtime/cell.js';
import { events } from '../runtime/events.js';
import type { Computation, Program } from '../runtime/program.js';
import { ownRecord, recordOf } from '../runtime/record.js';
import { hasValue, hostValue, nodeValue } from '../runtime/value.js';
import type { Layout } from '../stablehlo/emitter.js';
import { autocastDType } from '../tensor/autocast.js';
import { type Closure, StepScope } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { callUser, tensorsOf } from '../tensor/trees.js';
import { variables } from '../tensor/variables.js';

/** Where a program finds one of its inputs at each call. */
export type Slot =
  | { readonly kind: 'cell'; readonly cell: Cell }
  | { readonly kind: 'argument'; readonly index: number }
  | { readonly kind: 'grad'; readonly owner: Tensor | number }
  | { readonly kind: 'node'; readonly node: Expr };

/** Where one of its results goes. */
export type Target =
  | { readonly kind: 'result'; readonly index: number }
  /** The place an input came from. */
  | { readonly kind: 'place'; readonly slot: Slot; readonly owner: Tensor | null; readonly variable: boolean }
  | { readonly kind: 'grad'; readonly of: Tensor | number }
  | { readonly kind: 'closure'; readonly index: number };

/** A function, traced: the program, where its inputs come from, and where its results go. */
export interface Trace {
  readonly computation: Computation;
  readonly slots: readonly Slot[];
  readonly targets: readonly Target[];
  /** What the function returned: tensors made inside it, or others. */
  readonly returned: Flat<Tensor>;
  /** For each leaf of `returned`: the index of its target, or the tensor itself if it comes from outside. */
  readonly leaves: readonly (Tensor | number)[];
  /** Gradients that it set to null. */
  readonly cleared: readonly (Tensor | number)[];
  /** Gradients that it read: whether they exist decides which program it is. */
  readonly guards: readonly { readonly owner: Tensor; readonly aval: Aval | undefined }[];
  /** Other state it depends on. */
  readonly conditions: StepScope['conditions'];
  readonly members: StepScope['members'];
  readonly closures: readonly {
    readonly fn: Closure['fn'];
    readonly args: Flat<Tensor>;
    readonly leaves: readonly (Tensor | number)[];
  }[];
  /** Outside cells that it uses: whether it changes them, their types, and whether they required gradients. */
  readonly reached: ReadonlyMap<Cell, Reached>;
  /** Whether its nodes record the modules and gradients they belong to. */
  readonly recorded: boolean;
  /** The number of calls that have compared it with a new trace. */
  checks: number;
  program: Program | undefined;
}

interface Reached {
  readonly changed: boolean;
  readonly aval: Aval;
  readonly differentiable: boolean;
}

// ---- tracing

/** Runs the function on these arguments to trace what it computes. All tensors are restored, even if it throws. */
export function trace(
  name: string,
  fn: (...args: never[]) => unknown,
  args: Arguments,
  source: Source | undefined,
): Trace {
  const start = performance.now();
  const scope = new StepScope(name, source);
  try {
    return inScope(
      scope,
      () => callUser(name, fn, ...(args.inside as never[])),
      (result) => describeTrace(scope, args, result),
    );
  } finally {
    scope.touched.clear(); // what outlives the trace, such as stack frames, must not keep these values alive
    for (const [tensor, { before, put }] of scope.grads) tensor.restoreGrad(before, put);
    for (const t of scope.made) t.spend((aval, place) => spentInside(name, aval, place));
    for (const t of args.tensors.keys())
      t.spend(
        (aval) => `this ${aval} was a placeholder for an argument of ${name} while it was traced: it has no value`,
      );
    events.span('trace', start, performance.now());
  }
}

const spentInside = (name: string, aval: Aval, place: Source | undefined): string =>
  `this ${aval} was made${place ? ` at ${place}` : ''}, inside ${name}, and not returned from it: its value is gone. Return it`;

function describeTrace(scope: StepScope, args: Arguments, result: unknown): Trace {
  const { name, born } = scope;
  const touched = scope.touched as unknown as ReadonlyMap<Cell, Touched>; // there are no other cells

  const inside = new Set(scope.made);
  const roots: Expr[] = [];
  const targets: Target[] = [];
  const leave = (expr: Expr, target: Target): number => {
    roots.push(expr);
    return targets.push(target) - 1;
  };
  const isOwn = (t: Tensor) => inside.has(t) || args.tensors.has(t);
  /** Gradients are replaced by new tensors in each step. */
  const gradients = new Set([...scope.grads.values()].map(({ before }) => before));
  /** Step closures see the values that this step left, not those of later steps. */
  const isChanged = (t: Tensor) => touched.has(t.cell) && t.cell.peek() !== touched.get(t.cell)!.inside;
  const handOut = (flat: Flat<Tensor>, kind: 'result' | 'closure') =>
    flat.leaves.map((t, index) =>
      isOwn(t) || gradients.has(t) || (kind === 'closure' && isChanged(t)) ? leave(t.expr, { kind, index }) : t,
    );

  const returned = tensorsOf(`what ${name} returns`, result);
  const leaves = handOut(returned, 'result');
  const closures = scope.closures.map(({ fn, args: given }) => {
    const flat = tensorsOf('the arguments of afterStep', given);
    return { fn, args: flat, leaves: handOut(flat, 'closure') };
  });
  // Cells of arguments and gradients, which may be other tensors at the next call.
  const gradOf = new Map<Cell, Tensor>();
  for (const [tensor, { before, read }] of scope.grads) if (before && read) gradOf.set(before.cell, tensor);
  const slotFor = (cell: Cell): Slot => {
    const index = args.cells.get(cell);
    const owner = gradOf.get(cell);
    if (index !== undefined) return { kind: 'argument', index };
    return owner ? { kind: 'grad', owner: args.tensors.get(owner) ?? owner } : { kind: 'cell', cell };
  };

  const slotOf = new Map<Expr, Slot>();
  const reached = new Map<Cell, Reached>();
  const successor = new Map<Expr, number>(); // the result that replaces an input
  for (const [cell, { before, inside: given }] of touched) {
    if (before.serial >= born) continue; // of a tensor made inside
    slotOf.set(given, slotFor(cell));
    const now = cell.peek();
    if (!args.cells.has(cell) && !gradOf.has(cell))
      reached.set(cell, { changed: now !== given, aval: before.aval, differentiable: before.differentiable });
    if (now === given) continue;
    const owner = isVariable(now) ? (variables.get(now) ?? null) : null;
    successor.set(given, leave(now, { kind: 'place', slot: slotFor(cell), owner, variable: isVariable(now) }));
  }
  const cleared: (Tensor | number)[] = [];
  for (const [tensor, { before }] of scope.grads) {
    const { grad } = tensor;
    if (inside.has(tensor) || grad === before) continue;
    const of = args.tensors.get(tensor) ?? tensor;
    if (!grad) cleared.push(of);
    else {
      const index = leave(grad.expr, { kind: 'grad', of });
      const given = before && touched.get(before.cell)?.inside;
      if (given) successor.set(given, index);
    }
  }

  scope.conditions.set(hooksVersion, { read: hooksVersion, value: hooksVersion() }); // as the function leaves them
  scope.members.settle();
  const isGiven = (e: Expr): boolean => slotOf.has(e) || e.serial < born || hasValue(e);
  const graph = collect(roots, isGiven);
  const parameters = graph.nodes.filter(isGiven);
  const slots = parameters.map((node): Slot => slotOf.get(node) ?? { kind: 'node', node });
  const aliases = parameters.map((node) => successor.get(node) ?? -1);
  const names = slots.map((slot, i) => nameOf(slot, args, touched, parameters[i]!));
  const guards = [...scope.grads].flatMap(([owner, { before, read }]) =>
    read && !isOwn(owner) ? [{ owner, aval: before?.aval }] : [],
  );
  return {
    computation: { graph, parameters, labels: labelsOf(names), aliases, isGiven, meshes: meshesOf(graph, isGiven) },
    slots,
    targets,
    returned,
    leaves,
    cleared,
    guards,
    conditions: scope.conditions,
    members: scope.members,
    closures,
    reached,
    recorded: recordsCalls(),
    checks: 0,
    program: undefined,
  };
}

/** At module level: programs keep this closure, which must not hold the values of the trace. */
const labelsOf = (names: readonly (string | Source | undefined)[]) => (): string[] =>
  names.map((x) => (typeof x === 'string' ? x : x ? `the tensor made at ${x}` : 'a tensor from outside'));

/** An input in the user's words: its name, or where it was made. */
function nameOf(
  slot: Slot,
  { names }: Arguments,
  touched: ReadonlyMap<Cell, Touched>,
  node: Expr,
): string | Source | undefined {
  if (slot.kind === 'argument') return names[slot.index]!;
  if (slot.kind === 'grad') return 'a gradient';
  return slot.kind === 'cell' ? (slot.cell.name ?? touched.get(slot.cell)!.before.source) : node.source;
}

/** One of a program's inputs, in the user's terms. */
export interface ProgramInput {
  readonly label: string;
  /** weights: trained or only read. state: other tensors the program changes. batch: arguments of the call. */
  readonly kind: 'weights' | 'state' | 'batch';
  readonly dtype: DType;
  /** The shape of the part on one device. */
  readonly shape: Shape;
  /** Its current value; null for arguments of the call. */
  readonly value: Expr | null;
}
/** `names`: names of the outside tensors that the function uses. */
export function inputsOf(
  { computation, slots, reached }: Trace,
  names: ReadonlyMap<Cell, string>,
  layout: Layout | undefined,
): ProgramInput[] {
  const labels = computation.labels();
  return slots.map((slot, i) => {
    const cell = slot.kind === 'cell' ? slot.cell : undefined;
    const { changed = false, differentiable = false } = (cell && reached.get(cell)) ?? {};
    const kind =
      slot.kind === 'argument' ? 'batch' : slot.kind === 'grad' || (changed && !differentiable) ? 'state' : 'weights';
    const { dtype, shape } = computation.parameters[i]!.aval;
    const value = cell?.expr ?? (slot.kind === 'node' ? slot.node : null);
    return {
      value,
      label: (cell && names.get(cell)) ?? labels[i]!,
      kind,
      dtype,
      shape: layout ? layout.parameters[i]!.shardShape(shape) : shape,
    };
  });
}

/** Whether a trace is still valid: the gradients it read exist (or not) as before; tensors, modes and modules are the same. */
export function isStill(t: Trace): boolean {
  for (const [cell, was] of t.reached) {
    const now = cell.peek();
    if (now.differentiable !== was.differentiable || now.aval !== was.aval) return false;
  }
  for (const { read, value } of t.conditions.values()) if (read() !== value) return false;
  if (!t.members.isStill()) return false;
  return t.guards.every(({ owner, aval }) => owner.grad?.aval === aval);
}

/** Whether a trace can never be valid again, since a module has another tensor or module now: it must not keep the old one. */
export const isLost = (t: Trace): boolean => !t.members.isStill() && t.members.lost;

/** How two traces of a function with the same program differ: in the tensors they use, or in what they return. */
export function otherUse(a: Trace, b: Trace): { readonly what: string; readonly fix: string } | undefined {
  const i = a.slots.findIndex((slot, k) => !sameSlot(slot, b.slots[k]!));
  if (i >= 0) {
    const [was, now] = [a, b].map(({ computation }) => computation.labels()[i]);
    return { what: `it uses ${now}, and used ${was}`, fix: REFERRED };
  }
  const places = (t: Trace) => t.targets.map((x) => ('slot' in x ? x.slot : undefined));
  const [before, after] = [places(a), places(b)];
  if (before.some((slot, k) => slot && !(after[k] && sameSlot(slot, after[k]))))
    return { what: 'it changes other tensors', fix: REFERRED };
  if (a.returned.form !== b.returned.form) return { what: 'what it returns has another form', fix: WAY };
  // A gradient that does not exist is cleared by neither.
  const isOther =
    b.cleared.some((x) => !a.cleared.includes(x)) ||
    a.cleared.some((x) => x instanceof Tensor && x.grad && !b.cleared.includes(x));
  return isOther ? { what: 'it clears other gradients', fix: WAY } : undefined;
}
const REFERRED =
  'which tensor a variable refers to is fixed when the function is traced: pass the tensor as an argument, or change it in place: w.copy_(value)';
const WAY = 'the code took another branch: let it depend on arguments only (strings, booleans, staticArguments)';

function sameSlot(a: Slot, b: Slot): boolean {
  if (a.kind === 'cell') return b.kind === 'cell' && a.cell === b.cell;
  if (a.kind === 'grad') return b.kind === 'grad' && a.owner === b.owner;
  if (a.kind === 'argument') return b.kind === 'argument' && a.index === b.index;
  if (b.kind !== 'node') return false;
  if (!isInput(a.node) || !isInput(b.node)) return a.node === b.node || nodeValue(a.node) === nodeValue(b.node);
  const [x, y] = [hostValue(a.node), hostValue(b.node)]; // of a tensor made inside from host values
  return x === undefined || y === undefined || String(x) === String(y); // large ones are not compared
}

/** Throws for a tensor that is an argument, is also used from outside, and is changed: the trace has two tensors for it. */
export function checkOverlap(name: string, t: Trace, values: readonly Value[]): void {
  values.forEach((value, i) => {
    const reached = value instanceof Tensor && t.reached.get(value.cell);
    if (!reached) return;
    const changed = t.targets.some((x) => x.kind === 'place' && x.slot.kind === 'argument' && x.slot.index === i);
    if (changed || reached.changed || reached.differentiable)
      throw new ArgumentError(
        `${name}: the argument ${avalOf(value)} is also captured from outside, and changed in place or differentiated: use either the argument or the captured tensor`,
      );
  });
}

// ---- arguments

/** The arguments of a compiled function while it is traced: placeholder tensors for those of each call. */
export interface Arguments {
  readonly inside: readonly unknown[];
  readonly names: readonly string[];
  readonly cells: ReadonlyMap<Cell, number>;
  readonly tensors: ReadonlyMap<Tensor, number>;
}
export const NONE: Arguments = { inside: [], names: [], cells: new Map(), tensors: new Map() };

/** Arguments that are inputs of the program; strings and booleans are part of it. */
export type Value = Tensor | number | bigint;
const isValue = (x: unknown): x is Value => x instanceof Tensor || typeof x === 'number' || typeof x === 'bigint';
const isLeaf = (x: unknown): x is Value | string | boolean | Fixed =>
  isValue(x) || typeof x === 'string' || typeof x === 'boolean' || x instanceof Fixed;
const KINDS = 'a tensor, a number, a string or a boolean, or nested arrays and objects of those';
/** An argument that the user declared to be part of the program. */
class Fixed {
  constructor(readonly value: unknown) {}
  /** The part of the signature for this value; objects count by identity. */
  toString(): string {
    const { value } = this;
    if (typeof value === 'string') return JSON.stringify(value);
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null)
      return `${typeof value} ${Object.is(value, -0) ? '-0' : String(value)}`;
    if (!identities.has(value)) identities.set(value, objects++);
    return `object ${identities.get(value)}`;
  }
}
const identities = new WeakMap<object, number>();
let objects = 0;

export interface Given {
  readonly flat: Flat<unknown>;
  readonly values: readonly Value[];
  /** Calls with equal signatures run the same program, as far as the arguments decide it. */
  readonly signature: string;
}
export function readArguments(name: string, args: readonly unknown[], fixed: readonly number[]): Given {
  const marked = fixed.length ? args.map((arg, i) => (fixed.includes(i) ? new Fixed(arg) : arg)) : args;
  const flat = flatten(`${name}: the arguments`, marked, isLeaf, KINDS);
  const place = new Map<Tensor, number>(); // a tensor passed twice is one input
  let signature = `${gradEnabled() ? '' : 'noGrad '}${autocastDType() ?? ''} ${precisionKey()} ${flat.form}`;
  flat.leaves.forEach((x, i) => {
    if (x instanceof Tensor) {
      if (x.requiresGrad && !x.isLeaf)
        throw new ArgumentError(
          `${name}: argument ${flat.paths[i]} is ${x.aval}, computed from variables, and gradients do not pass into a ` +
            'compiled function: detach() it, or compute it inside',
        );
      const first = place.get(x);
      signature +=
        first === undefined
          ? `${x.aval.id}${x.requiresGrad ? '*' : ''}${x.grad ? `+${x.grad.aval.id}` : ''}${sharded(x)};`
          : `=${first};`;
      if (first === undefined) place.set(x, i);
    } else signature += isValue(x) ? `${typeof x};` : `${x instanceof Fixed ? x : JSON.stringify(x)};`;
  });
  return { flat, values: flat.leaves.filter(isValue), signature };
}

/** The sharding of an argument, for the signature: code may branch on it. */
const sharded = (x: Tensor): string => {
  const expr = x.peek();
  const sharding = expr && recordOf(expr).sharding;
  return sharding ? `@${sharding.id}` : '';
};

/** A number is an f32 whatever its value: another number is the same program. */
export const avalOf = (x: Value): Aval =>
  x instanceof Tensor ? x.aval : Aval.of(typeof x === 'bigint' ? 'i64' : 'f32', []);

export function standIns({ flat, values }: Given): Arguments {
  const paths = flat.paths.filter((_, i) => isValue(flat.leaves[i]));
  const made = new Map<Tensor, Tensor>();
  const given = values.map((value) => {
    const same = value instanceof Tensor && made.get(value);
    if (same) return same;
    const variable = value instanceof Tensor && value.requiresGrad;
    const node = input(avalOf(value), variable);
    if (value instanceof Tensor) ownRecord(node).sharding = recordOf(value.peek()!).sharding;
    const t = new Tensor(node);
    if (variable) variables.set(node, t);
    if (value instanceof Tensor) {
      made.set(value, t);
      if (value.grad) t.grad = new Tensor(input(value.grad.aval)); // a placeholder for the argument's gradient
    }
    return t;
  });
  let next = 0;
  const stand = (x: unknown) => (isValue(x) ? given[next++] : x instanceof Fixed ? x.value : x);
  return {
    inside: flat.rebuild(flat.leaves.map(stand)) as unknown[],
    names: paths.map((path) => `argument ${path}`),
    cells: new Map(given.map((t, i) => [t.cell, i])),
    tensors: new Map(given.map((t, i) => [t, i])),
  };
}
