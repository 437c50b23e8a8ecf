// Logits processors, as those of transformers and in their order: they change logits before a token is chosen. Which of them are on
// determines the program; their numbers are tensors.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { describe, shown } from '../base/tree.js';
import { arange, zeros } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import { marked, NO_TOKEN, type TextState } from './text-state.js';

/**
 * A function from the tokens so far, i32[B, S] (right-aligned, -1 for none), and the logits f32[B, V] to new logits. It is traced
 * once, inside the program that chooses tokens.
 */
export type LogitsProcessor = (ids: Tensor, logits: Tensor) => Tensor;

export interface ProcessorOptions {
  /** No sequence of this number of tokens may occur twice; 0: off. */
  readonly noRepeatNgramSize?: number;
  /** Sequences of tokens that are never generated. */
  readonly badWordsIds?: readonly (readonly number[])[];
  /** The least length of a sequence, with its prompt, before an end token is allowed. */
  readonly minLength?: number;
  /** The least number of generated tokens before an end token is allowed. */
  readonly minNewTokens?: number;
  /** Forces the token after a prompt of one token. */
  readonly forcedBosTokenId?: number;
  /** Forces the last token if maxNewTokens ends a sequence. */
  readonly forcedEosTokenId?: number;
  /** Tokens that are never generated. */
  readonly suppressTokens?: readonly number[];
  /** Tokens that are not generated first. */
  readonly beginSuppressTokens?: readonly number[];
  /** Custom processors, applied after all others. */
  readonly logitsProcessor?: LogitsProcessor | readonly LogitsProcessor[];
}
export const PROCESSORS = [
  'noRepeatNgramSize',
  'badWordsIds',
  'minLength',
  'minNewTokens',
  'forcedBosTokenId',
  'forcedEosTokenId',
  'suppressTokens',
  'beginSuppressTokens',
  'logitsProcessor',
] as const satisfies (keyof ProcessorOptions)[];

const NEVER = Number.NEGATIVE_INFINITY;
/** minLength, minNewTokens, forcedBosTokenId, forcedEosTokenId, the index of the last token. */
const LIMITS = 5;

type Values = Readonly<Record<'limits' | 'ends' | 'suppressed' | 'notFirst', HostValue>> & {
  readonly words: HostValue | null;
};
type OnDevice = Readonly<Record<Exclude<keyof Values, 'words'>, Tensor>> & { readonly words: Tensor | null };
interface HostValue {
  readonly dtype: 'i32' | 'bool';
  readonly shape: readonly number[];
  readonly data: Int32Array | Uint8Array;
}

interface Model {
  readonly vocabSize: number;
  /** Tokens that end a sequence. */
  readonly ends: ReadonlySet<number>;
  readonly maxNewTokens: number;
}

/** The checked options. */
export class ProcessorPlan {
  readonly ngram: number;
  readonly functions: readonly LogitsProcessor[];
  readonly values: Values;
  /** Whether all processors are off. */
  readonly isEmpty: boolean;

  constructor(options: ProcessorOptions, { vocabSize: V, ends, maxNewTokens }: Model) {
    const { noRepeatNgramSize = 0, minLength = 0, minNewTokens = 0, forcedBosTokenId, forcedEosTokenId } = options;
    for (const [name, n] of Object.entries({ noRepeatNgramSize, minLength, minNewTokens }))
      checkWhole(`generate: ${name}`, n);
    if (minNewTokens > maxNewTokens)
      throw new ArgumentError(
        `generate: minNewTokens is ${minNewTokens}: it must be at most maxNewTokens, which is ${maxNewTokens}`,
      );
    for (const [name, token] of Object.entries({ forcedBosTokenId, forcedEosTokenId }))
      if (token !== undefined) checkToken(name, token, V);
    this.ngram = noRepeatNgramSize;
    this.functions = [options.logitsProcessor ?? []].flat();
    for (const [i, f] of this.functions.entries())
      if (typeof f !== 'function')
        throw new ArgumentError(
          `generate: logitsProcessor ${i} is ${describe(f)}: it must be a function (ids, logits) => logits`,
        );
    const { suppressTokens = [], beginSuppressTokens = [] } = options;
    const words = wordsOf(options.badWordsIds ?? [], ends, V);
    const limits = [minLength, minNewTokens, forcedBosTokenId ?? NO_TOKEN, forcedEosTokenId ?? NO_TOKEN];
    const isOn = limits.some((n) => n !== 0 && n !== NO_TOKEN) || forcedBosTokenId === 0 || forcedEosTokenId === 0;
    const lists = suppressTokens.length + beginSuppressTokens.length;
    this.isEmpty = !isOn && !lists && !this.ngram && !words && !this.functions.length;
    // Masks are cheap: if one is on, all are computed, so that there are few programs.
    this.values = {
      limits: { dtype: 'i32', shape: [LIMITS], data: Int32Array.of(...limits, maxNewTokens - 1) },
      ends: maskOf(
        'eosTokenIds',
        [...ends].filter((t) => t < V),
        V,
      ),
      suppressed: maskOf('suppressTokens', suppressTokens, V),
      notFirst: maskOf('beginSuppressTokens', beginSuppressTokens, V),
      words,
    };
  }

  /** Whether two plans have the same program. */
  isLike(other: ProcessorPlan): boolean {
    const shapes = ({ isEmpty, ngram, values }: ProcessorPlan) => JSON.stringify([isEmpty, ngram, values.words?.shape]);
    const { functions } = this;
    return (
      shapes(this) === shapes(other) &&
      functions.length === other.functions.length &&
      functions.every((f, i) => f === other.functions[i])
    );
  }
}

