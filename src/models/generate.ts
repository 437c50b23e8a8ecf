// Text from a model, token by token: one program for each size of prompts, one for all further tokens.
import { checkWhole } from '../base/check.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import type { Module } from '../nn/module.js';
import { metricData } from '../observe/metrics.js';
import { evaluate } from '../runtime/evaluate.js';
import { compile } from '../step/step.js';
import { noGrad } from '../tensor/autograd.js';
import { arange, tensor, zeros } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import { Generator } from '../tensor/random.js';
import { Tensor } from '../tensor/tensor.js';
import type { KeyValueCache } from './cache.js';
import { type SamplingOptions, sample, samplingSettings } from './sampling.js';
import type { TextStream, Tokenizer } from './tokenizer.js';

export interface GenerateOptions extends SamplingOptions {
  /** At most so many tokens after the prompt. */
  readonly maxNewTokens?: number;
  /** The most likely token, always: temperature 0. */
  readonly doSample?: boolean;
  /** The same seed gives the same tokens; another each time unless told. */
  readonly seed?: number | bigint;
  /** Texts that end a sequence; they are not part of it. */
  readonly stop?: string | readonly string[];
  /** Tokens that end a sequence; the model's own unless told. */
  readonly eosTokenIds?: number | readonly number[];
  /** Room for so many tokens of each sequence, prompt and padding included: a power of two that is enough, unless told. */
  readonly cacheLength?: number;
}
const OPTIONS = [
  'maxNewTokens',
  'doSample',
  'temperature',
  'topK',
  'topP',
  'minP',
  'repetitionPenalty',
  'seed',
  'stop',
  'eosTokenIds',
  'cacheLength',
] as const;

/** Text, or its tokens. */
export type Prompt = string | readonly number[];

/** Why a sequence ended: a token that ends it, a text that does, or there was no more room. */
export type FinishReason = 'eos' | 'stop' | 'length';

/** One more token of a sequence. */
export interface GeneratedPart {
  /** Which of the prompts it follows. */
  readonly index: number;
  readonly token: number;
  /** What it adds to the text: nothing while a character, or what may be a stop text, is not complete. */
  readonly text: string;
  readonly finishReason: FinishReason | null;
}

export interface GeneratedSequence {
  readonly promptTokens: number;
  readonly tokens: readonly number[];
  /** Empty for a model without a tokenizer. */
  readonly text: string;
  readonly finishReason: FinishReason;
}

export interface GenerateTimings {
  /** Without padding. */
  readonly promptTokens: number;
  readonly newTokens: number;
  /** Until the programs were there: described, and compiled or loaded from the disk. */
  readonly compileSeconds: number;
  /** Until the first tokens were there, without compileSeconds. */
  readonly promptSeconds: number;
  /** From then on. */
  readonly decodeSeconds: number;
}

/** What can be generated from: a model that predicts the next token. */
export interface CausalLM extends Module {
  readonly config: { readonly vocabSize: number; readonly maxPositionEmbeddings: number };
  readonly tokenizer: Tokenizer | null;
  readonly generationConfig: Omit<GenerateOptions, 'stop' | 'seed'>;
  /** Tokens i32[B, T] to the logits of the one after the last, [B, V]. */
  next(inputIds: Tensor, cache: KeyValueCache): Tensor;
  /** Room for so many tokens of each sequence. */
  makeCache(batch: number, slots: number): KeyValueCache;
}

const DEFAULT_NEW_TOKENS = 256;
/** The lengths that prompts are padded to. */
export const PROMPT_BUCKETS: readonly number[] = [32, 128, 512, 2048, 8192, 32768, 131072];
const LEAST_CACHE = 256;

/** What is being generated for B sequences with S slots: programs, and the state they work on. */
class Session {
  readonly cache: KeyValueCache;
  readonly settings = zeros([5]);
  readonly generator = new Generator();
  /** i32[B]: the last token of each sequence. */
  readonly #tokens: Tensor;
  /** bool[B, V]: the tokens that are in the sequences. */
  readonly #seen: Tensor;
  readonly dtype: DType;
  busy = false;

