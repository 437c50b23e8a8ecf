// Wraps the forward of single modules: changes what a module computes, but not its class, fields or state dict. Removing the
// wrapper restores the module completely.
import type { DType } from '../base/dtype.js';
import { flatten, isPlain } from '../base/tree.js';
import { isMember, type Module, membersMade } from '../nn/module.js';
import { Tensor } from '../tensor/tensor.js';

export type Forward = (...args: unknown[]) => unknown;

type Wrap = (forward: Forward) => Forward;
/** The wrappers of a module's forward, innermost first. */
interface Wrapping {
  /** The module's own `forward` property, if it had one besides its class's method. */
  readonly own: PropertyDescriptor | undefined;
  readonly inner: Forward;
  readonly wraps: { readonly wrap: Wrap }[];
  outer: Forward;
}
const wrappings = new WeakMap<Module, Wrapping>();

let changes = 0;
/** Wraps the forward of one module. Returns a function that removes this wrapper and leaves the others. */
export function wrapForward(module: Module, wrap: Wrap): () => void {
  const known = wrappings.get(module);
  const inner = (module.forward as Forward).bind(module);
  const own = Object.getOwnPropertyDescriptor(module, 'forward');
  const isOurs = known && known.outer === own?.value; // else the user set another forward since, which is wrapped now
  const wrapping = isOurs ? known : { own, inner, wraps: [], outer: inner };
  const layer = { wrap };
  wrapping.wraps.push(layer);
  wrappings.set(module, wrapping);
  put(module, wrapping);
  return () => {
    const at = wrapping.wraps.indexOf(layer);
    if (at < 0) return;
    const isThere = Object.getOwnPropertyDescriptor(module, 'forward')?.value === wrapping.outer;
    wrapping.wraps.splice(at, 1);
    if (isThere) put(module, wrapping);
  };
}
function put(module: Module, wrapping: Wrapping): void {
  const { own, inner, wraps } = wrapping;
  changes++;
  if (wraps.length) {
    wrapping.outer = wraps.reduce((forward, { wrap }) => wrap(forward), inner);
    Object.defineProperty(module, 'forward', { value: wrapping.outer, configurable: true, writable: true });
    return;
  }
  wrappings.delete(module);
  if (own) Object.defineProperty(module, 'forward', own);
  else delete (module as { forward?: unknown }).forward;
}

/** A snapshot of a model's structure: its members, their dtypes, and its modules' forward functions. Keeps all of them alive. */
export class ModelForm {
  readonly #tensors: readonly Tensor[];
  readonly #dtypes: readonly DType[];
  readonly #modules: readonly Module[];
  readonly #forwards: readonly unknown[];
  #holders: readonly Holder[];
  #seen = 0;

  constructor(model: Module) {
    this.#tensors = [...model.parameters(), ...model.buffers()];
    this.#dtypes = this.#tensors.map((t) => t.dtype);
    this.#modules = model.modules();
    this.#forwards = this.#modules.map((m) => m.forward);
    this.#holders = this.#modules.flatMap(holdersOf);
    this.#seen = membersMade() + changes;
  }

  /** Whether the model's structure is unchanged. Lists and dicts are compared only if any of them has changed. */
  isStill(model: Module): boolean {
    for (let i = 0; i < this.#tensors.length; i++) if (this.#tensors[i]!.dtype !== this.#dtypes[i]) return false;
    for (let i = 0; i < this.#holders.length; i++) if (!isSame(this.#holders[i]!)) return this.#isAgain(model);
    const now = membersMade() + changes;
    return now === this.#seen || this.#isAgain(model);
  }
  /** The same check, comparing everything. */
  #isAgain(model: Module): boolean {
    const other = new ModelForm(model);
    if (!same(this.#modules, other.#modules) || !same(this.#tensors, other.#tensors)) return false;
    if (!same(this.#forwards, other.#forwards) || !same(membersIn(this.#holders), membersIn(other.#holders)))
      return false;
    this.#holders = other.#holders;
    this.#seen = other.#seen;
    return true;
  }
}
const same = (a: readonly unknown[], b: readonly unknown[]) => a.length === b.length && a.every((x, i) => x === b[i]);

/** A module, or a list in one of its fields, with its members. */
interface Holder {
  readonly object: Readonly<Record<string, unknown>>;
  /** The number of all its fields: a new one may be a member. */
  readonly size: number;
  readonly keys: readonly string[];
  readonly members: readonly unknown[];
}
function holdersOf(object: object): Holder[] {
  const fields = Object.entries(object);
  const held = fields.filter(([, x]) => isMember(x) || Array.isArray(x));
  const [keys, members] = [held.map(([key]) => key), held.map(([, x]) => x)];
  const inside = members.filter((x) => Array.isArray(x)).flatMap(holdersOf);
  return [{ object: object as Holder['object'], size: fields.length, keys, members }, ...inside];
}
/** Members by name, without the lists themselves: another list with the same members counts as equal. */
const membersIn = (holders: readonly Holder[]): unknown[] =>
  holders.flatMap(({ keys, members }) => keys.flatMap((key, i) => (isMember(members[i]) ? [key, members[i]] : [])));
function isSame({ object, size, keys, members }: Holder): boolean {
  for (let i = 0; i < keys.length; i++) if (object[keys[i]!] !== members[i]) return false;
  return Object.keys(object).length === size;
}

/** Everything except lists and plain objects is a leaf. */
const isLeaf = (x: unknown): x is unknown => x !== null && x !== undefined && !Array.isArray(x) && !isPlain(x);
/** The tensors among arguments or results, and a function that replaces them. Other leaves (null masks, caches, functions) are kept. */
export function tensorsIn<T>(tree: T): { tensors: Tensor[]; replaced: (others: readonly Tensor[]) => T } {
  const { leaves, rebuild } = flatten('', tree, isLeaf, '');
  return {
    tensors: leaves.filter((x) => x instanceof Tensor),
    replaced(others) {
      const next = others.values();
      return rebuild(leaves.map((x) => (x instanceof Tensor ? next.next().value : x))) as T;
    },
  };
}
