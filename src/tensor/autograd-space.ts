// tx.autograd: torch.autograd's names for gradients, and Function, for custom backward functions.
import { ArgumentError } from '../base/errors.js';
import { customVjp } from './autograd.js';
import { Tensor } from './tensor.js';

export { enableGrad, grad, gradcheck, inferenceMode, noGrad } from './autograd.js';

/** What forward passes on to backward: tensors by saveForBackward, anything else as properties. */
export interface FunctionContext {
  saveForBackward(...tensors: (Tensor | null)[]): void;
  /** The saved tensors, for backward. */
  readonly savedTensors: readonly Tensor[];
  /** For each argument, whether its gradient is needed. */
  readonly needsInputGrad: readonly boolean[];
  // biome-ignore lint/suspicious/noExplicitAny: whatever the user puts there
  [name: string]: any;
}
interface Rules<A extends readonly unknown[], Y> {
  readonly name: string;
  forward(ctx: FunctionContext, ...args: A): Y;
  backward(ctx: FunctionContext, ...grads: Tensor[]): unknown;
}

function applied<A extends readonly unknown[], Y extends Tensor | readonly Tensor[]>(rules: Rules<A, Y>, args: A): Y {
  const { name } = rules;
  if (typeof rules.forward !== 'function' || typeof rules.backward !== 'function')
    throw new ArgumentError(`${name}.apply: needs static forward(ctx, ...args) and static backward(ctx, ...grads)`);
  const places = args.flatMap((x, i) => (x instanceof Tensor ? [i] : []));
  let saved: (Tensor | null)[] = [];
  const ctx: FunctionContext = {
    saveForBackward: (...tensors) => {
      saved = tensors;
    },
    savedTensors: [],
    needsInputGrad: args.map((x) => x instanceof Tensor && x.requiresGrad),
  };
  const call = (xs: readonly Tensor[]) => {
    const all = [...args] as unknown[];
    for (const [k, i] of places.entries()) all[i] = xs[k];
    return rules.forward(ctx, ...(all as unknown as A));
  };
  const run = customVjp<Tensor[], Y, Tensor[]>((...xs) => call(xs), {
    forward: (...xs) => [call(xs), saved.filter((t) => t !== null)],
    backward: (needed, g) => {
      const rest = [...needed];
      const savedTensors = saved.map((t) => (t === null ? null : rest.shift()!)) as Tensor[];
      const back = rules.backward(Object.assign(ctx, { savedTensors }), ...([g].flat() as Tensor[]));
      const grads = Array.isArray(back) ? back : [back];
      if (grads.length !== args.length)
        throw new ArgumentError(
          `${name}.backward: returned ${grads.length} gradients for the ${args.length} arguments of forward: return one for each, or null`,
        );
      return places.map((i) => grads[i] ?? null);
    },
  });
  return run(...places.map((i) => args[i] as Tensor));
}

/**
 * A function with a custom gradient. Extend it with static `forward(ctx, ...args)` and `backward(ctx, ...grads)`, which
 * returns a gradient or null for each argument of forward; then call `apply`. Unlike torch: backward is called once, by
 * apply, to describe the gradient; it cannot read values.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: torch's form
abstract class AutogradFunction {
  static apply<A extends readonly unknown[], Y extends Tensor | readonly Tensor[]>(this: Rules<A, Y>, ...args: A): Y {
    // biome-ignore lint/complexity/noThisInStatic: the class that extends this one
    return applied(this, args);
  }
}

export { AutogradFunction as Function };
