// Changing what modules compute without changing what they are: a module gets another forward of its own, around the one it
// has. Its class, its fields and its state dict stay, and taking it back leaves nothing.
import type { DType } from '../base/dtype.js';
import { flatten, isPlain } from '../base/tree.js';
import { isMember, type Module, membersMade } from '../nn/module.js';
import { Tensor } from '../tensor/tensor.js';

export type Forward = (...args: unknown[]) => unknown;

type Wrap = (forward: Forward) => Forward;
/** What lies around a module's forward, the innermost first. */
interface Wrapping {
  /** Its own forward, if it had one beside its class's. */
  readonly own: PropertyDescriptor | undefined;
  readonly inner: Forward;
  readonly wraps: { readonly wrap: Wrap }[];
  outer: Forward;
}
const wrappings = new WeakMap<Module, Wrapping>();

let changes = 0;
/** Puts something around the forward of one module. Gives what takes it away again, and leaves what else is around it. */
export function wrapForward(module: Module, wrap: Wrap): () => void {
  const known = wrappings.get(module);
  const inner = (module.forward as Forward).bind(module);
  const own = Object.getOwnPropertyDescriptor(module, 'forward');
  const isOurs = known && known.outer === own?.value; // else it was given another since, which is what is wrapped now
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

/** What a model is made of at a moment: its members, their dtypes, and what its modules compute. Holds on to all of it. */
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

  /** Whether the model is still made of the same. Lists and dicts are looked into only where any of them has changed. */
  isStill(model: Module): boolean {
    for (let i = 0; i < this.#tensors.length; i++) if (this.#tensors[i]!.dtype !== this.#dtypes[i]) return false;
    for (let i = 0; i < this.#holders.length; i++) if (!isSame(this.#holders[i]!)) return this.#isAgain(model);
    const now = membersMade() + changes;
    return now === this.#seen || this.#isAgain(model);
  }
  /** The same with a look at everything. */
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

/** A module, or a list in a field of one, with the members that it holds. */
interface Holder {
  readonly object: Readonly<Record<string, unknown>>;
  /** How many fields it has in all: one more may be a member. */
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
/** By name, without the lists themselves: another one with the same in it is the same. */
const membersIn = (holders: readonly Holder[]): unknown[] =>
  holders.flatMap(({ keys, members }) => keys.flatMap((key, i) => (isMember(members[i]) ? [key, members[i]] : [])));
function isSame({ object, size, keys, members }: Holder): boolean {
  for (let i = 0; i < keys.length; i++) if (object[keys[i]!] !== members[i]) return false;
  return Object.keys(object).length === size;
}

/** What is no list and no plain object is a leaf, whatever it is. */
const isLeaf = (x: unknown): x is unknown => x !== null && x !== undefined && !Array.isArray(x) && !isPlain(x);
/** The tensors among arguments or results, and the same with others; all else, masks that are null, caches, functions, stays. */
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
