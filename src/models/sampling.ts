// Chooses the next token on the device. Settings are a tensor, so that one program serves all of them.
import { ArgumentError } from '../base/errors.js';
import { cond, scan } from '../tensor/control.js';
import { onesLike, zerosLike } from '../tensor/create.js';
import { logSoftmax, softmax, where } from '../tensor/functions.js';
import { type Generator, randLike } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

/** Options of sampling, in the order in which they are applied, which is that of transformers. */
export interface SamplingOptions {
  /** Above 1, tokens that already are in the text become less likely. Default: 1. */
  readonly repetitionPenalty?: number;
  /** Divides the logits; below 1, likely tokens become more likely; 0 takes the most likely one. Default: 1. */
  readonly temperature?: number;
  /** Keep only the k most likely tokens; 0: all. */
  readonly topK?: number;
  /** Keep only the most likely tokens that together have this probability; 1: all. */
  readonly topP?: number;
  /** Keep only tokens whose probability is at least minP times that of the most likely one; 0: all. */
  readonly minP?: number;
  /** Keep only tokens with the most typical information content, up to this total probability (arXiv:2202.00666); 1: all. */
  readonly typicalP?: number;
  /** Keep only tokens with at least this probability, and the most likely one; 0: all. */
  readonly epsilonCutoff?: number;
  /** As epsilonCutoff, with a limit that decreases with the entropy (arXiv:2210.15191); 0: all. */
  readonly etaCutoff?: number;
}
/** The names of these options. */
export const SAMPLING = [
  'repetitionPenalty',
  'temperature',
  'topK',
  'topP',
  'minP',
  'typicalP',
  'epsilonCutoff',
  'etaCutoff',
] as const satisfies (keyof SamplingOptions)[];
/** The length of `samplingSettings`. */
export const SETTINGS = SAMPLING.length;

const RANGES: Readonly<Record<keyof SamplingOptions, readonly [is: (x: number) => boolean, must: string]>> = {
  repetitionPenalty: [(x) => x > 0, 'must be above 0'],
  temperature: [(x) => x >= 0, 'must not be negative'],
  topK: [(x) => Number.isInteger(x) && x >= 0, 'must be a whole number, 0 or more (0: all)'],
  topP: [(x) => x > 0 && x <= 1, 'must be above 0 and at most 1'],
  minP: [(x) => x >= 0 && x <= 1, 'must be between 0 and 1'],
  typicalP: [(x) => x > 0 && x <= 1, 'must be above 0 and at most 1'],
  epsilonCutoff: [(x) => x >= 0 && x < 1, 'must be at least 0 and below 1'],
  etaCutoff: [(x) => x >= 0 && x < 1, 'must be at least 0 and below 1'],
};

/** The settings of `sample`, f32[8]: one number for each option. */
export function samplingSettings(options: SamplingOptions, vocabSize: number): Float32Array {
  const off = {
    repetitionPenalty: 1,
    temperature: 1,
    topK: 0,
    topP: 1,
    minP: 0,
    typicalP: 1,
    epsilonCutoff: 0,
    etaCutoff: 0,
  };
  const given = { ...off, ...options };
  for (const [name, [is, must]] of Object.entries(RANGES)) {
    const x = given[name as keyof SamplingOptions];
    if (typeof x !== 'number' || !is(x)) throw new ArgumentError(`generate: ${name} is ${x}: it ${must}`);
  }
  const share = (p: number) => (p < 1 ? p : 2); // no probability adds up to 2, whatever the rounding
  const numbers = { ...given, topK: given.topK || vocabSize, topP: share(given.topP), typicalP: share(given.typicalP) };
  return Float32Array.from(SAMPLING, (name) => numbers[name]);
}

/** Integers i32[...] in the order of the floats f32[...]; adjacent floats have adjacent integers. */
function ordered(x: Tensor): Tensor {
  const bits = x.viewDtype('i32');
  return where(bits.lt(0), bits.bitwiseXor(0x7fffffff), bits);
}

/**
 * The largest t of each row such that the weights of all x >= t add up to at least `amount`; the least x if they never do. x is
 * i32. Found exactly by bisection, without sorting a large vocabulary.
 */
