// Tracing a step: the function is called once, on stand-ins, to see what it computes, what it needs and what it leaves.
import { gradEnabled } from '../autograd/mode.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { type Flat, flatten } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { inScope, type Touched } from '../ir/scope.js';
import { recordsCalls, type Source } from '../ir/source.js';
import { meshesOf } from '../ops/prim/body.js';
import { input, isVariable } from '../ops/prim/variable.js';
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
  /** For each leaf of that: the number of the target, or the tensor itself where it comes from outside. */
  readonly leaves: readonly (Tensor | number)[];
  /** Gradients that it set to null. */
  readonly cleared: readonly (Tensor | number)[];
  /** Gradients that it read: whether they were there decides which program it is. */
  readonly guards: readonly { readonly owner: Tensor; readonly aval: Aval | undefined }[];
  /** What else it depends on. */
  readonly conditions: StepScope['conditions'];
  readonly closures: readonly {
    readonly fn: Closure['fn'];
    readonly args: Flat<Tensor>;
    readonly leaves: readonly (Tensor | number)[];
  }[];
  /** The cells that it reaches from outside: whether it changes them, what they were, and whether they wanted gradients. */
  readonly reached: ReadonlyMap<Cell, Reached>;
  /** Whether its nodes know the modules and the gradients they belong to. */
  readonly recorded: boolean;
  program: Program | undefined;
}

interface Reached {
  readonly changed: boolean;
  readonly aval: Aval;
  readonly differentiable: boolean;
}

// ---- tracing

/** Runs the function on these arguments to see what it computes. Whatever happens, all tensors are as they were before. */
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
    scope.touched.clear(); // what is remembered of the trace, down to its frames, must not keep these values
    for (const [tensor, { before, put }] of scope.grads) tensor.restoreGrad(before, put);
    for (const t of scope.made) t.spend((aval, place) => spentInside(name, aval, place));
    for (const t of args.tensors.keys())
      t.spend(
        (aval) => `this ${aval} stood for an argument of ${name} while it was traced: it has no value of its own`,
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
  /** A gradient is another tensor after each step. */
  const gradients = new Set([...scope.grads.values()].map(({ before }) => before));
  /** What is done after the step sees what the step left, whatever a later one does. */
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
  // Cells that stand for something which may be another one at the next call: an argument, a gradient.
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
  const successor = new Map<Expr, number>(); // the result that takes an input's place
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
    closures,
    reached,
    recorded: recordsCalls(),
    program: undefined,
  };
}

/** By itself: programs keep it, and must not keep the values that were there when they were traced. */
const labelsOf = (names: readonly (string | Source | undefined)[]) => (): string[] =>
  names.map((x) => (typeof x === 'string' ? x : x ? `the tensor made at ${x}` : 'a tensor from outside'));

/** What an input is to the user: its name, or where it was made. */
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

/** One of a program's inputs, as the user knows it. */
export interface ProgramInput {
  readonly label: string;
  /** What is learned or only read; what the program changes beside that; what each call brings. */
  readonly kind: 'weights' | 'state' | 'batch';
  readonly dtype: DType;
  /** Of what one device holds. */
  readonly shape: Shape;
}
/** `names`: of tensors that the function reaches from outside. */
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
    return {
      label: (cell && names.get(cell)) ?? labels[i]!,
      kind,
      dtype,
      shape: layout ? layout.parameters[i]!.shardShape(shape) : shape,
    };
  });
}

/** Whether a trace is still right: gradients it read are there, or not, as they were; tensors and modes are what they were. */
export function isStill(t: Trace): boolean {
  for (const [cell, was] of t.reached) {
    const now = cell.peek();
    if (now.differentiable !== was.differentiable || now.aval !== was.aval) return false;
  }
  for (const { read, value } of t.conditions.values()) if (read() !== value) return false;
  return t.guards.every(({ owner, aval }) => owner.grad?.aval === aval);
}

