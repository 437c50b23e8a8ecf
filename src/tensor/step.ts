// Steps: a function that describes what is computed, run as one program. What lives after it is what it returns, every
// outside tensor it changed, and the gradients that are still set; all else made inside is spent.
import { env } from '../base/env.js';
import { ArgumentError, StepFailedError, TooManyGraphsError } from '../base/errors.js';
import { describe, type Flat, flatten } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import { Cell } from '../ir/cell.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { captureSource, type Source, withSource } from '../ir/source.js';
import { input, isVariable } from '../ops/variable.js';
import { Buffer, type CompileOptions } from '../pjrt/index.js';
import { evaluateNow } from '../runtime/evaluate.js';
import { differenceOf, nearestOf } from '../runtime/explain.js';
import { withRelief } from '../runtime/memory.js';
import { record } from '../runtime/metrics.js';
import { type Described, describePlan, type Plan, type Program, programFor, type Request } from '../runtime/program.js';
import { inTurn, roomToRun, started } from '../runtime/turn.js';
import { defaultClient, fail, freeValue, hasValue, withBuffers } from '../runtime/value.js';
import { endOfStep } from './closures.js';
import { currentRegion, type Region, within } from './region.js';
import { Tensor, variables } from './tensor.js';
import { callUser, tensorsOf } from './trees.js';

export interface StepOptions {
  /** What it is called in explanations, metrics and dumps; the function's own name unless told. */
  readonly name?: string;
  /** How many different programs it may become; one more is an error that says what differs. */
  readonly maxGraphs?: number;
  /** The longest time to wait for a compile. After it, an error; the compile goes on, and a later call finds its result. */
  readonly compilationTimeoutSeconds?: number;
  /** XLA's flags for this program alone. */
  readonly xlaFlags?: CompileOptions['xlaFlags'];
}

/** Where a program finds one of its inputs at each call. */
type Slot =
  | { readonly kind: 'cell'; readonly cell: Cell }
  | { readonly kind: 'argument'; readonly index: number }
  | { readonly kind: 'grad'; readonly owner: Tensor }
  | { readonly kind: 'node'; readonly node: Expr };

/** Where one of its results goes. */
type Target =
  | { readonly kind: 'result'; readonly index: number }
  | { readonly kind: 'cell'; readonly cell: Cell; readonly owner: Tensor | undefined }
  | { readonly kind: 'argument'; readonly index: number; readonly variable: boolean }
  | { readonly kind: 'grad'; readonly of: Tensor | number }
  | { readonly kind: 'closure'; readonly index: number };

/** A function, traced: the program, where its inputs come from, and where its results go. */
interface Trace {
  readonly plan: Plan;
  readonly slots: readonly Slot[];
  readonly targets: readonly Target[];
  /** What the function returned: tensors made inside it, or others. */
  readonly returned: Flat<Tensor>;
  /** For each leaf of that: the number of the target, or the tensor itself where it comes from outside. */
  readonly leaves: readonly (Tensor | number)[];
  /** Gradients that it set to null. */
  readonly cleared: readonly Tensor[];
  /** Gradients that it read: whether they were there decides which program it is. */
  readonly guards: readonly { readonly owner: Tensor; readonly set: boolean }[];
  readonly closures: readonly {
    readonly fn: (...args: never[]) => unknown;
    readonly args: Flat<Tensor>;
    readonly leaves: readonly (Tensor | number)[];
  }[];
  program: Program | undefined;
}

// ---- tracing

/** Runs the function on these arguments to see what it computes. Whatever happens, all tensors are as they were before. */
function trace(name: string, fn: (...args: never[]) => unknown, args: Arguments, source: Source | undefined): Trace {
  const start = performance.now();
  const region: Region = { name, source, born: nodeCount(), made: [], grads: new Map(), closures: [] };
  const touched = new Map<Cell, { readonly before: Expr; readonly inside: Expr }>();
  const enter = (_: Cell, before: Expr): Expr => {
    if (before.differentiable && !isVariable(before)) return before; // the way of gradients leads on outside
    const inside = input(before.aval, before.differentiable);
    const owner = variables.get(before);
    if (owner) variables.set(inside, owner);
    return inside;
  };
  try {
    return within(region, () =>
      Cell.watched(
        { touched, enter },
        () => callUser(name, fn, ...(args.inside as never[])),
        (result) => describeTrace(region, touched, args, result),
      ),
    );
  } finally {
    for (const [tensor, { before }] of region.grads) tensor.grad = before;
    for (const t of region.made) t.spend((aval, place) => spentInside(name, aval, place));
    record('LazyTracing', (performance.now() - start) * 1e6);
  }
}