function checkToken(name: string, token: number, vocabSize: number): void {
  if (!Number.isInteger(token) || token < 0 || token >= vocabSize)
    throw new ArgumentError(`generate: ${name} has ${shown(token)}: the model's tokens are 0 to ${vocabSize - 1}`);
}
function maskOf(name: string, tokens: readonly number[], V: number): HostValue {
  const data = new Uint8Array(V);
  for (const t of tokens) {
    checkToken(name, t, V);
    data[t] = 1;
  }
  return { dtype: 'bool', shape: [V], data };
}
/** badWordsIds as i32[W, L], right-aligned. Sizes are rounded up to powers of two, so that other words need no new program. */
function wordsOf(words: readonly (readonly number[])[], ends: ReadonlySet<number>, V: number): HostValue | null {
  for (const word of words) {
    if (!word.length)
      throw new ArgumentError('generate: badWordsIds has an empty list: each list must have at least one token');
    for (const t of word) checkToken('badWordsIds', t, V);
  }
  const kept = words.filter((word) => word.length > 1 || !ends.has(word[0]!)); // as in transformers: end tokens are allowed
  if (!kept.length) return null;
  const round = (n: number) => 2 ** Math.ceil(Math.log2(n));
  const [W, L] = [round(kept.length), round(Math.max(...kept.map((w) => w.length)))];
  const data = new Int32Array(W * L).fill(NO_TOKEN);
  kept.forEach((word, i) => void data.set(word, (i + 1) * L - word.length));
  return { dtype: 'i32', shape: [W, L], data };
}

/** The plan's values on the device, and the functions that use them. */
export class Processors {
  /** null: all processors are off. */
  readonly #values: OnDevice | null;
  constructor(readonly plan: ProcessorPlan) {
    const made = Object.entries(plan.values).map(([name, v]) => [name, v && zeros(v.shape, { dtype: v.dtype })]);
    this.#values = plan.isEmpty ? null : Object.fromEntries(made);
  }
  get tensors(): Tensor[] {
    return Object.values(this.#values ?? {}).filter((t) => t !== null);
  }
  /** Assigns the values of another plan with the same program. */
  assign({ values }: ProcessorPlan): void {
    for (const [name, t] of Object.entries(this.#values ?? {})) t?.assign(values[name as keyof Values]!.data as never);
  }

  /** Applies the processors to logits f32[B, V] of the token after this text. */
  apply(logits: Tensor, text: TextState): Tensor {
    if (!this.#values) return logits;
    const { limits, ends, suppressed, notFirst, words } = this.#values;
    const [ids, count] = [text.ids!, text.count!];
    const V = logits.size(1);
    const without = (x: Tensor, never: Tensor) => where(never, NEVER, x);
    let x = logits;
    if (this.plan.ngram) x = without(x, repeated(ids, this.plan.ngram, V));
    if (words) x = without(x, completing(ids, words, V));
    const [minLength, minNewTokens, bos, eos, last] = limits.unbind<5>();
    const length = ids.ge(0).sum({ dim: 1, keepdim: true }); // [B, 1]
    x = without(x, length.lt(minLength).logicalOr(count.lt(minNewTokens)).logicalAnd(ends));
    const only = (x: Tensor, token: Tensor, here: Tensor) =>
      where(here.logicalAnd(token.ge(0)), where(arange(V, { dtype: 'i32' }).eq(token), 0, NEVER), x);
    x = only(x, bos, length.eq(1));
    x = only(x, eos, count.eq(last));
    x = without(x, suppressed.logicalOr(notFirst.logicalAnd(count.eq(0))));
    return this.plan.functions.reduce((x, f, i) => checkLogits(f(ids, x), x, i), x);
  }
}

function checkLogits(y: unknown, x: Tensor, i: number): Tensor {
  if (y instanceof Tensor && String(y.shape) === String(x.shape)) return y.float();
  const got = y instanceof Tensor ? `${y.expr.aval}` : describe(y);
  throw new ArgumentError(`generate: logitsProcessor ${i} returned ${got}: it must return logits ${x.expr.aval}`);
}

/** bool[B, V]: tokens that would repeat an earlier sequence of n tokens. */
function repeated(ids: Tensor, n: number, V: number): Tensor {
  const [B, S] = ids.shape as [number, number];
  const none = zeros([B, V], { dtype: 'bool' });
  if (n > S) return none;
  const windows = S - n + 1;
  const ends = ids.narrow(1, n - 1, windows); // the last token of each window of n
  let matches = ends.ge(0);
  for (let i = 0; i < n - 1; i++) {
    const now = ids.narrow(1, S - n + 1 + i, 1); // one of the last n - 1 tokens
    matches = matches.logicalAnd(now.ge(0)).logicalAnd(ids.narrow(1, i, windows).eq(now));
  }
  return marked(none, where(matches, ends, NO_TOKEN));
}

/** bool[B, V]: tokens that would complete one of the words i32[W, L]. */
function completing(ids: Tensor, words: Tensor, V: number): Tensor {
  const [[B, S], [W, L]] = [ids.shape as [number, number], words.shape as [number, number]];
  const lasts = words
    .select(1, L - 1)
    .unsqueeze(0)
    .expand([B, W]);
  let matches = lasts.ge(0);
  for (let i = 0; i < L - 1; i++) {
    const back = L - 1 - i; // distance from the next token
    const wanted = words.select(1, i).unsqueeze(0); // [1, W]
    const now = back <= S ? ids.narrow(1, S - back, 1) : zeros([B, 1], { dtype: 'i32' }).sub(1);
    matches = matches.logicalAnd(wanted.lt(0).logicalOr(wanted.eq(now)));
  }
  return marked(zeros([B, V], { dtype: 'bool' }), where(matches, lasts, NO_TOKEN));
}
