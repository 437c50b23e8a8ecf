// Layers that learn nothing: an operation, with options that are set once. Each is one line of a table.
import { ArgumentError } from '../base/errors.js';
import { Tensor } from '../tensor/tensor.js';
import { Buffer, Module } from './module.js';
import { type Given, optionsInOrder, showOptions } from './options.js';

/** A module from some tensors to a result. */
export interface Computing<X extends readonly unknown[], Y> extends Module {
  forward(...xs: X): Y;
}
/** Options where those with defaults may be left out. */
type Optional<O, D> = { readonly [K in keyof O as K extends keyof D ? never : K]: O[K] } & {
  readonly [K in keyof O as K extends keyof D ? K : never]?: O[K];
};
type Arguments<O, D, Order> = keyof O extends never ? [] : Given<Optional<O, D>, Order>;
type LayerClass<A extends readonly unknown[], X extends readonly unknown[], O, Y> = new (
  ...given: A
) => Computing<X, Y> & Readonly<O>;

/**
 * A class of layers. `order`: its options that may be given by place. `defaults`: those that may be left out, undefined
 * where that is what it means. Tensors among them (the weights of classes) belong to the state of the module, as in torch.
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
): LayerClass<Arguments<O, D, Order>, X, O, Y> {
  class Made extends Module {
    readonly #options: O;
    constructor(...given: readonly unknown[]) {
      super();
      const { name } = this.constructor;
      const required = order.filter((option) => !(option in defaults));
      const all = { ...Object.fromEntries(required.map((option) => [option, undefined])), ...defaults };
      const options = Object.entries(optionsInOrder<Record<string, unknown>>(name, order, all, given));
      const missing = required.find((option) => options.some(([key, value]) => key === option && value === undefined));
      if (missing) throw new ArgumentError(`${name}: ${missing} is missing: write new ${name}(${required.join(', ')})`);
      this.#options = Object.fromEntries(
        options
          .filter(([, value]) => value !== undefined)
          .map(([key, value]) => [key, value instanceof Tensor ? new Buffer(value) : value]),
      ) as O;
      check(name, this.#options);
      Object.assign(this, this.#options);
    }
    override forward(...xs: never[]): Y {
      return compute.call(this, this.#options, ...(xs as unknown as X));
    }
    override extraRepr(): string {
      return showOptions(this.#options);
    }
  }
  return Made as unknown as LayerClass<Arguments<O, D, Order>, X, O, Y>;
}
