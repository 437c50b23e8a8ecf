// A generation session: the state of some sequences on the device, and the programs that update it, one for each size of prompts
// and one for all further tokens. Subclasses choose the tokens.
import type { DType } from '../base/dtype.js';
import type { Module } from '../nn/module.js';
import { compile, ofLibrary } from '../step/step.js';
import { noGrad } from '../tensor/autograd.js';
import { zeros } from '../tensor/create.js';
import { Generator } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import type { KeyValueCache } from './cache.js';
import { type ProcessorPlan, Processors } from './processors.js';
import { choose, penalize, SETTINGS } from './sampling.js';
import { TextState } from './text-state.js';

/** The model of a session. */
export interface TokenModel extends Module {
  readonly config: { readonly vocabSize: number };
  /** From tokens i32[B, T] to the logits of the next token, [B, V]. */
  next(inputIds: Tensor, cache: KeyValueCache): Tensor;
  /** The logits after each of the tokens, [B, T, V]. */
  forward(inputIds: Tensor, inputs: { readonly cache: KeyValueCache }): Tensor;
  /** Creates a cache with `slots` tokens per sequence. */
  makeCache(batch: number, slots: number): KeyValueCache;
}

/** The properties of a session that determine its programs and memory. */
export interface SessionSpec {
  readonly kind: 'tokens' | 'beams' | 'assisted';
  readonly prompts: number;
  /** Number of sequences of each prompt. */
  readonly copies: number;
  readonly plan: ProcessorPlan;
  /** Whether tokens are drawn, if there is a separate program for it; undefined: one program does both. */
  readonly samples?: boolean | undefined;
  /** Other sizes of the program. */
  readonly sizes?: readonly number[];
  readonly assistant?: TokenModel;
}

export abstract class Session {
  readonly cache: KeyValueCache;
  readonly settings = zeros([SETTINGS]);
  readonly generator = new Generator();
  readonly processors: Processors;
  readonly text: TextState;
  readonly rows: number;
  readonly dtype: DType;
  busy = false;

  constructor(
    readonly model: TokenModel,
    readonly slots: number,
    readonly spec: SessionSpec,
    looksBack = !spec.plan.isEmpty,
  ) {
    this.rows = spec.prompts * spec.copies;
    this.cache = model.makeCache(this.rows, slots);
    this.dtype = dtypeOf(model);
    this.processors = new Processors(spec.plan);
    this.text = TextState.empty(this.rows, model.config.vocabSize, looksBack ? slots : null);
  }

  /** Starts with prompts i32[B, P], padded on the left up to `starts`. Returns the same as `decode`. */
  readonly prefill = compile(
    ofLibrary((ids: Tensor, starts: Tensor) => noGrad(() => this.begin(ids, starts))),
    { name: 'prefill', check: false },
  );
  /** One step. Returns tokens i32[rows, n], -1 for none; with beams i32[1, 1], whether the search continues. */
  readonly decode = compile(
    ofLibrary((...active: Tensor[]) => noGrad(() => this.advance(...active))),
    { name: 'decode', check: false },
  );
  protected abstract begin(ids: Tensor, starts: Tensor): Tensor;
  /** `active`: bool[rows], sequences that have not ended; only for assisted sessions. */
  protected abstract advance(...active: Tensor[]): Tensor;

  /** Runs the prompts. Returns the logits of the first tokens, f32[rows, V], and the text so far. */
  protected readPrompts(ids: Tensor, starts: Tensor): [logits: Tensor, text: TextState] {
    const { model, cache, spec } = this;
    const text = TextState.ofPrompts(ids, starts, model.config.vocabSize, this.text.ids && this.slots);
    const logits = readInto(model, cache, ids, starts, spec.copies).float();
    if (spec.copies === 1) return [logits, text];
    const repeat = (x: Tensor) => x.repeatInterleave(spec.copies, { dim: 0 });
    return [repeat(logits), new TextState(repeat(text.seen), text.ids && repeat(text.ids), text.count)];
  }
  /** The logits from which the next token is chosen: f32[rows, V]. */
  protected processed(logits: Tensor, text: TextState): Tensor {
    return this.processors.apply(penalize(logits, text.seen, this.settings), text);
  }

  /** All tensors of the state, without settings and the processors' values. */
  get state(): Tensor[] {
    return [...this.cache.tensors, ...this.text.tensors];
  }
  get inputs(): Tensor[] {
    return [this.settings, ...this.processors.tensors];
  }
  dispose(): void {
    for (const t of [...this.state, ...this.inputs]) t.dispose();
  }
}

export const dtypeOf = (model: Module): DType => model.parameters()[0]!.dtype;

/** Fills a cache with prompts. Returns the logits of the next tokens. Each prompt is run once, even with several copies. */
export function readInto(model: TokenModel, cache: KeyValueCache, ids: Tensor, starts: Tensor, copies = 1): Tensor {
  if (copies === 1) {
    cache.reset(starts);
    return model.next(ids, cache);
  }
  const small = model.makeCache(ids.size(0), ids.size(1));
  small.reset(starts);
  const logits = model.next(ids, small);
  cache.copyFrom(small, copies);
  return logits;
}

/** Greedy decoding or sampling: the most likely token of each row, or a drawn one. */
export class TokenSession extends Session {
  /** i32[rows, 1]: the last token of each sequence. */
  readonly #last = zeros([this.rows, 1], { dtype: 'i32' });

  protected override begin(ids: Tensor, starts: Tensor): Tensor {
    return this.#choose(...this.readPrompts(ids, starts));
  }
  protected override advance(): Tensor {
    return this.#choose(this.model.next(this.#last, this.cache).float(), this.text);
  }
  #choose(logits: Tensor, text: TextState): Tensor {
    const tokens = choose(this.processed(logits, text), this.settings, this.generator, this.spec.samples);
    this.#last.copy_(tokens.unsqueeze(1));
    this.text.assign(text.add(tokens));
    return tokens.unsqueeze(1);
  }
  override get state(): Tensor[] {
    return [...super.state, this.#last];
  }
}
