// What changes from step to step: the learning rate, and the weights of the loss's parts. Steps are the optimizer's, however many
// batches each takes.
import { annealed } from '../distill/index.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Settings } from './options.js';

/** As numbers on the device: other ones are no other program. */
export interface Schedule {
  readonly hardTop1: Tensor;
  /** Which of the anchor's sequences is looked at. */
  readonly anchor: Tensor;
  /** 0 in steps that leave it out. */
  readonly anchorWeight: Tensor;
}

/** Of step n, counted from 0; `anchors`: how many sequences the anchor has. */
export function scheduleAt(n: number, s: Settings, anchors: number): { readonly [K in keyof Schedule]: number } {
  return {
    hardTop1: annealed(s.hardTop1, s.hardTop1End ?? s.hardTop1, n, s.maxSteps),
    anchor: anchors ? Math.floor(n / s.anchorInterval) % anchors : 0,
    anchorWeight: n % s.anchorInterval ? 0 : s.anchorKlWeight,
  };
}

/**
 * The learning rate of step n, counted from 0, as a part of the highest: from a tenth in a line, then along half a cosine down
 * to minLrRatio, which the last step has.
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