const spentInside = (name: string, aval: Aval, place: Source | undefined): string =>
  `this ${aval} was made${place ? ` at ${place}` : ''}, inside ${name}, and not returned from it: its value is gone. Return it`;

function describeTrace(
  region: Region,
  touched: ReadonlyMap<Cell, { readonly before: Expr; readonly inside: Expr }>,
  args: Arguments,
  result: unknown,
): Trace {
  const { name, born } = region;
  const inside = new Set(region.made);
  const roots: Expr[] = [];
  const targets: Target[] = [];
  const leave = (expr: Expr, target: Target): number => {
    roots.push(expr);
    return targets.push(target) - 1;
  };
  const isOwn = (t: Tensor) => inside.has(t) || args.tensors.has(t);
  const handOut = (flat: Flat<Tensor>, kind: 'result' | 'closure') =>
    flat.leaves.map((t, index) => (isOwn(t) ? leave(t.expr, { kind, index }) : t));

  const returned = tensorsOf(`what ${name} returns`, result);
  const leaves = handOut(returned, 'result');
  const closures = region.closures.map(({ fn, args: given }) => {
    const flat = tensorsOf('the arguments of afterStep', given);
    return { fn, args: flat, leaves: handOut(flat, 'closure') };
  });
  const changed = new Map<Cell, number>();
  for (const [cell, { inside: was }] of touched) {
    const now = cell.peek();
    if (now === was) continue;
    const owner = isVariable(now) ? variables.get(now) : undefined;
    const index = args.cells.get(cell);
    const target: Target =
      index === undefined ? { kind: 'cell', cell, owner } : { kind: 'argument', index, variable: isVariable(now) };
    changed.set(cell, leave(now, target));
  }
  const gradCells = new Map<Cell, Tensor>(); // of the gradients that were there before
  const grads = new Map<Tensor, number>();
  const cleared: Tensor[] = [];
  for (const [tensor, { before }] of region.grads) {
    if (inside.has(tensor)) continue;
    if (before) gradCells.set(before.cell, tensor);
    const { grad } = tensor;
    if (grad === before) continue;
    if (!grad) cleared.push(tensor);
    else grads.set(tensor, leave(grad.expr, { kind: 'grad', of: args.tensors.get(tensor) ?? tensor }));
  }

  const slotOf = new Map<Expr, Slot>();
  for (const [cell, { inside: node }] of touched) {
    const owner = gradCells.get(cell);
    const index = args.cells.get(cell);
    if (owner) slotOf.set(node, { kind: 'grad', owner });
    else slotOf.set(node, index === undefined ? { kind: 'cell', cell } : { kind: 'argument', index });
  }
  const isGiven = (e: Expr): boolean => slotOf.has(e) || e.serial < born || hasValue(e);
  const graph = collect(roots, isGiven);
  const parameters = graph.nodes.filter(isGiven);
  const slots = parameters.map((node): Slot => slotOf.get(node) ?? { kind: 'node', node });
  const cellOf = new Map([...slotOf].map(([node]) => [node, undefined as Cell | undefined]));
  for (const [cell, { inside: node }] of touched) cellOf.set(node, cell);
  // The result that takes an input's place may take its memory, too.
  const aliases = slots.map(
    (slot, i) => (slot.kind === 'grad' ? grads.get(slot.owner) : changed.get(cellOf.get(parameters[i]!)!)) ?? -1,
  );
  const labels = slots.map((slot, i) => labelOf(slot, args, parameters[i]!, touched));
  const guards = [...region.grads].flatMap(([owner, { before, read }]) =>
    read && !inside.has(owner) ? [{ owner, set: before !== null }] : [],
  );
  return {
    plan: { graph, parameters, labels, aliases, isGiven },
    slots,
    targets,
    returned,
    leaves,
    cleared,
    guards,
    closures,
    program: undefined,
  };
}

function labelOf(
  slot: Slot,
  args: Arguments,
  node: Expr,
  touched: ReadonlyMap<Cell, { readonly before: Expr }>,
): string {
  if (slot.kind === 'argument') return args.names[slot.index]!;
  if (slot.kind === 'grad') return 'a gradient';
  if (slot.kind === 'cell' && slot.cell.name) return slot.cell.name;
  const { source } = slot.kind === 'cell' ? touched.get(slot.cell)!.before : node;
  return source ? `the tensor made at ${source}` : 'a tensor from outside';
}

