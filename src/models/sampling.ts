// Choosing the next token, on the device: what may change from call to call is a tensor, so that one program serves all.
import { ArgumentError } from '../base/errors.js';
import { cond, scan } from '../tensor/control.js';
import { onesLike, zerosLike } from '../tensor/create.js';
import { softmax, where } from '../tensor/functions.js';
import { type Generator, randLike } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

/** In the order in which they are applied, which is that of transformers. */
export interface SamplingOptions {
  /** Above 1, tokens that are in the text already become less likely; 1 changes nothing. */
  readonly repetitionPenalty?: number;
  /** Below 1 the likely become likelier; 0 takes the most likely one, always. */
  readonly temperature?: number;
  /** Only the k most likely; 0 for all. */
  readonly topK?: number;
  /** Only the most likely ones that together have this probability; 1 for all. */
  readonly topP?: number;
  /** Only those at least this probable, relative to the most likely one; 0 for all. */
  readonly minP?: number;
}

const RANGES: Readonly<Record<keyof SamplingOptions, readonly [is: (x: number) => boolean, must: string]>> = {
  repetitionPenalty: [(x) => x > 0, 'must be above 0'],
  temperature: [(x) => x >= 0, 'must not be negative'],
  topK: [(x) => Number.isInteger(x) && x >= 0, 'must be a whole number, 0 for all'],
  topP: [(x) => x > 0 && x <= 1, 'must be above 0 and at most 1'],
  minP: [(x) => x >= 0 && x <= 1, 'must be between 0 and 1'],
};

/** f32[5], for `sample`. */
export function samplingSettings(options: SamplingOptions, vocabSize: number): Float32Array {
  const given = { repetitionPenalty: 1, temperature: 1, topK: 0, topP: 1, minP: 0, ...options };
  for (const [name, [is, must]] of Object.entries(RANGES)) {
    const x = given[name as keyof SamplingOptions];
    if (typeof x !== 'number' || !is(x)) throw new ArgumentError(`generate: ${name} is ${x}: it ${must}`);
  }
  const { repetitionPenalty, temperature, topK, topP, minP } = given;
  const all = 2; // no probability adds up to it, whatever the rounding
  return Float32Array.of(repetitionPenalty, temperature, topK || vocabSize, topP < 1 ? topP : all, minP);
}

/** Whole numbers in the order of the floats f32[...]: between two of them there is no other float. */
function ordered(x: Tensor): Tensor {
  const bits = x.viewDtype('i32');
  return where(bits.lt(0), bits.bitwiseXor(0x7fffffff), bits);
}

/**
 * The largest t, one a row, such that the weights of all x >= t add up to `amount`; the least x if they never do. x are whole
 * numbers, i32. Found by halving, exactly: no sorting of a large vocabulary.
 */
function threshold(x: Tensor, weights: Tensor, amount: Tensor): Tensor {
  const zeros = zerosLike(weights);
  const ends = { low: x.amin({ dim: -1, keepdim: true }), high: x.amax({ dim: -1, keepdim: true }).add(1) };
  const halve = ({ low, high }: typeof ends): [typeof ends, readonly []] => {
    const middle = low.bitwiseAnd(high).add(low.bitwiseXor(high).bitwiseRightShift(1)); // (low + high) / 2 may be too large
    const enough = where(x.ge(middle), weights, zeros).sum({ dim: -1, keepdim: true }).ge(amount);
    return [{ low: where(enough, middle, low), high: where(enough, high, middle) }, []];
  };
  return scan(halve, ends, [], { length: 32 })[0].low;
}

const penalize = (logits: Tensor, seen: Tensor, penalty: Tensor): Tensor =>
  where(seen, where(logits.lt(0), logits.mul(penalty), logits.div(penalty)), logits);

/**
 * Logits f32[B, V], with -Infinity for tokens that may not be chosen. seen: bool[B, V], the tokens in the text so far. Of
 * tokens that are equally likely, either all are kept or none.
 */
export function filterLogits(logits: Tensor, seen: Tensor, settings: Tensor): Tensor {
  const [penalty, temperature, k, p, least] = settings.unbind() as [Tensor, Tensor, Tensor, Tensor, Tensor];
  const x = penalize(logits, seen, penalty).div(temperature);
  const order = ordered(x);
  const likely = order.ge(threshold(order, onesLike(x), k));
  const probabilities = softmax(where(likely, x, Number.NEGATIVE_INFINITY), -1);
  const kept = likely
    .logicalAnd(order.ge(threshold(order, probabilities, p)))
    .logicalAnd(probabilities.ge(probabilities.amax({ dim: -1, keepdim: true }).mul(least)));
  return where(kept, x, Number.NEGATIVE_INFINITY);
}

/** A token for each row of the logits f32[B, V]: i32[B]. */
export function sample(logits: Tensor, seen: Tensor, settings: Tensor, generator: Generator): Tensor {
  return cond(
    settings.select(0, 1).gt(0),
    () => {
      const noise = randLike(logits, { generator }).neg().log1p().neg().log(); // the race of multinomial()
      return filterLogits(logits, seen, settings).sub(noise).argmax({ dim: -1 }).to('i32');
    },
    () => penalize(logits, seen, settings.select(0, 0)).argmax({ dim: -1 }).to('i32'),
  );
}
