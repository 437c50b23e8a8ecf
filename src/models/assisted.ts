// Speculative decoding (arXiv:2211.17192): a smaller model proposes k tokens, the model checks them in one run. The distribution of
// samples does not change; greedy tokens are the same.
//   B sequences, V = vocabSize
import { arange, zeros } from '../tensor/create.js';
import { cat, softmax, stack, where } from '../tensor/functions.js';
import { rand } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import type { KeyValueCache } from './cache.js';
import { draw, warp } from './sampling.js';
import { readInto, Session, type SessionSpec, type TokenModel } from './session.js';
import { NO_TOKEN, type TextState } from './text-state.js';

/** The default number of tokens that are proposed at a time. */
export const ASSISTANT_TOKENS = 5;

export class AssistedSession extends Session {
  readonly assistant: TokenModel;
  readonly #proposed: number; // k
  readonly #samples: boolean;
  /** The assistant's cache. Rejected tokens are dropped from it before the next proposal. */
  readonly #drafts: KeyValueCache;
  /** i32[B, 2]: the last two tokens. The model has not run the last one yet; the assistant may not have run either. */
  readonly #last = zeros([this.rows, 2], { dtype: 'i32' });

  constructor(model: TokenModel, slots: number, spec: SessionSpec) {
    super(model, slots, spec);
    this.assistant = spec.assistant!;
    [this.#proposed, this.#samples] = [spec.sizes![0]!, spec.samples!];
    this.#drafts = this.assistant.makeCache(this.rows, slots);
  }

  /** The logits [..., V] from which tokens are chosen: -Infinity for tokens that may not be drawn. */
  #limited(logits: Tensor): Tensor {
    return this.#samples ? warp(logits, this.settings) : logits;
  }
  #chosen(x: Tensor): Tensor {
    return this.#samples ? draw(x, this.generator) : x.argmax({ dim: -1 }).to('i32');
  }

  protected override begin(ids: Tensor, starts: Tensor): Tensor {
    const [logits, text] = this.readPrompts(ids, starts);
    readInto(this.assistant, this.#drafts, ids, starts, this.spec.copies);
    const tokens = this.#chosen(this.#limited(this.processed(logits, text)));
    const before = ids.narrow(1, ids.size(1) - 1, 1).repeatInterleave(this.spec.copies, { dim: 0 });
    this.#last.copy_(cat([before, tokens.unsqueeze(1)], 1));
    this.text.assign(text.add(tokens));
    return this.#padded(tokens.unsqueeze(1));
  }

  protected override advance(active: Tensor): Tensor {
    const [k, last] = [this.#proposed, this.#last];
    const cached = this.cache.filled.add(0); // a copy; all tokens but the last are cached
    const { tokens, q, texts } = this.#propose(cached.sub(1));

    const ids = cat([last.narrow(1, 1, 1), tokens], 1); // [B, k + 1]
    const all = this.model.forward(ids, { cache: this.cache }); // [B, k + 1, V]
    const p = this.#limited(
      stack(
        texts.map((text, i) => this.processed(all.select(1, i).float(), text)),
        1,
      ),
    );
    const { accepted, chosen } = this.#samples ? this.#judge(tokens, q, p) : this.#compare(tokens, p);

    // The number of tokens that all active sequences accept, and one more.
    const runs = where(active.unsqueeze(1), accepted, true).all({ dim: 0 }).int().cumprod(0); // [k]: 1 up to the first that is rejected
    const n = runs.sum().int(); // 0 to k
    const count = n.add(1);
    this.cache.rewind(cached.add(count));
    this.text.assign(this.text.addFirst(chosen, count));
    last.copy_(cat([last.narrow(1, 1, 1), chosen], 1).narrow(1, n, 2));
    return where(arange(k + 1, { dtype: 'i32' }).lt(count), chosen, NO_TOKEN);
  }

  /** k tokens of the assistant, i32[B, k]; their logits, [B, k, V]; the text before each of them, and after all. */
  #propose(cached: Tensor): { tokens: Tensor; q: Tensor; texts: TextState[] } {
    this.#drafts.rewind(cached);
    const texts = [this.text];
    const logits: Tensor[] = [];
    const tokens: Tensor[] = [];
    let ids: Tensor = this.#last;
    for (let i = 0; i < this.#proposed; i++) {
      const x = this.#limited(this.processed(this.assistant.next(ids, this.#drafts).float(), texts[i]!));
      const token = this.#chosen(x);
      logits.push(x);
      tokens.push(token);
      texts.push(texts[i]!.add(token));
      ids = token.unsqueeze(1);
    }
    return { tokens: stack(tokens, 1), q: stack(logits, 1), texts };
  }

  /** The model's own tokens i32[B, k + 1], from logits [B, k + 1, V], and where they equal the proposed ones, bool[B, k]. */
  #compare(tokens: Tensor, p: Tensor): { accepted: Tensor; chosen: Tensor } {
    const chosen = this.#chosen(p);
    return { accepted: chosen.narrow(1, 0, this.#proposed).eq(tokens), chosen };
  }
  /**
   * A proposed token x is accepted with probability min(1, p(x) / q(x)), and otherwise replaced by one drawn from max(0, p - q).
   * After all k tokens one more is drawn from p.
   */
  #judge(tokens: Tensor, q: Tensor, p: Tensor): { accepted: Tensor; chosen: Tensor } {
    const k = this.#proposed;
    const first = p.narrow(1, 0, k);
    const [ps, qs] = [softmax(first, -1), softmax(q, -1)]; // [B, k, V]
    const at = (probabilities: Tensor) => probabilities.gather(2, tokens.long().unsqueeze(2)).squeeze(2); // [B, k]
    const accepted = rand([this.rows, k], { generator: this.generator }).mul(at(qs)).lt(at(ps));
    const rest = ps.sub(qs).clamp({ min: 0 });
    const instead = where(rest.sum({ dim: 2, keepdim: true }).gt(0), rest.log(), first); // where p equals q the difference is 0
    const drawn = draw(cat([instead, p.narrow(1, k, 1)], 1), this.generator); // [B, k + 1]
    const kept = where(accepted, tokens, drawn.narrow(1, 0, k));
    return { accepted, chosen: cat([kept, drawn.narrow(1, k, 1)], 1) };
  }

  #padded(tokens: Tensor): Tensor {
    const none = zeros([this.rows, this.#proposed], { dtype: 'i32' }).add(NO_TOKEN);
    return cat([tokens, none], 1);
  }
  override get state(): Tensor[] {
    return [...super.state, ...this.#drafts.tensors, this.#last];
  }
}
