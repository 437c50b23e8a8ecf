// Text generation: one program for each size of prompts, one for all further tokens.
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { metricData } from '../observe/metrics.js';
import { device } from '../runtime/device.js';
import { evaluate } from '../runtime/evaluate.js';
import { tensor } from '../tensor/create.js';
import { Tensor } from '../tensor/tensor.js';
import { AssistedSession } from './assisted.js';
import { BeamSession } from './beams.js';
import { type GenerateOptions, type GenerationPlan, planOf } from './generate-options.js';
import { dtypeOf, type Session, type SessionSpec, type TokenModel, TokenSession } from './session.js';
import { StopText } from './stop-text.js';
import { NO_TOKEN } from './text-state.js';
import type { Tokenizer } from './tokenizer.js';

export type { GenerateOptions } from './generate-options.js';

/** Text, or its tokens. */
export type Prompt = string | readonly number[];

/** Why a sequence ended: an end token, a stop string, or the limit of tokens. */
export type FinishReason = 'eos' | 'stop' | 'length';

/** One more token of a sequence. */
export interface GeneratedPart {
  /** The index of the sequence; those of a prompt are adjacent. */
  readonly index: number;
  readonly token: number;
  /** The new text; empty while a character is incomplete or a stop string may have begun. */
  readonly text: string;
  readonly finishReason: FinishReason | null;
}

export interface GeneratedSequence {
  readonly promptTokens: number;
  readonly tokens: readonly number[];
  /** Empty for a model without a tokenizer. */
  readonly text: string;
  readonly finishReason: FinishReason;
  /** With beam search: the sum of log-probabilities divided by length ** lengthPenalty. */
  readonly score?: number;
}

export interface GenerateTimings {
  /** Number of tokens in prompts, without padding. */
  readonly promptTokens: number;
  readonly newTokens: number;
  /** Time to trace programs and to compile or load them. */
  readonly compileSeconds: number;
  /** Time until the first tokens, without compileSeconds. */
  readonly promptSeconds: number;
  /** Time from the first tokens to the end, without compileSeconds. */
  readonly decodeSeconds: number;
  /** With speculative decoding: the number of runs of the model after the prompt. */
  readonly checks?: number;
}

/** A model that generate() accepts. */
export interface CausalLM extends TokenModel {
  readonly config: { readonly vocabSize: number; readonly maxPositionEmbeddings: number };
  readonly tokenizer: Tokenizer | null;
  readonly generationConfig: Omit<GenerateOptions, 'stop' | 'seed' | 'assistantModel'>;
}

/** The lengths to which prompts are padded: 32 to 131072, at most twice their own. Below 32, reading weights dominates. */
export const PROMPT_BUCKETS: readonly number[] = Array.from({ length: 13 }, (_, i) => 32 * 2 ** i);
const LEAST_CACHE = 256;

/** The last session of each model, for the next generation of its kind and size. */
const sessions = new WeakMap<TokenModel, Session>();

function isLike(a: SessionSpec, b: SessionSpec): boolean {
  const own = ({ kind, prompts, copies, samples, sizes }: SessionSpec) =>
    JSON.stringify([kind, prompts, copies, samples, sizes]);
  return own(a) === own(b) && a.assistant === b.assistant && a.plan.isLike(b.plan);
}

/** A session for exclusive use until `busy` is false. */
async function sessionFor(model: TokenModel, slots: number, exactly: boolean, spec: SessionSpec): Promise<Session> {
  const last = sessions.get(model);
  if (last && !last.busy) {
    const fits = exactly ? last.slots === slots : last.slots >= slots && last.slots <= 4 * slots;
    last.busy = fits && isLike(last.spec, spec) && last.dtype === dtypeOf(model);
    if (last.busy) return last;
    last.dispose();
  }
  const session = makeSession(model, slots, spec);
  session.busy = true;
  if (!last?.busy) sessions.set(model, session);
  // Separately: together with other pending tensors it would be a new program each time.
  await evaluate(
    session.state.map((t) => t.expr),
    { cause: 'sync', name: 'emptyCache', internal: true },
  );
  return session;
}
function makeSession(model: TokenModel, slots: number, spec: SessionSpec): Session {
  if (spec.kind === 'beams') return new BeamSession(model, slots, spec);
  return new { tokens: TokenSession, assisted: AssistedSession }[spec.kind](model, slots, spec);
}

