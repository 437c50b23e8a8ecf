// Layers without parameters: an operation with options. Each is one line of a table.
import { ArgumentError } from '../base/errors.js';
import { Tensor } from '../tensor/tensor.js';
import { Buffer, Module } from './module.js';
import { type Given, optionsInOrder, showOptions } from './options.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const OPTIONS = Symbol('options');

/** A module from some tensors to a result. */
export interface Computing<X extends readonly unknown[], Y> extends Module {
  forward(...xs: X): Y;
}
/** Options where those with defaults may be left out. */
type Optional<O, D> = { readonly [K in keyof O as K extends keyof D ? never : K]: O[K] } & {
  readonly [K in keyof O as K extends keyof D ? K : never]?: O[K] | (D[K & keyof D] extends undefined ? null : never);
};
type Arguments<O, D, Order> = keyof O extends never ? [] : Given<Optional<O, D>, Order>;
type LayerOf<X extends readonly unknown[], O, Y> = Computing<X, Y> & { -readonly [K in keyof O]: O[K] };
/** The signature with named options is last: TypeScript reports errors against it when none matches. */
export interface LayerClass<
  A extends readonly unknown[],
  ByName extends readonly unknown[],
  X extends readonly unknown[],
  O,
  Y,
> {
  new (...given: A): LayerOf<X, O, Y>;
  new (...given: ByName): LayerOf<X, O, Y>;
}
type ByName<O, D> = keyof O extends never
  ? []
  : object extends Optional<O, D>
    ? [options?: Optional<O, D>]
    : [options: Optional<O, D>];

function optionsOf(module: Module & { readonly [OPTIONS]: readonly string[] }): object {
  const fields = module as unknown as Record<string, unknown>;
  return Object.fromEntries(module[OPTIONS].flatMap((key) => (fields[key] === undefined ? [] : [[key, fields[key]]])));
}

/**
 * Defines a class of layers. `order`: options that may be given by position. `defaults`: optional ones and their values.
 * Tensors among the options (the weights of classes) belong to the state of the module, as in torch.
 */
export function layer<
  X extends readonly unknown[],
  Y,
  O extends object,
  const D extends { readonly [K in keyof O]?: O[K] | undefined },
  const Order extends readonly (keyof O & string)[],
>(
  order: Order,
  defaults: D,
  compute: (this: Module, options: O, ...xs: X) => Y,
  check: (name: string, options: O) => void = () => {},
): LayerClass<Arguments<O, D, Order>, ByName<O, D>, X, O, Y> {
  class Made extends Module {
    /** The names of its options: each is a field, and may be set. */
    readonly [OPTIONS]: readonly string[];
    constructor(...given: readonly unknown[]) {
      super();
      const { name } = this.constructor;
      const required = order.filter((option) => !(option in defaults));
      const all = { ...Object.fromEntries(required.map((option) => [option, undefined])), ...defaults };
      const options = Object.entries(optionsInOrder<Record<string, unknown>>(name, order, all, given));
      const missing = required.find((option) => options.some(([key, value]) => key === option && value === undefined));
      if (missing) throw new ArgumentError(`${name}: ${missing} is missing: write new ${name}(${required.join(', ')})`);
      this[OPTIONS] = options.map(([key]) => key);
      for (const [key, value] of options)
        if (value !== undefined) Object.assign(this, { [key]: value instanceof Tensor ? new Buffer(value) : value });
      check(name, optionsOf(this) as O);
    }
    override forward(...xs: never[]): Y {
      return compute.call(this, optionsOf(this) as O, ...(xs as unknown as X));
    }
    override extraRepr(): string {
      const { inplace, ...shown } = optionsOf(this) as { readonly inplace?: boolean };
      return showOptions(inplace ? { ...shown, inplace } : shown);
    }
  }
  return Made as unknown as LayerClass<Arguments<O, D, Order>, ByName<O, D>, X, O, Y>;
}
