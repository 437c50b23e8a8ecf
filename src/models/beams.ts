// Beam search as in transformers: for each prompt the K most likely unfinished texts, and the K best finished ones.
//   B prompts, K beams each, C candidates for the next token of all beams of a prompt, V = vocabSize, S slots
import { arange, full, zeros } from '../tensor/create.js';
import { cat, logSoftmax, topk, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { Session, type SessionSpec, type TokenModel } from './session.js';
import { NO_TOKEN, type TextState } from './text-state.js';

export interface BeamOptions {
  /** Number of beams; 1: no beam search. Default: 1. */
  readonly numBeams?: number;
  /** Scores are sums of log-probabilities divided by length ** lengthPenalty: above 0 favors longer texts. Default: 1. */
  readonly lengthPenalty?: number;
  /**
   * When the search ends: true, as soon as there are numBeams finished texts; false, when a better one is unlikely; 'never',
   * when there can be no better one. Default: false.
   */
  readonly earlyStopping?: boolean | 'never';
}
export const BEAMS = ['numBeams', 'lengthPenalty', 'earlyStopping'] as const satisfies (keyof BeamOptions)[];

/** The finished texts of all prompts, best first, with their numbers of new tokens and scores. */
interface Finished {
  readonly ids: Tensor; // i32[B, K, S]
  readonly lengths: Tensor; // i32[B, K]
  readonly scores: Tensor; // f32[B, K]
  readonly done: Tensor; // bool[B, K]: whether there is one
}

/** A finite number below every score, as in transformers. */
const WORST = -1e9;
const EARLY = [false, true, 'never'] as const;

export class BeamSession extends Session {
  readonly #beams: number; // K
  readonly #candidates: number; // C
  /** bool[V]: tokens that end a text. */
  readonly #ends = zeros([this.model.config.vocabSize], { dtype: 'bool' });
  /** lengthPenalty, maxNewTokens, the index of earlyStopping in EARLY. */
  readonly #rule = zeros([3]);
  readonly #last = zeros([this.rows, 1], { dtype: 'i32' });
  /** i32[B K]: the row of the cache that each beam continues from. */
  readonly #from = arange(this.rows, { dtype: 'i32' });
  /** f32[B, K]: sums of log-probabilities. */
  readonly #scores: Tensor;
  readonly #finished: Finished;
  /** bool[B, 1]: prompts for which a better text is possible. */
  readonly #open: Tensor;
  /** bool[]: whether the search continues. */
  readonly #continues = full([], true, { dtype: 'bool' });

  constructor(model: TokenModel, slots: number, spec: SessionSpec) {
    super(model, slots, spec, true);
    const [B, K] = [spec.prompts, spec.copies];
    this.#beams = K;
    this.#candidates = Math.max(2, 1 + spec.sizes![0]!) * K; // K remain even if all end tokens are among the candidates
    this.#scores = zeros([B, K]);
    this.#open = full([B, 1], true, { dtype: 'bool' });
    this.#finished = {
      ids: zeros([B, K, slots], { dtype: 'i32' }),
      lengths: zeros([B, K], { dtype: 'i32' }),
      scores: zeros([B, K]),
      done: zeros([B, K], { dtype: 'bool' }),
    };
  }
  /** Sets the options of a search, before it starts. */
  search(
    ends: ReadonlySet<number>,
    maxNewTokens: number,
    { lengthPenalty = 1, earlyStopping = false }: BeamOptions,
  ): void {
    const { vocabSize } = this.model.config;
    this.#ends.assign(Uint8Array.from({ length: vocabSize }, (_, t) => Number(ends.has(t))));
    this.#rule.assign(Float32Array.of(lengthPenalty, maxNewTokens, EARLY.indexOf(earlyStopping)));
  }
  /** Reads the finished texts. */
  async read(): Promise<{ ids: Int32Array; lengths: Int32Array; scores: Float32Array }> {
    const { ids, lengths, scores } = this.#finished;
    const [i, n, s] = await Promise.all([ids.data(), lengths.data(), scores.data()]);
    return { ids: i as Int32Array, lengths: n as Int32Array, scores: s as Float32Array };
  }

  protected override begin(ids: Tensor, starts: Tensor): Tensor {
    const [logits, text] = this.readPrompts(ids, starts);
    const [B, K] = [this.spec.prompts, this.#beams];
    this.#finished.ids.fill_(NO_TOKEN);
    this.#finished.lengths.zero_();
    this.#finished.scores.fill_(WORST);
    this.#finished.done.fill_(false);
    this.#open.fill_(true);
    this.#continues.fill_(true);
    // At first all beams are the same text, so only the first is used.
    return this.#grow(logits, text, where(arange(K).eq(0), 0, WORST).float().expand([B, K]));
  }
  protected override advance(): Tensor {
    this.cache.reorder(this.#from);
    return this.#grow(this.model.next(this.#last, this.cache).float(), this.text, this.#scores);
  }

  /** Extends each beam by one token. `logits`: [B K, V], after this text. */
  #grow(logits: Tensor, text: TextState, scores: Tensor): Tensor {
    const [B, K, C, V] = [this.spec.prompts, this.#beams, this.#candidates, logits.size(1)];
    const [, maxNewTokens] = this.#rule.unbind<3>();
    const logs = this.processed(logSoftmax(logits, -1), text).reshape([B, K, V]).add(scores.unsqueeze(2));
    const best = topk(logs.reshape([B, K * V]), C); // [B, C]
    const beam = best.indices.floorDivide(V).int();
    const token = best.indices.remainder(V).int();
    const count = text.count!.add(1);
    const ends = this.#ends
      .indexSelect(0, token.reshape([-1]))
      .reshape([B, C])
      .logicalOr(count.ge(maxNewTokens));
    this.#finish(text, { beam, token, ends, scores: best.values }, count);

    const running = best.values.add(where(ends, WORST, 0)); // finished candidates do not continue
    const next = topk(running, K).indices; // [B, K]
    const first = arange(B, { dtype: 'i32' }).mul(K).unsqueeze(1); // the first row of each prompt
    const from = beam.gather(1, next).add(first).reshape([-1]);
    const tokens = token.gather(1, next).reshape([-1]);
    const after = running.gather(1, next);
    this.#from.copy_(from);
    this.#last.copy_(tokens.unsqueeze(1));
    this.#scores.copy_(after);
    this.text.assign(text.rows(from).add(tokens));
    this.#continues.copy_(this.#continues.logicalAnd(this.#canContinue(after, ends, count)));
    return this.#continues.int().reshape([1, 1]);
  }

  /** Adds those of the first K candidates that end to the finished texts, if they are better. */
  #finish(text: TextState, c: Record<'beam' | 'token' | 'ends' | 'scores', Tensor>, count: Tensor): void {
    const [B, K, C, S] = [this.spec.prompts, this.#beams, this.#candidates, this.slots];
    const { ids, lengths, scores, done } = this.#finished;
    const [lengthPenalty, , early] = this.#rule.unbind<3>();
    const ended = c.ends.logicalAnd(arange(C).lt(K));
    const isFull = done.all({ dim: 1, keepdim: true }).logicalAnd(early.eq(EARLY.indexOf(true)));
    const counts = ended.logicalAnd(isFull.logicalNot()).logicalAnd(this.#open);
    const mine = c.scores.div(count.float().pow(lengthPenalty)).add(where(counts, 0, WORST));
    const best = topk(cat([scores, mine], 1), K).indices; // [B, K]
    const rows = c.beam.add(arange(B, { dtype: 'i32' }).mul(K).unsqueeze(1)).reshape([-1]);
    const texts = text
      .rows(rows)
      .add(c.token.reshape([-1]))
      .ids!.reshape([B, C, S]);
    const pick = (before: Tensor, now: Tensor) => cat([before, now], 1).gather(1, best);
    const put = (before: Tensor, now: Tensor) => void before.copy_(where(this.#continues, now, before));
    const index = best.unsqueeze(2).expand([B, K, S]);
    put(ids, cat([ids, texts], 1).gather(1, index));
    put(lengths, pick(lengths, count.expand([B, C])));
    put(scores, pick(scores, mine));
    put(done, pick(done, ended));
  }

  /** bool[]: whether beams with these scores [B, K] can yield a better text; `ends`: bool[B, C], candidates that ended. */
  #canContinue(running: Tensor, ends: Tensor, count: Tensor): Tensor {
    const { scores, done } = this.#finished;
    const [lengthPenalty, maxNewTokens, early] = this.#rule.unbind<3>();
    const isPatient = early.eq(EARLY.indexOf('never')).logicalAnd(lengthPenalty.gt(0));
    const length = where(isPatient, maxNewTokens, count.float());
    const possible = running.narrow(1, 0, 1).div(length.pow(lengthPenalty)); // [B, 1]
    const worst = where(done, scores.amin({ dim: 1, keepdim: true }), WORST); // [B, K]
    this.#open.copy_(this.#open.logicalAnd(possible.gt(worst).any({ dim: 1, keepdim: true })));
    const isFull = done.all().logicalAnd(early.eq(EARLY.indexOf(true)));
    return this.#open.any().logicalAnd(isFull.logicalNot()).logicalAnd(ends.all().logicalNot());
  }

  override get state(): Tensor[] {
    const { ids, lengths, scores, done } = this.#finished;
    const own = [this.#last, this.#from, this.#scores, this.#open, this.#continues];
    return [...super.state, ...own, ids, lengths, scores, done];
  }
  override get inputs(): Tensor[] {
    return [...super.inputs, this.#ends, this.#rule];
  }
}