/** Whether the host waits for the condition of a branch (CUDA). Then one branch per token would be too slow. */
const branchesWait = (): boolean => device() === 'cuda';

/** Frees the memory of a model's key-value cache, which is otherwise kept for its next generation. */
export function releaseCache(model: CausalLM): void {
  const last = sessions.get(model);
  if (last?.busy) throw new ArgumentError('releaseCache: the model is generating: wait for it to end first');
  last?.dispose();
  sessions.delete(model);
}

/** A running generation: yields parts as they are computed; has timings once it has ended. */
export class Generation implements AsyncIterable<GeneratedPart> {
  readonly #model: CausalLM;
  readonly #prompts: readonly (readonly number[])[];
  readonly #plan: GenerationPlan;
  #timings: GenerateTimings | undefined;
  /** The score of each sequence. */
  #scores: readonly number[] | undefined;

  constructor(model: CausalLM, prompts: Prompt | readonly Prompt[], given: GenerateOptions) {
    this.#model = model;
    checkPrompts(prompts);
    const list =
      typeof prompts === 'string' || typeof prompts[0] === 'number' || ArrayBuffer.isView(prompts)
        ? [prompts as Prompt]
        : prompts;
    this.#prompts = (list as readonly Prompt[]).map((p, i) => tokensOf(model, p, i));
    if (!this.#prompts.length) throw new ArgumentError('generate: the list of prompts is empty');
    const longest = Math.max(...this.#prompts.map((p) => p.length));
    if (model.config.maxPositionEmbeddings - longest < 1)
      throw new ArgumentError(
        `generate: a prompt has ${longest} tokens, which leaves no room for new ones: the model has ` +
          `${model.config.maxPositionEmbeddings} positions; shorten the prompt`,
      );
    this.#plan = planOf(model, given, longest);
  }

  /** Timings; throws before all parts were read. */
  get timings(): GenerateTimings {
    if (!this.#timings) throw new ArgumentError('generate: timings are available only after all parts were read');
    return this.#timings;
  }

  /** Reads all parts and returns the sequences. */
  async collect(): Promise<GeneratedSequence[]> {
    const all = this.#prompts.flatMap(({ length }) =>
      Array.from({ length: this.#plan.returned }, () => ({
        promptTokens: length,
        tokens: [] as number[],
        text: '',
        finishReason: 'length' as FinishReason,
      })),
    );
    for await (const { index, token, text, finishReason } of this) {
      const sequence = all[index]!;
      sequence.tokens.push(token);
      sequence.text += text;
      if (finishReason) sequence.finishReason = finishReason;
    }
    return all.map((sequence, i) => ({ ...sequence, ...(this.#scores && { score: this.#scores[i]! }) }));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GeneratedPart, void, undefined> {
    const [model, prompts, plan] = [this.#model, this.#prompts, this.#plan];
    const P = bucketOf(Math.max(...prompts.map((p) => p.length)));
    const session = await this.#session(P);
    const clock = new Clock();
    let newTokens = 0;
    try {
      session.settings.assign(plan.settings);
      session.processors.assign(plan.processors);
      if (session instanceof BeamSession) session.search(plan.ends, plan.newTokens, plan.beams);
      if (plan.seed === undefined) session.generator.seed();
      else session.generator.manualSeed(plan.seed);
      const ids = new Int32Array(prompts.length * P);
      prompts.forEach((p, i) => void ids.set(p, (i + 1) * P - p.length));
      const starts = Int32Array.from(prompts, (p) => P - p.length);
      const first = await session.prefill(tensor(ids, { shape: [prompts.length, P] }), tensor(starts));
      const parts =
        session instanceof BeamSession ? this.#beams(session, first, clock) : this.#tokens(session, first, clock);
      for await (const part of parts) {
        newTokens++;
        yield part;
      }
      const promptTokens = prompts.reduce((sum, p) => sum + p.length, 0);
      this.#timings = {
        promptTokens,
        newTokens,
        ...clock.read(),
        ...(plan.kind === 'assisted' && { checks: clock.steps }),
      };
    } finally {
      session.busy = false;
      if (sessions.get(model) !== session) session.dispose();
    }
  }

  /** The session, with a cache for prompts of P tokens, including padding. */
  async #session(P: number): Promise<Session> {
    const { kind, copies, processors, ends, assistant, proposed, samples, newTokens, cacheLength: given } = this.#plan;
    const ahead = kind === 'assisted' ? 2 * (proposed + 1) : 0; // proposed tokens, also of the step that runs ahead
    const needed = P + newTokens + ahead;
    const slots = given ?? 2 ** Math.ceil(Math.log2(Math.max(needed, LEAST_CACHE)));
    if (!Number.isSafeInteger(slots) || slots < needed)
      throw new ArgumentError(
        `generate: cacheLength is ${slots}, but a prompt padded to ${P} and ${newTokens} new tokens need ${needed}`,
      );
    const sizes = { tokens: [], beams: [ends.size], assisted: [proposed] }[kind];
    const apart = kind === 'assisted' || (kind === 'tokens' && branchesWait());
    const spec = {
      ...{ kind, prompts: this.#prompts.length, copies, plan: processors, sizes },
      ...(apart && { samples }),
    };
    return sessionFor(this.#model, slots, given !== undefined, { ...spec, ...(assistant && { assistant }) });
  }

  /** Yields parts as their tokens are computed. `first` has the tokens after the prompts. */
  async *#tokens(session: Session, first: Tensor, clock: Clock): AsyncGenerator<GeneratedPart> {
    const { kind, ends, stops, newTokens } = this.#plan;
    const rows = Array.from({ length: session.rows }, () => ({ text: this.#textOf(stops), done: false }));
    const under = [first]; // tokens that are being computed and not read yet
    const active = () =>
      tensor(
        Uint8Array.from(rows, (r) => Number(!r.done)),
        { dtype: 'bool' },
      );
    const next = () => session.decode(...(kind === 'assisted' ? [active()] : []));
    let n = 0; // tokens of each sequence so far
    try {
      while (rows.some((r) => !r.done)) {
        // The next step is started before this one's tokens are read, so that the device does not wait for the host.
        if (n + under.length < newTokens) under.push(await next());
        const { data, width } = await readRows(under.shift()!);
        if (n === 0) clock.promptIsDone();
        else clock.steps++;
        for (let column = 0; column < width && Number(data[column]) !== NO_TOKEN && n < newTokens; column++) {
          n++;
          for (const [index, row] of rows.entries()) {
            if (row.done) continue;
            const token = Number(data[index * width + column]);
            let text = row.text.push(token);
            const reason = reasonOf(ends.has(token), row.text.stopped, n === newTokens);
            if (reason) {
              row.done = true;
              text += row.text.end();
            }
            yield { index, token, text, finishReason: reason };
          }
        }
      }
    } finally {
      for (const t of under) t.dispose();
    }
  }

  /** Yields parts of the best texts after the search. */
  async *#beams(session: BeamSession, first: Tensor, clock: Clock): AsyncGenerator<GeneratedPart> {
    const { ends, copies, returned } = this.#plan;
    const under = [first];
    try {
      for (let goes = true; goes; ) {
        // Started before it is known whether it is needed: an additional step does not change the results.
        under.push(await session.decode());
        const { data } = await readRows(under.shift()!);
        clock.promptIsDone();
        goes = Number(data[0]) === 1;
      }
    } finally {
      for (const t of under) t.dispose();
    }
    const { ids, lengths, scores } = await session.read();
    const wanted = this.#prompts.flatMap((_, p) => Array.from({ length: returned }, (_, i) => p * copies + i));
    this.#scores = wanted.map((row) => scores[row]!);
    for (const [index, row] of wanted.entries()) {
      const end = (row + 1) * session.slots;
      const tokens = ids.subarray(end - lengths[row]!, end);
      const stream = this.#textOf([]);
      for (const [i, token] of tokens.entries()) {
        const isLast = i === tokens.length - 1;
        const text = stream.push(token) + (isLast ? stream.end() : '');
        yield { index, token, text, finishReason: isLast ? reasonOf(ends.has(token), false, true) : null };
      }
    }
  }
  #textOf(stops: readonly string[]): StopText {
    return new StopText(stops, this.#model.tokenizer?.stream());
  }
}

const reasonOf = (isEnd: boolean, isStopped: boolean, isLast: boolean): FinishReason | null =>
  isEnd ? 'eos' : isStopped ? 'stop' : isLast ? 'length' : null;

async function readRows(t: Tensor): Promise<{ data: ArrayLike<number | bigint>; width: number }> {
  const [data, width] = [await t.data(), t.size(1)];
  t.dispose();
  return { data, width };
}

/** Measures the phases of a generation, with compile time separately. */
class Clock {
  readonly #start = now();
  #prompt: ReturnType<typeof now> | undefined;
  /** Number of runs of the model after the prompt. */
  steps = 0;
  promptIsDone(): void {
    this.#prompt ??= now();
  }
  read(): Pick<GenerateTimings, 'compileSeconds' | 'promptSeconds' | 'decodeSeconds'> {
    const end = now();
    const [start, prompt] = [this.#start, this.#prompt ?? end];
    const spent = (a: typeof end, b: typeof end) => Math.max(0, b.time - a.time - (b.compiling - a.compiling));
    return {
      compileSeconds: end.compiling - start.compiling,
      promptSeconds: spent(start, prompt),
      decodeSeconds: spent(prompt, end),
    };
  }
}
/** Metrics of preparing a program: tracing, compiling, loading from the disk. */
const PREPARING = ['LazyTracing', 'CompileTime', 'PersistentCacheLoad'];
const now = () => ({
  time: performance.now() / 1e3,
  compiling: PREPARING.reduce((sum, metric) => sum + (metricData(metric)?.accumulator ?? 0) / 1e9, 0),
});

function bucketOf(length: number): number {
  return PROMPT_BUCKETS.find((n) => n >= length) ?? 2 ** Math.ceil(Math.log2(length));
}

function checkPrompts(prompts: unknown): void {
  const wrong = (Array.isArray(prompts) ? prompts : [prompts]).find(
    (p) => typeof p !== 'string' && typeof p !== 'number' && !Array.isArray(p) && !ArrayBuffer.isView(p),
  );
  if (wrong !== undefined || prompts === undefined)
    throw new ArgumentError(
      `generate: the prompt is ${describe(wrong)}: it must be a string, a list of token ids, or a list of those${
        wrong instanceof Tensor
          ? '. For a tensor, pass Array.from(await ids.data(), Number)'
          : typeof wrong === 'object' && wrong && 'role' in wrong
            ? '. For messages, pass model.tokenizer.applyChatTemplate(messages)'
            : ''
      }`,
    );
}

function tokensOf(model: CausalLM, prompt: Prompt, i: number): readonly number[] {
  if (typeof prompt === 'string' && !model.tokenizer)
    throw new ArgumentError('generate: the model has no tokenizer: pass token ids instead of text');
  const tokens = typeof prompt === 'string' ? model.tokenizer!.encode(prompt) : prompt;
  if (!tokens.length) throw new ArgumentError(`generate: prompt ${i} is empty: it needs at least one token`);
  const { vocabSize } = model.config;
  const odd = tokens.find((t) => !Number.isInteger(t) || t < 0 || t >= vocabSize);
  if (odd !== undefined)
    throw new ArgumentError(
      `generate: token ${odd} of prompt ${i} is out of range: the model's tokens are 0 to ${vocabSize - 1}`,
    );
  return tokens;
}