// ---- arguments

/** The arguments of a compiled function while it is traced: tensors that stand for what each call brings. */
interface Arguments {
  readonly inside: readonly unknown[];
  readonly names: readonly string[];
  readonly cells: ReadonlyMap<Cell, number>;
  readonly tensors: ReadonlyMap<Tensor, number>;
}
const NONE: Arguments = { inside: [], names: [], cells: new Map(), tensors: new Map() };

/** What differs from call to call; strings and booleans are part of the program. */
type Value = Tensor | number | bigint;
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
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null)
      return `${typeof value} ${String(value)}`;
    if (!identities.has(value)) identities.set(value, objects++);
    return `object ${identities.get(value)}`;
  }
}
const identities = new WeakMap<object, number>();
let objects = 0;

interface Given {
  readonly flat: Flat<unknown>;
  readonly values: readonly Value[];
  /** Calls with equal ones are the same program, as far as the arguments tell. */
  readonly signature: string;
}
function readArguments(name: string, args: readonly unknown[], fixed: readonly number[]): Given {
  const marked = fixed.length ? args.map((arg, i) => (fixed.includes(i) ? new Fixed(arg) : arg)) : args;
  const flat = flatten(`${name}: the arguments`, marked, isLeaf, KINDS);
  let signature = '';
  flat.leaves.forEach((x, i) => {
    signature += `${flat.paths[i]}:`;
    if (x instanceof Tensor) signature += `${x.aval.id}${x.requiresGrad ? '*' : ''};`;
    else signature += isValue(x) ? `${typeof x};` : `${x instanceof Fixed ? x : JSON.stringify(x)};`;
  });
  return { flat, values: flat.leaves.filter(isValue), signature };
}

/** A number is an f32 whatever its value: another number is the same program. */
const avalOf = (x: Value): Aval => (x instanceof Tensor ? x.aval : Aval.of(typeof x === 'bigint' ? 'i64' : 'f32', []));