/** Where two traces of a function differ though they are the same program: in the tensors they use, or what they return. */
export function otherUse(a: Trace, b: Trace): string | undefined {
  const [was, now] = [a.computation.labels(), b.computation.labels()];
  const i = a.slots.findIndex((slot, k) => !sameSlot(slot, b.slots[k]!));
  if (i >= 0) return `it uses ${now[i]}, and used ${was[i]}`;
  const places = (t: Trace) => t.targets.map((x) => ('slot' in x ? x.slot : undefined));
  const [before, after] = [places(a), places(b)];
  if (before.some((slot, k) => slot && !(after[k] && sameSlot(slot, after[k])))) return 'it changes other tensors';
  if (a.returned.form !== b.returned.form) return 'what it returns has another form';
  return String(a.cleared.length) === String(b.cleared.length) ? undefined : 'it clears other gradients';
}
function sameSlot(a: Slot, b: Slot): boolean {
  if (a.kind === 'cell') return b.kind === 'cell' && a.cell === b.cell;
  if (a.kind === 'grad') return b.kind === 'grad' && a.owner === b.owner;
  if (a.kind === 'argument') return b.kind === 'argument' && a.index === b.index;
  if (b.kind !== 'node') return false;
  const [x, y] = [hostValue(a.node), hostValue(b.node)]; // of a tensor made inside from values of the host's
  return nodeValue(a.node) === nodeValue(b.node) || (x !== undefined && y !== undefined && String(x) === String(y));
}

/** A tensor that is an argument, is also reached from outside, and is changed: it would be two. */
export function checkOverlap(name: string, t: Trace, values: readonly Value[]): void {
  values.forEach((value, i) => {
    const reached = value instanceof Tensor && t.reached.get(value.cell);
    if (!reached) return;
    const changed = t.targets.some((x) => x.kind === 'place' && x.slot.kind === 'argument' && x.slot.index === i);
    if (changed || reached.changed || reached.differentiable)
      throw new ArgumentError(
        `${name}: the argument ${avalOf(value)} is also reached from outside, and changed in place or differentiated: use it in one way`,
      );
  });
}

// ---- arguments

/** The arguments of a compiled function while it is traced: tensors that stand for what each call brings. */
export interface Arguments {
  readonly inside: readonly unknown[];
  readonly names: readonly string[];
  readonly cells: ReadonlyMap<Cell, number>;
  readonly tensors: ReadonlyMap<Tensor, number>;
}
export const NONE: Arguments = { inside: [], names: [], cells: new Map(), tensors: new Map() };

/** What differs from call to call; strings and booleans are part of the program. */
export type Value = Tensor | number | bigint;
const isValue = (x: unknown): x is Value => x instanceof Tensor || typeof x === 'number' || typeof x === 'bigint';
const isLeaf = (x: unknown): x is Value | string | boolean | Fixed =>
  isValue(x) || typeof x === 'string' || typeof x === 'boolean' || x instanceof Fixed;
const KINDS = 'a tensor, a number, a string or a boolean, or nested arrays and objects of those';
/** An argument that the user declared to be part of the program. */
class Fixed {
  constructor(readonly value: unknown) {}
  /** Objects are told apart by identity. */
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
  /** Calls with equal ones are the same program, as far as the arguments tell. */
  readonly signature: string;
}
export function readArguments(name: string, args: readonly unknown[], fixed: readonly number[]): Given {
  const marked = fixed.length ? args.map((arg, i) => (fixed.includes(i) ? new Fixed(arg) : arg)) : args;
  const flat = flatten(`${name}: the arguments`, marked, isLeaf, KINDS);
  const place = new Map<Tensor, number>(); // the same tensor twice is one
  let signature = `${gradEnabled() ? '' : 'noGrad '}${autocastDType() ?? ''} ${flat.form}`;
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

/** How an argument is split over devices may decide what is done with it. */
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
      if (value.grad) t.grad = new Tensor(input(value.grad.aval)); // it stands for the argument's
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