function threshold(x: Tensor, weights: Tensor, amount: Tensor): Tensor {
  const zeros = zerosLike(weights);
  const ends = { low: x.amin({ dim: -1, keepdim: true }), high: x.amax({ dim: -1, keepdim: true }).add(1) };
  const halve = ({ low, high }: typeof ends): [typeof ends, readonly []] => {
    const middle = low.bitwiseAnd(high).add(low.bitwiseXor(high).bitwiseRightShift(1)); // (low + high) / 2 could overflow
    const enough = where(x.ge(middle), weights, zeros).sum({ dim: -1, keepdim: true }).ge(amount);
    return [{ low: where(enough, middle, low), high: where(enough, high, middle) }, []];
  };
  return scan(halve, ends, [], { length: 32 })[0].low;
}

/** Applies repetitionPenalty to tokens in the text, `seen` bool[B, V]. */
export const penalize = (logits: Tensor, seen: Tensor, settings: Tensor): Tensor => {
  const penalty = settings.select(0, SAMPLING.indexOf('repetitionPenalty'));
  return where(seen, where(logits.lt(0), logits.mul(penalty), logits.div(penalty)), logits);
};

/** Applies the temperature and filters to logits f32[B, V]: -Infinity for tokens that may not be drawn. */
export function warp(logits: Tensor, settings: Tensor): Tensor {
  const [, temperature, k, p, least, typical, epsilon, eta] = settings.unbind<8>();
  const x = logits.div(temperature);
  const order = ordered(x);
  const likely = order.ge(threshold(order, onesLike(x), k));
  const probabilities = softmax(where(likely, x, NEVER), -1);
  const kept = likely
    .logicalAnd(order.ge(threshold(order, probabilities, p)))
    .logicalAnd(probabilities.ge(probabilities.amax({ dim: -1, keepdim: true }).mul(least)));
  return cond(
    typical.le(1).logicalOr(epsilon.gt(0)).logicalOr(eta.gt(0)),
    (x: Tensor) => byEntropy(x, typical, epsilon, eta),
    (x: Tensor) => x,
    where(kept, x, NEVER),
  );
}
const NEVER = Number.NEGATIVE_INFINITY;

/** Applies typicalP, epsilonCutoff and etaCutoff, in this order. */
function byEntropy(logits: Tensor, typical: Tensor, epsilon: Tensor, eta: Tensor): Tensor {
  const entropyOf = (x: Tensor) => {
    const logs = logSoftmax(x, -1);
    const p = logs.exp();
    const entropy = where(p.gt(0), p.mul(logs), 0).sum({ dim: -1, keepdim: true }).neg();
    return { logs, p, entropy };
  };
  const first = entropyOf(logits);
  const nearness = ordered(first.logs.neg().sub(first.entropy).abs().neg());
  const x = where(nearness.ge(threshold(nearness, first.p, typical)), logits, NEVER);
  const above = (x: Tensor, p: Tensor, limit: Tensor) =>
    where(p.ge(limit).logicalOr(x.eq(x.amax({ dim: -1, keepdim: true }))), x, NEVER);
  const y = above(x, softmax(x, -1), epsilon);
  const last = entropyOf(y);
  return above(y, last.p, eta.minimum(eta.sqrt().mul(last.entropy.neg().exp())));
}

/**
 * Logits f32[B, V], with -Infinity for tokens that may not be chosen. seen: bool[B, V], the tokens in the text so far. Equally
 * likely tokens are either all kept or all removed.
 */
export const filterLogits = (logits: Tensor, seen: Tensor, settings: Tensor): Tensor =>
  warp(penalize(logits, seen, settings), settings);

/** Draws a token for each row by its probability: i32[...]. */
export function draw(logits: Tensor, generator: Generator): Tensor {
  const noise = randLike(logits, { generator }).neg().log1p().neg().log(); // exponential races, as in multinomial()
  return logits.sub(noise).argmax({ dim: -1 }).to('i32');
}

/** Draws a token after `warp`, or takes the most likely one if the temperature is 0. `samples`: which of both, if known. */
export function choose(logits: Tensor, settings: Tensor, generator: Generator, samples?: boolean): Tensor {
  const drawn = () => draw(warp(logits, settings), generator);
  const likeliest = () => logits.argmax({ dim: -1 }).to('i32');
  if (samples !== undefined) return samples ? drawn() : likeliest();
  return cond(settings.select(0, SAMPLING.indexOf('temperature')).gt(0), drawn, likeliest);
}

/** Chooses a token for each row of the logits f32[B, V]: i32[B]. */
export const sample = (logits: Tensor, seen: Tensor, settings: Tensor, generator: Generator): Tensor =>
  choose(penalize(logits, seen, settings), settings, generator);