function standIns(name: string, { flat, values }: Given): Arguments {
  const paths = flat.paths.filter((_, i) => isValue(flat.leaves[i]));
  const given = values.map((value, i) => {
    const variable = value instanceof Tensor && value.requiresGrad;
    if (variable && !value.isLeaf)
      throw new ArgumentError(
        `${name}: argument ${paths[i]} is ${value.aval}, computed from variables, and gradients do not pass into a ` +
          'compiled function: detach() it, or compute it inside',
      );
    const node = input(avalOf(value), variable);
    const t = new Tensor(node);
    if (variable) variables.set(node, t);
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

// ---- running

/** Runs a traced function: gathers its inputs, starts the program, hands its results out. */
async function run(t: Trace, values: readonly Value[], request: Request, revive: boolean): Promise<unknown> {
  const client = await defaultClient();
  const nodes = t.slots.map((slot) => nodeOf(slot, values));
  const pending = nodes.filter((e) => !hasValue(e));
  if (pending.length)
    await evaluateNow(pending, {
      ...request,
      cause: 'pending',
      name: `${request.name}_clear_pending`,
      onNew: undefined,
    });
  if (!t.program || t.program.dropped) t.program = programFor(client, t.plan, request);
  const { program } = t;
  const executable = program.ready ?? (await program.compiled(request));
  await roomToRun(client);
  const start = () =>
    withBuffers(client, nodes, (buffers) =>
      program.run(executable, buffers, keptOf(t.plan.aliases, nodes, buffers), request),
    );
  const isWhole = () => nodes.every((e) => !(e.value instanceof Buffer && e.value.disposed));
  const { outputs, done } = await withRelief(start, isWhole).catch((error) => {
    throw isWhole() ? error : failureOf(t, request.name!, error);
  });
  done.catch((error) => fail(outputs, failureOf(t, request.name!, error)));
  started(done);
  const { returned, closures } = handOut(t, values, outputs, revive);
  endOfStep(done, closures);
  return returned;
}

/** What went wrong on the device, and what it cost. */
function failureOf({ plan: { aliases, labels, parameters } }: Trace, name: string, cause: Error): StepFailedError {
  const lost = aliases.flatMap((to, i) => (to >= 0 ? [`${parameters[i]!.aval} (${labels[i]})`] : []));
  const what =
    lost.length &&
    `\n    lost with it, since their old values were given up for the new ones: ${lost.slice(0, 5).join(', ')}` +
      `${lost.length > 5 ? ` and ${lost.length - 5} more` : ''}: set them again, or load a checkpoint`;
  return new StepFailedError(`${name} failed on the device: ${cause.message}${what || ''}`, { cause });
}

function nodeOf(slot: Slot, values: readonly Value[]): Expr {
  if (slot.kind === 'cell') return slot.cell.peek();
  if (slot.kind === 'node') return slot.node;
  if (slot.kind === 'grad') return slot.owner.grad!.cell.peek();
  const value = values[slot.index]!;
  if (value instanceof Tensor) return value.cell.peek();
  const node = input(avalOf(value));
  node.value = typeof value === 'bigint' ? BigInt64Array.of(value) : Float32Array.of(value);
  return node;
}

/** Inputs that the program would take over, but that someone else sees: XLA copies them. */
function keptOf(aliases: readonly number[], nodes: readonly Expr[], buffers: readonly Buffer[]): number[] {
  const anyTwice = new Set(buffers).size < buffers.length; // rare: only then it is asked which
  const isTwice = (b: Buffer) => anyTwice && buffers.indexOf(b) !== buffers.lastIndexOf(b);
  const kept: number[] = [];
  aliases.forEach((to, i) => {
    if (to >= 0 && (nodes[i]!.holders > 1 || isTwice(buffers[i]!))) kept.push(i);
  });
  return kept;
}

function handOut(t: Trace, values: readonly Value[], outputs: readonly Buffer[], revive: boolean) {
  const made = (i: number, variable = false): Expr => {
    const { aval, source } = t.plan.graph.roots[i]!;
    const node = withSource(source, () => input(aval, variable));
    node.value = outputs[i];
    return node;
  };
  for (const owner of t.cleared) replaceGrad(owner, null);
  const handed = t.targets.map((target, i): Tensor | undefined => {
    if (target.kind === 'cell') settle(target.cell, made(i, target.owner !== undefined), target.owner);
    else if (target.kind === 'argument') {
      const tensor = values[target.index];
      if (tensor instanceof Tensor) settle(tensor.cell, made(i, target.variable), target.variable ? tensor : undefined);
    } else if (target.kind === 'grad') {
      replaceGrad(typeof target.of === 'number' ? (values[target.of] as Tensor) : target.of, new Tensor(made(i)));
    } else if (revive && target.kind === 'result') {
      const tensor = t.returned.leaves[target.index]!;
      tensor.revive(made(i));
      return tensor;
    } else return new Tensor(made(i));
    return undefined;
  });
  const pick = (leaf: Tensor | number): Tensor => (typeof leaf === 'number' ? handed[leaf]! : leaf);
  return {
    returned: t.returned.rebuild(t.leaves.map(pick)),
    closures: t.closures.map(({ fn, args, leaves }) => ({ fn, args: args.rebuild(leaves.map(pick)) as unknown[] })),
  };
}

/** A cell takes its new value; the memory of the old one goes, unless someone else sees it. */
function settle(cell: Cell, now: Expr, owner: Tensor | undefined): void {
  const was = cell.peek();
  cell.settle(now);
  if (owner) variables.set(now, owner);
  if (was.holders === 0) freeValue(was);
}

/** Gradients that steps made: a later step that drops them frees them. */
const ownGrads = new WeakSet<Tensor>();
function replaceGrad(owner: Tensor, grad: Tensor | null): void {
  const was = owner.grad;
  owner.grad = grad;
  if (grad) ownGrads.add(grad);
  const old = was?.peek();
  if (!old || was === grad || !ownGrads.has(was!)) return;
  was!.spend((aval) => `this ${aval} was a gradient that a later step replaced: clone() it to keep it`);
  if (old.holders === 0) freeValue(old);
}

// ---- the public functions

const nameOf = (fn: (...args: never[]) => unknown, { name }: StepOptions, otherwise: string): string =>
  name ?? (fn.name || otherwise);
const requestOf = (name: string, source: Source | undefined, o: StepOptions, known: Set<Described>): Request => ({
  cause: 'compile',
  name,
  source,
  ...(o.xlaFlags && { compileOptions: { xlaFlags: o.xlaFlags } }),
  compilationTimeoutSeconds: o.compilationTimeoutSeconds ?? (Number(env('TSXLA_COMPILE_TIMEOUT')) || undefined),
  onNew(program) {
    if (o.maxGraphs !== undefined && known.size >= o.maxGraphs) throw tooMany(name, o.maxGraphs, program, [...known]);
    known.add(program);
  },
});

function tooMany(name: string, most: number, program: Described, known: readonly Described[]): TooManyGraphsError {
  const nearest = nearestOf(program, known);
  const difference = nearest && differenceOf(nearest, program);
  const said = difference
    ? `\nGot: ${difference.what}, ${difference.now}\nExpected: ${difference.what}, ${difference.was}` +
      `${difference.at && `\n    at ${difference.at}`}\n    ${difference.fix}`
    : '';
  return new TooManyGraphsError(
    `${name}: Maximum number of different graphs allowed per function exceeded: ${most}${said}`,
  );
}

/** Programs of the steps of each name, for maxGraphs. */
const stepPrograms = new Map<string, Set<Described>>();

/**
 * Runs fn and computes, in one program, what it returns, every tensor it changed in place, and the gradients it leaves. All
 * else made inside is spent. fn only describes: it is called each time, and reads nothing. Resolves when the program was
 * started.
 */
export function step<T>(fn: () => T, options: StepOptions = {}): Promise<T> {
  const name = nameOf(fn, options, 'step');
  if (currentRegion()) return Promise.resolve(callUser(name, fn)); // part of the step around it
  const source = captureSource(step);
  const known = stepPrograms.get(name) ?? new Set();
  stepPrograms.set(name, known);
  return inTurn(async () => {
    const traced = trace(name, fn, NONE, source);
    return run(traced, [], requestOf(name, source, options, known), true) as Promise<T>;
  });
}

export interface CompileFunctionOptions extends StepOptions {
  /** Traces at every call and compares: an error if the function describes something else than when it was traced. */
  readonly check?: boolean;
  /** For people from PyTorch/XLA: nothing can be run inside, so every graph is full. */
  readonly fullGraph?: boolean;
  /** The numbers of arguments that are part of the program: another value is another program. */
  readonly staticArguments?: readonly number[];
}

/** Where fn takes a tensor, the compiled function also takes a number. */
type Lax<T> = T extends Tensor
  ? Tensor | number | bigint
  : T extends readonly unknown[] | object
    ? { [K in keyof T]: Lax<T[K]> }
    : T;
export interface Compiled<A extends unknown[], R> {
  (...args: { [K in keyof A]: Lax<A[K]> }): Promise<R>;
  /** The function itself, to be used inside another step. */
  readonly fn: (...args: A) => R;
  /** How many programs it has become so far. */
  readonly programs: number;
}

/**
 * fn, compiled: it is called once for every kind of arguments (shapes, dtypes, strings, booleans), and later calls only start
 * the program. Numbers are inputs: another number is the same program. Tensors that fn reaches from outside are used, and
 * changed, as they are at each call. Resolves when the program was started.
 */
export function compile<A extends unknown[], R>(
  fn: (...args: A) => R,
  options: CompileFunctionOptions = {},
): Compiled<A, R> {
  if (typeof fn !== 'function') throw new ArgumentError(`compile: takes a function, got ${describe(fn)}`);
  const name = nameOf(fn, options, 'compiled');
  const { check = false, staticArguments = [] } = options;
  const known = new Set<Described>();
  const traces = new Map<string, Trace[]>();
  const find = (given: Given, source: Source | undefined): Trace => {
    const same = traces.get(given.signature) ?? [];
    const found = same.find((t) => t.guards.every(({ owner, set }) => (owner.grad !== null) === set));
    if (found && !check) return found;
    const traced = trace(name, fn, standIns(name, given), source);
    if (found) checkSame(name, found, traced);
    else traces.set(given.signature, [...same, traced]);
    return found ?? traced;
  };
  function compiled(...args: unknown[]): Promise<R> {
    if (currentRegion()) return Promise.resolve(callUser(name, fn, ...(args as A)));
    const source = captureSource(compiled);
    return inTurn(async () => {
      const given = readArguments(name, args, staticArguments);
      return run(find(given, source), given.values, requestOf(name, source, options, known), false) as Promise<R>;
    });
  }
  return Object.defineProperties(compiled, {
    name: { value: name },
    fn: { value: fn },
    programs: { get: () => known.size },
  }) as unknown as Compiled<A, R>;
}

function checkSame(name: string, before: Trace, after: Trace): void {
  const request: Request = { cause: 'compile' };
  const [a, b] = [describePlan(before.plan, request), describePlan(after.plan, request)];
  const difference = differenceOf(a, b);
  if (!difference) return;
  const { what, was, now, at, fix } = difference;
  throw new ArgumentError(
    `${name}: it describes something else than when it was traced: ${what}: was ${was}, now ${now}${at && `\n    at ${at}`}\n    ${fix}`,
  );
}
