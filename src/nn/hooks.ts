// Hooks of modules: functions around forward, and on the gradients of what it takes and gives. A module without hooks has the
// forward of its class; with the first hook it gets one of its own.
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { type Handle, HookList } from '../ir/hooks.js';
import { entry } from '../ir/source.js';
import { checkHook, type Nothing, watch } from '../tensor/hooks.js';
import { Tensor } from '../tensor/tensor.js';
import { callUser } from '../tensor/trees.js';
import type { Module } from './module.js';

export interface HookOptions {
  /** Whether to call it before the existing hooks. Default: false. */
  readonly prepend?: boolean;
}
type Gradients = readonly (Tensor | null)[];
/** Gets the list of arguments of forward. Returns others to replace them, or nothing. */
export type ForwardPreHook<M extends Module> = (
  module: M,
  args: Parameters<M['forward']>,
) => readonly unknown[] | Parameters<M['forward']>[0] | Nothing;
/** Gets arguments and result. Returns another result, or nothing. */
export type ForwardHook<M extends Module> = (
  module: M,
  args: Parameters<M['forward']>,
  output: ReturnType<M['forward']>,
) => ReturnType<M['forward']> | Nothing;
/** Gets the gradients of the results. Returns others, or nothing. */
export type BackwardPreHook<M extends Module> = (module: M, gradOutput: Gradients) => Gradients | Tensor | Nothing;
/** Gets the gradients of the arguments and of the results. Returns others for the arguments, or nothing. */
export type BackwardHook<M extends Module> = (
  module: M,
  gradInput: Gradients,
  gradOutput: Gradients,
) => Gradients | Tensor | Nothing;

type Any = (...args: never[]) => unknown;
const KINDS = ['forwardPre', 'forward', 'backwardPre', 'backward'] as const;
type Kind = (typeof KINDS)[number];
type Hooks = Record<Kind, HookList<Any>>;
const hooksOf = new WeakMap<Module, Hooks>();
/** The forward that a module with hooks has. */
const installed = new WeakMap<Module, Any>();

const isEmpty = (hooks: Hooks | undefined): boolean => !hooks || KINDS.every((kind) => !hooks[kind].size);
/** Whether a module has hooks. */
export const hasHooks = (module: Module): boolean => !isEmpty(hooksOf.get(module));

export function addHook(what: string, module: Module, kind: Kind, hook: Any, prepend = false): Handle {
  checkHook(what, hook);
  const hooks =
    hooksOf.get(module) ?? (Object.fromEntries(KINDS.map((k) => [k, new HookList<Any>(true)])) as unknown as Hooks);
  hooksOf.set(module, hooks);
  if (isEmpty(hooks)) install(module, hooks);
  return hooks[kind].add(hook, prepend, () => isEmpty(hooks) && uninstall(module));
}
/** A copy of a module has its hooks. */
export function copyModuleHooks(from: Module, to: Module): void {
  const hooks = hooksOf.get(from);
  if (hooks) for (const kind of KINDS) for (const hook of hooks[kind]) addHook('clone', to, kind, hook);
}
/** When the code of one layer runs for several, hooks of the others would not run. */
export function refuseHooks(what: string, modules: Iterable<Module>): void {
  for (const layer of modules)
    for (const [name, module] of layer.namedModules())
      if (hasHooks(module))
        throw new ArgumentError(
          `${what}: ${name || module.constructor.name} of a layer has hooks, but the code of one layer runs for all: remove them, or run the layers one by one`,
        );
}

/** The forward that a user has assigned to a module, without its hooks. One assigned by the library is not returned. */
export function ownForward(module: Module): Any | undefined {
  const { value, enumerable } = Object.getOwnPropertyDescriptor(module, 'forward') ?? {};
  if (value && value === installed.get(module)) return owned.get(value);
  return enumerable ? (value as Any) : undefined;
}
/** Assigns a forward to a module; its hooks stay around it. */
export function putForward(module: Module, forward: Any): void {
  const isHooked = installed.delete(module);
  setOwn(module, forward);
  if (isHooked) install(module, hooksOf.get(module)!);
}

const setOwn = (module: Module, forward: Any): void =>
  void Object.defineProperty(module, 'forward', {
    value: forward,
    configurable: true,
    writable: true,
    enumerable: true,
  });