  constructor(
    readonly model: CausalLM,
    readonly batch: number,
    readonly slots: number,
  ) {
    this.cache = model.makeCache(batch, slots);
    this.dtype = model.parameters()[0]!.dtype;
    this.#tokens = zeros([batch], { dtype: 'i32' });
    this.#seen = zeros([batch, model.config.vocabSize], { dtype: 'bool' });
  }

  /** Starts with these prompts, i32[B, P], padded on the left up to `starts`; gives the first tokens, i32[B]. */
  readonly prefill = compile(
    (ids: Tensor, starts: Tensor) =>
      noGrad(() => {
        this.cache.reset(starts);
        this.#seen.copy_(this.#tokensIn(ids, starts));
        return this.#choose(ids);
      }),
    { name: 'prefill' },
  );
  /** The next tokens, i32[B]. */
  readonly decode = compile(() => noGrad(() => this.#choose(this.#tokens.unsqueeze(1))), { name: 'decode' });

  #choose(ids: Tensor): Tensor {
    const logits = this.model.next(ids, this.cache).float();
    const next = sample(logits, this.#seen, this.settings, this.generator);
    this.#tokens.copy_(next);
    this.#seen.copy_(this.#seen.scatter(1, next.long().unsqueeze(1), true));
    return next;
  }
  #tokensIn(ids: Tensor, starts: Tensor): Tensor {
    const [P, V] = [ids.size(1), this.model.config.vocabSize];
    const isToken = arange(P, { dtype: 'i32' }).ge(starts.unsqueeze(1)); // [B, P]
    const places = where(isToken, ids, V).long(); // padding goes to a column that is cut off
    return zeros([this.batch, V + 1], { dtype: 'bool' })
      .scatter(1, places, true)
      .narrow(1, 0, V);
  }

  /** All but the settings. */
  get state(): Tensor[] {
    return [...this.cache.tensors, this.#tokens, this.#seen];
  }
  dispose(): void {
    for (const t of [...this.state, this.settings]) t.dispose();
  }
}

/** The last session of each model, for the next generation of its size. */
const sessions = new WeakMap<CausalLM, Session>();

/** A session that nobody else uses until `busy` is false. */
async function sessionFor(model: CausalLM, batch: number, slots: number, exactly: boolean): Promise<Session> {
  const last = sessions.get(model);
  if (last && !last.busy) {
    const fits = exactly ? last.slots === slots : last.slots >= slots && last.slots <= 4 * slots;
    last.busy = fits && last.batch === batch && last.dtype === model.parameters()[0]!.dtype;
    if (last.busy) return last;
    last.dispose();
  }
  const session = new Session(model, batch, slots);
  session.busy = true;
  if (!last?.busy) sessions.set(model, session);
  // By itself: with whatever else is pending it would be another program each time.
  await evaluate(
    session.state.map((t) => t.expr),
    { cause: 'sync', name: 'emptyCache' },
  );
  return session;
}

/** Frees the memory of a model's key-value cache, which is kept for its next generation. */
export function releaseCache(model: CausalLM): void {
  const last = sessions.get(model);
  if (last?.busy) throw new ArgumentError('releaseCache: the model is generating: end that first');
  last?.dispose();
  sessions.delete(model);
}

/** The text of one sequence: held back while it may be the beginning of a stop text. */
class StopText {
  #held = '';
  stopped = false;
  constructor(
    private readonly stops: readonly string[],
    private readonly stream: TextStream | undefined,
  ) {}
  push(token: number): string {
    return this.#take(this.stream?.push(token) ?? '');
  }
  end(): string {
    return this.#take(this.stream?.end() ?? '') + (this.stopped ? '' : this.#held);
  }
  #take(more: string): string {
    const text = this.#held + more;
    const ends = this.stops.map((s) => text.indexOf(s)).filter((i) => i >= 0);
    this.stopped = ends.length > 0;
    const sure = this.stopped ? Math.min(...ends) : text.length - this.#startOfStop(text);
    this.#held = text.slice(sure);
    return text.slice(0, sure);
  }
  /** How many characters at the end may be the beginning of a stop text. */
  #startOfStop(text: string): number {
    const longest = Math.max(0, ...this.stops.map((s) => s.length - 1));
    for (let n = Math.min(longest, text.length); n > 0; n--)
      if (this.stops.some((s) => s.startsWith(text.slice(-n)))) return n;
    return 0;
  }
}

