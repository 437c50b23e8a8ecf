// Schedules of the learning rate and of the weights of the loss. They count optimizer steps, not batches.
import { annealed } from '../distill/index.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Settings } from './options.js';

/** Scheduled values as tensors, so that new values need no new program. */
export interface Schedule {
  readonly hardTop1: Tensor;
  /** The index of the anchor's sequence. */
  readonly anchor: Tensor;
  /** 0 in steps without the anchor. */
  readonly anchorWeight: Tensor;
}

/** The values of step n, counted from 0. `anchors` is the number of sequences of the anchor. */
export function scheduleAt(n: number, s: Settings, anchors: number): { readonly [K in keyof Schedule]: number } {
  return {
    hardTop1: annealed(s.hardTop1, s.hardTop1End ?? s.hardTop1, n, s.maxSteps),
    anchor: anchors ? Math.floor(n / s.anchorInterval) % anchors : 0,
    anchorWeight: n % s.anchorInterval ? 0 : s.anchorKlWeight,
  };
}

/**
 * The learning rate of step n, counted from 0, as a fraction of the highest: a linear warm-up from a tenth, then a half cosine down
 * to minLrRatio at the last step.
 */
export function rateFactor(
  n: number,
  s: Pick<Settings, 'maxSteps' | 'warmupSteps' | 'minLrRatio' | 'constantLr'>,
): number {
  const warmup = s.warmupSteps ?? Math.min(100, Math.floor(s.maxSteps / 10));
  if (n < warmup) return 0.1 + (0.9 * n) / warmup;
  if (s.constantLr) return 1;
  const part = Math.min(1, (n - warmup) / Math.max(1, s.maxSteps - 1 - warmup));
  return s.minLrRatio + ((1 - s.minLrRatio) / 2) * (1 + Math.cos(Math.PI * part));
}
