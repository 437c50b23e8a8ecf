// Checks gradients against finite differences in f64.
import { TsxlaError } from '../base/errors.js';

/** A gradient that differs from finite differences. */
export class GradcheckError extends TsxlaError {}

export interface GradcheckOptions {
  /** The step of the differences. */
  readonly eps?: number;
  readonly atol?: number;
  readonly rtol?: number;
}

/** A function from some arrays of doubles to one number, and its gradient, both as computed. */
export interface Differentiable {
  value(xs: readonly Float64Array[]): Promise<number>;
  gradient(xs: readonly Float64Array[]): Promise<readonly (Float64Array | null)[]>;
}

/** Throws with the first element whose gradient differs from its central difference. */
export async function compareWithDifferences(
  f: Differentiable,
  xs: readonly Float64Array[],
  { eps = 1e-5, atol = 1e-5, rtol = 1e-4 }: GradcheckOptions = {},
): Promise<void> {
  const gradients = await f.gradient(xs);
  for (const [i, x] of xs.entries()) {
    for (let j = 0; j < x.length; j++) {
      const at = async (step: number) => {
        const moved = x.slice();
        moved[j]! += step;
        return f.value(xs.map((other, k) => (k === i ? moved : other)));
      };
      const difference = ((await at(eps)) - (await at(-eps))) / (2 * eps);
      const gradient = gradients[i]?.[j] ?? 0;
      if (!(Math.abs(gradient - difference) <= atol + rtol * Math.abs(difference))) {
        throw new GradcheckError(
          `input ${i}, element ${j}: the gradient is ${gradient}, but finite differences give ${difference}`,
        );
      }
    }
  }
}