/** Whoever gives a temperature wants it to have an effect, whatever the model's folder says. */
const asksForSampling = ({ temperature, topK, topP, minP }: GenerateOptions): boolean =>
  temperature === undefined ? (topK ?? topP ?? minP) !== undefined : temperature > 0;

/** A generation under way: parts as they come, and what it took when it has ended. */
export class Generation implements AsyncIterable<GeneratedPart> {
  readonly #model: CausalLM;
  readonly #prompts: readonly (readonly number[])[];
  readonly #options: GenerateOptions;
  readonly #stops: readonly string[];
  readonly #newTokens: number;
  #timings: GenerateTimings | undefined;

  constructor(model: CausalLM, prompts: Prompt | readonly Prompt[], given: GenerateOptions) {
    this.#model = model;
    checkOptions('generate', OPTIONS, given);
    checkPrompts(prompts);
    const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
    this.#options = { ...model.generationConfig, ...(asksForSampling(known) && { doSample: true }), ...known };
    const list =
      typeof prompts === 'string' || typeof prompts[0] === 'number' || ArrayBuffer.isView(prompts)
        ? [prompts as Prompt]
        : prompts;
    this.#prompts = (list as readonly Prompt[]).map((p, i) => tokensOf(model, p, i));
    if (!this.#prompts.length) throw new ArgumentError('generate: there is no prompt');
    this.#stops = [this.#options.stop ?? []].flat();
    if (this.#stops.length && !model.tokenizer)
      throw new ArgumentError('generate: stop texts need a tokenizer: the model has none; use eosTokenIds');
    if (this.#stops.includes('')) throw new ArgumentError('generate: an empty stop text would end everything');
    const { maxNewTokens = DEFAULT_NEW_TOKENS } = this.#options;
    checkWhole('generate: maxNewTokens', maxNewTokens, 1);
    const room = model.config.maxPositionEmbeddings - Math.max(...this.#prompts.map((p) => p.length));
    if (room < 1)
      throw new ArgumentError(
        `generate: a prompt of ${Math.max(...this.#prompts.map((p) => p.length))} tokens leaves no room: the model has ` +
          `${model.config.maxPositionEmbeddings} positions; shorten it`,
      );
    this.#newTokens = Math.min(maxNewTokens, room);
  }

  /** Once all parts were read. */
  get timings(): GenerateTimings {
    if (!this.#timings) throw new ArgumentError('generate: timings are there when all parts were read');
    return this.#timings;
  }

  /** Reads all parts. */
  async collect(): Promise<GeneratedSequence[]> {
    const all = this.#prompts.map((p) => ({
      promptTokens: p.length,
      tokens: [] as number[],
      text: '',
      finishReason: 'length' as FinishReason,
    }));
    for await (const { index, token, text, finishReason } of this) {
      const sequence = all[index]!;
      sequence.tokens.push(token);
      sequence.text += text;
      if (finishReason) sequence.finishReason = finishReason;
    }
    return all;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GeneratedPart, void, undefined> {
    const [model, prompts, options] = [this.#model, this.#prompts, this.#options];
    const { vocabSize } = model.config;
    const greedy = options.doSample === false ? { temperature: 0 } : {};
    const settings = samplingSettings({ ...picked(options), ...greedy }, vocabSize);
    const ends = new Set([options.eosTokenIds ?? []].flat());
    const P = bucketOf(Math.max(...prompts.map((p) => p.length)));
    const needed = P + this.#newTokens;
    const { cacheLength = 2 ** Math.ceil(Math.log2(Math.max(needed, LEAST_CACHE))) } = options;
    if (!Number.isSafeInteger(cacheLength) || cacheLength < needed)
      throw new ArgumentError(
        `generate: cacheLength is ${cacheLength}: a prompt padded to ${P} and ${this.#newTokens} tokens need ${needed}`,
      );
    const session = await sessionFor(model, prompts.length, cacheLength, options.cacheLength !== undefined);
    const rows = prompts.map(() => ({ text: new StopText(this.#stops, model.tokenizer?.stream()), done: false }));
    const clock = new Clock();
    let newTokens = 0;
    const under: Tensor[] = []; // what was asked for and not read yet
    try {
      session.settings.assign(settings);
      if (options.seed === undefined) session.generator.seed();
      else session.generator.manualSeed(options.seed);
      const ids = new Int32Array(prompts.length * P);
      prompts.forEach((p, i) => void ids.set(p, (i + 1) * P - p.length));
      const starts = Int32Array.from(prompts, (p) => P - p.length);
      under.push(await session.prefill(tensor(ids, { shape: [prompts.length, P] }), tensor(starts)));
      for (let n = 1; rows.some((r) => !r.done); n++) {
        // The next step is started before this one's tokens are read: the device does not wait for us.
        if (n < this.#newTokens) under.push(await session.decode());
        const tokens = under.shift()!;
        const read = await tokens.data();
        tokens.dispose();
        if (n === 1) clock.promptIsDone();
        for (const [index, row] of rows.entries()) {
          if (row.done) continue;
          newTokens++;
          const token = Number(read[index]);
          let text = row.text.push(token);
          const reason: FinishReason | null = ends.has(token)
            ? 'eos'
            : row.text.stopped
              ? 'stop'
              : n === this.#newTokens
                ? 'length'
                : null;
          if (reason) {
            row.done = true;
            text += row.text.end();
          }
          yield { index, token, text, finishReason: reason };
        }
      }
      const promptTokens = prompts.reduce((sum, p) => sum + p.length, 0);
      this.#timings = { promptTokens, newTokens, ...clock.read() };
    } finally {
      for (const t of under) t.dispose();
      session.busy = false;
      if (sessions.get(model) !== session) session.dispose();
    }
  }
}

/** How long things took, the time of compiling told apart. */
class Clock {
  readonly #start = now();
  #prompt = this.#start;
  promptIsDone(): void {
    this.#prompt = now();
  }
  read(): Pick<GenerateTimings, 'compileSeconds' | 'promptSeconds' | 'decodeSeconds'> {
    const [start, prompt, end] = [this.#start, this.#prompt, now()];
    const spent = (a: typeof end, b: typeof end) => Math.max(0, b.time - a.time - (b.compiling - a.compiling));
    return {
      compileSeconds: end.compiling - start.compiling,
      promptSeconds: spent(start, prompt),
      decodeSeconds: spent(prompt, end),
    };
  }
}
/** Until a program is there: described, compiled, or loaded from the disk. */
const PREPARING = ['LazyTracing', 'CompileTime', 'PersistentCacheLoad'];
const now = () => ({
  time: performance.now() / 1e3,
  compiling: PREPARING.reduce((sum, metric) => sum + (metricData(metric)?.accumulator ?? 0) / 1e9, 0),
});

const SAMPLING = ['repetitionPenalty', 'temperature', 'topK', 'topP', 'minP'] as const;
const picked = (options: SamplingOptions): SamplingOptions =>
  Object.fromEntries(SAMPLING.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])));

function bucketOf(length: number): number {
  return PROMPT_BUCKETS.find((n) => n >= length) ?? 2 ** Math.ceil(Math.log2(length));
}

function checkPrompts(prompts: unknown): void {
  const wrong = (Array.isArray(prompts) ? prompts : [prompts]).find(
    (p) => typeof p !== 'string' && typeof p !== 'number' && !Array.isArray(p) && !ArrayBuffer.isView(p),
  );
  if (wrong !== undefined || prompts === undefined)
    throw new ArgumentError(
      `generate: the prompt is ${describe(wrong)}: it takes a text, a list of token ids, or a list of those${
        wrong instanceof Tensor ? ': of a tensor, Array.from(await ids.data(), Number) is one' : ''
      }`,
    );
}

function tokensOf(model: CausalLM, prompt: Prompt, i: number): readonly number[] {
  if (typeof prompt === 'string' && !model.tokenizer)
    throw new ArgumentError('generate: the model has no tokenizer: give token ids instead of text');
  const tokens = typeof prompt === 'string' ? model.tokenizer!.encode(prompt) : prompt;
  if (!tokens.length) throw new ArgumentError(`generate: prompt ${i} is empty: it needs at least one token`);
  const { vocabSize } = model.config;
  const odd = tokens.find((t) => !Number.isInteger(t) || t < 0 || t >= vocabSize);
  if (odd !== undefined)
    throw new ArgumentError(
      `generate: token ${odd} of prompt ${i} is out of range: the model has 0 to ${vocabSize - 1}`,
    );
  return tokens;
}
