// Changing what modules compute without changing what they are: a module gets another forward of its own, around the one it
// has. Its class, its fields and its state dict stay, and taking it back leaves nothing.
import type { DType } from '../base/dtype.js';
import { isMember, type Module, membersMade } from '../nn/module.js';
import type { Tensor } from '../tensor/tensor.js';

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
  /** What the fields of its modules hold, one after the other. */
  readonly #members: readonly unknown[];
  #seen = 0;

  constructor(model: Module) {
    this.#tensors = [...model.parameters(), ...model.buffers()];
    this.#dtypes = this.#tensors.map((t) => t.dtype);
    this.#modules = model.modules();
    this.#forwards = this.#modules.map((m) => m.forward);
    const members: unknown[] = [];
    eachMember(this.#modules, (member) => members.push(member));
    this.#members = members;
    this.#seen = membersMade() + changes;
  }

  /** Whether the model is still made of the same. Lists and dicts are looked into only where any of them has changed. */
  isStill(model: Module): boolean {
    for (let i = 0; i < this.#tensors.length; i++) if (this.#tensors[i]!.dtype !== this.#dtypes[i]) return false;
    const members = this.#members;
    let i = 0;
    if (!eachMember(this.#modules, (member) => member === members[i++]) || i < members.length) return false;
    const now = membersMade() + changes;
    if (now === this.#seen) return true;
    const other = new ModelForm(model);
    if (!same(this.#modules, other.#modules) || !same(this.#tensors, other.#tensors)) return false;
    if (!same(this.#forwards, other.#forwards)) return false;
    this.#seen = now;
    return true;
  }
}
const same = (a: readonly unknown[], b: readonly unknown[]) => a.length === b.length && a.every((x, i) => x === b[i]);

/** Members in fields, and in lists in fields, until `see` says false. */
function eachMember(holders: readonly object[], see: (member: unknown) => unknown): boolean {
  for (const holder of holders)
    for (const key in holder) {
      const x = (holder as Record<string, unknown>)[key];
      if (typeof x !== 'object') continue;
      if (isMember(x) ? !see(x) : Array.isArray(x) && !eachMember([x], see)) return false;
    }
  return true;
}
