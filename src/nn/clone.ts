// Copies modules. Parameters, buffers and modules inside are copied once each, so that shared ones (tied weights) are shared
// in the copy.
import { ArgumentError } from '../base/errors.js';
import { isPlain } from '../base/tree.js';
import { ownRecord } from '../runtime/record.js';
import { noGrad } from '../tensor/autograd.js';
import { Tensor } from '../tensor/tensor.js';

/** How what is a member is copied: by the file that defines them. */
export interface Copying {
  /** A module without its fields; undefined for what is none. */
  readonly module: (x: object) => object | undefined;
  /** Puts a forward that a user has assigned to a module into its copy. */
  readonly forward: (from: object, to: object) => void;
  /** A parameter or a buffer with this value; undefined for other tensors. */
  readonly member: (x: Tensor, value: Tensor) => Tensor | undefined;
}

export function copyOf<T extends object>(root: T, { module, forward, member }: Copying): T {
  const copies = new Map<object, unknown>();
  const note = <C>(x: object, made: C): C => {
    copies.set(x, made);
    return made;
  };
  const copyTensor = (x: Tensor): Tensor => {
    if (!x.isLeaf)
      throw new ArgumentError(
        `clone: a field has a tensor ${x.aval} that was computed from variables: detach() it, or clone the module before it is set`,
      );
    const value = noGrad(() => x.detach().clone());
    const made = member(x, value) ?? (x.requiresGrad ? value.requiresGrad_() : value);
    const sharding = x.knownCell?.sharding;
    if (sharding) ownRecord(made.expr).sharding = sharding;
    return made;
  };
  const copy = (x: unknown): unknown => {
    if (x === null || typeof x !== 'object') return x;
    if (copies.has(x)) return copies.get(x);
    if (x instanceof Tensor) return note(x, copyTensor(x));
    if (Array.isArray(x)) return fill(note(x, [] as unknown[]), x);
    if (x instanceof Map) {
      const made = note(x, new Map<unknown, unknown>());
      for (const [key, value] of x) made.set(copy(key), copy(value));
      return made;
    }
    if (x instanceof Set) {
      const made = note(x, new Set<unknown>());
      for (const value of x) made.add(copy(value));
      return made;
    }
    if (ArrayBuffer.isView(x) && 'slice' in x) return note(x, (x as Float32Array).slice());
    const made = isPlain(x) ? {} : module(x);
    return made ? fill(note(x, made), x) : x; // others, as configurations, are shared
  };
  const fill = <C extends object>(made: C, from: object): C => {
    for (const key of Reflect.ownKeys(from)) {
      const own = Object.getOwnPropertyDescriptor(from, key)!;
      if (key === 'length' && Array.isArray(from)) continue;
      if (key === 'forward' && typeof own.value === 'function') {
        forward(from, made);
        continue;
      }
      Object.defineProperty(made, key, 'value' in own ? { ...own, value: copy(own.value) } : own);
    }
    return made;
  };
  return copy(root) as T;
}

const PRIVATE = /(?<![\w$'"`#&/])#[A-Za-z_$][\w$]*/;
/** JavaScript does not copy private names: methods of the copy would fail. */
export function refusePrivate(type: new (...args: never[]) => unknown, base: unknown): void {
  for (let own = type; own !== base && typeof own === 'function'; own = Object.getPrototypeOf(own)) {
    const [name] = PRIVATE.exec(Function.prototype.toString.call(own)) ?? [];
    if (name)
      throw new ArgumentError(
        `clone: class ${own.name} has the private name ${name}, which JavaScript cannot copy: use TypeScript's private, or override clone()`,
      );
  }
}

/** An arrow or bound function uses the original module: its copy would compute with the original's weights. */
export function refuseBound(forward: (...args: never[]) => unknown, name: string): void {
  const isBound = forward.name.startsWith('bound ');
  const isArrow = !Object.hasOwn(forward, 'prototype') && !/^(async\s+)?\*?[\w$]+\s*\(/.test(String(forward));
  if (isBound || isArrow)
    throw new ArgumentError(
      `clone: the forward of ${name} is ${isBound ? 'a bound function' : 'an arrow function'}, which would compute with the weights of the original: make it a method of the class, assign function (x) { ... } that uses this, or override clone()`,
    );
}