function install(module: Module, hooks: Hooks): void {
  if (installed.has(module)) return; // one that something else has wrapped
  const own = Object.getOwnPropertyDescriptor(module, 'forward')?.value as Any | undefined;
  const forward = entry((...args: unknown[]): unknown => {
    const inner = own ?? (Object.getPrototypeOf(module) as Module).forward;
    return run(
      module,
      hooks,
      (given) => callUser(module.constructor.name, inner.bind(module) as Any, ...(given as never[])),
      args,
    );
  });
  Object.defineProperty(module, 'forward', { value: forward, configurable: true, writable: true });
  if (own) owned.set(forward, own);
  installed.set(module, forward);
}
const owned = new WeakMap<Any, Any>();
function uninstall(module: Module): void {
  const forward = installed.get(module)!;
  if (Object.getOwnPropertyDescriptor(module, 'forward')?.value !== forward) return; // wrapped since: it passes on
  installed.delete(module);
  const own = owned.get(forward);
  if (own) setOwn(module, own);
  else delete (module as { forward?: unknown }).forward;
}

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
const asList = (x: unknown): unknown[] => (Array.isArray(x) ? x : [x]);

function run(module: Module, hooks: Hooks, forward: (args: readonly unknown[]) => unknown, args: unknown[]): unknown {
  const name = module.constructor.name;
  const call = (what: string, hook: Any, ...given: unknown[]) =>
    callUser(`${name}: ${what}`, hook as (...args: unknown[]) => unknown, module, ...given);
  let given = args;
  for (const hook of hooks.forwardPre) {
    const now = call('a forward pre-hook', hook, given);
    if (now !== undefined) given = asList(now);
  }
  const watchesGradients = hooks.backwardPre.size + hooks.backward.size > 0;
  const backward = watchesGradients ? new Backward(name, hooks, call) : undefined;
  if (backward) given = backward.inputs(given);
  let output = forward(given);
  for (const hook of hooks.forward) {
    const now = call('a forward hook', hook, given, output);
    if (now !== undefined) output = now;
  }
  return backward ? backward.outputs(output) : output;
}

/** The gradients of one call: of its results, which come first, and of its arguments. */
class Backward {
  #gradOutput: Gradients = [];
  #reachesInputs = false;
  constructor(
    readonly name: string,
    readonly hooks: Hooks,
    readonly call: (what: string, hook: Any, ...given: unknown[]) => unknown,
  ) {}
  inputs(args: readonly unknown[]): unknown[] {
    this.#reachesInputs = args.some((x) => isTensor(x) && x.requiresGrad);
    return this.#watch(args, (gs) => this.#backward(gs));
  }
  outputs(output: unknown): unknown {
    const many = Array.isArray(output);
    const list: readonly unknown[] = many ? output : [output];
    const now = this.#watch(list, (gs) => {
      let found = gs;
      for (const hook of this.hooks.backwardPre)
        found = this.#replaced('a backward pre-hook', found, this.call('a backward pre-hook', hook, found));
      this.#gradOutput = found;
      // Nothing comes back to arguments that want no gradient: the hooks see that of the results.
      if (!this.#reachesInputs) this.#backward([]);
      return found === gs ? undefined : found;
    });
    return many ? now : now[0];
  }
  #backward(gradInput: Gradients): Gradients | undefined {
    let found = gradInput;
    for (const hook of this.hooks.backward)
      found = this.#replaced('a backward hook', found, this.call('a backward hook', hook, found, this.#gradOutput));
    return found === gradInput ? undefined : found;
  }
  #replaced(what: string, was: Gradients, now: unknown): Gradients {
    if (now === undefined) return was;
    const list = asList(now);
    if (list.length !== was.length || list.some((g) => g !== null && !isTensor(g)))
      throw new ArgumentError(
        `${this.name}: ${what} returned ${describe(now)}: it must return ${was.length} gradients (tensors or null), or nothing`,
      );
    return list as Gradients;
  }
  /** The list, where its tensors go by way of one node. Places of what is no tensor have the gradient null. */
  #watch(list: readonly unknown[], hook: (gs: Gradients) => Gradients | undefined): unknown[] {
    const places = list.flatMap((x, i) => (isTensor(x) ? [i] : []));
    const seen = watch(
      this.name,
      places.map((i) => list[i] as Tensor),
      (gs) => {
        const now = hook(list.map((_, i) => (places.includes(i) ? gs[places.indexOf(i)]! : null)));
        return now && places.map((i) => now[i] ?? null);
      },
    );
    return list.map((x, i) => (places.includes(i) ? seen[places.indexOf(i)] : x));
  }
}
