// Changing what modules compute without changing what they are: a module gets another forward of its own, around the one it
// has. Its class, its fields and its state dict stay, and taking it back leaves nothing.
import type { DType } from '../base/dtype.js';
import { flatten, isPlain } from '../base/tree.js';
import { type Module, membersMade } from '../nn/module.js';
import { Tensor } from '../tensor/tensor.js';

export type Forward = (...args: unknown[]) => unknown;

let changes = 0;
/** Puts something around the forward of one module. Gives what takes it away again: the last first, if there are several. */
export function wrapForward(module: Module, wrap: (forward: Forward) => Forward): () => void {
  const before = Object.getOwnPropertyDescriptor(module, 'forward');
  const inner = (module.forward as Forward).bind(module);
  Object.defineProperty(module, 'forward', { value: wrap(inner), configurable: true, writable: true });
  changes++;
  return () => {
    if (before) Object.defineProperty(module, 'forward', before);
    else delete (module as { forward?: unknown }).forward;
    changes++;
  };
}

/** What a model is made of at a moment: its tensors, their dtypes, and what its modules compute. Holds on to all of it. */
export class ModelForm {
  readonly #tensors: readonly Tensor[];
  readonly #dtypes: readonly DType[];
  readonly #forwards: readonly unknown[];
  #seen = 0;

  constructor(model: Module) {
    this.#tensors = [...model.parameters(), ...model.buffers()];
    this.#dtypes = this.#tensors.map((t) => t.dtype);
    this.#forwards = model.modules().map((m) => m.forward);
    this.#seen = membersMade() + changes;
  }

  /** Whether the model is still made of the same. Nothing is walked through where nothing was made or changed since. */
  isStill(model: Module): boolean {
    for (let i = 0; i < this.#tensors.length; i++) if (this.#tensors[i]!.dtype !== this.#dtypes[i]) return false;
    const now = membersMade() + changes;
    if (now === this.#seen) return true;
    const other = new ModelForm(model);
    const same = (a: readonly unknown[], b: readonly unknown[]) =>
      a.length === b.length && a.every((x, i) => x === b[i]);
    if (!same(this.#tensors, other.#tensors) || !same(this.#forwards, other.#forwards)) return false;
    this.#seen = now;
    return true;
  }
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
