// The program of a KD cache's teacher: the forward pass, then for a chunk of positions at a time the head's logits, the largest of
// them, and some random ones. The logits of all positions, [B, L, V], are never in memory together.

import { type Compiled, compile, ofLibrary } from '../step/step.js';
import { noGrad } from '../tensor/autograd.js';
import { scan } from '../tensor/control.js';
import { arange, full, tensor, zeros } from '../tensor/create.js';
import { cat } from '../tensor/functions.js';
import { Generator, rand } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import type { CacheSizes, LogitsDType } from './cache-format.js';

/** The interface of teachers, which every model of AutoModelForCausalLM has. */
export interface Teacher {
  readonly config: { readonly vocabSize: number };
  /** From tokens [B, L] to the head's input, [B, L, D]. */
  readonly model: { forward(inputIds: Tensor): Tensor };
  /** From [..., D] to logits [..., V]. */
  readonly lmHead: { forward(x: Tensor): Tensor };
  /** lmHead and the model's transformations of logits. Default: lmHead alone. */
  logits?(hidden: Tensor): Tensor;
}

export interface Candidates {
  readonly topkIdx: Tensor;
  readonly topkLogits: Tensor;
  readonly randIdx?: Tensor;
  readonly randLogits?: Tensor;
}

/** The size of a chunk's logits, in bytes of f32. */
const CHUNK = 2 ** 27;

/** From tokens i32[B, L] and the state of the random generator u32[4] to candidates [B, L - 1, K] and [B, L - 1, R]. */
export type Reduce = Compiled<[ids: Tensor, random: Tensor], Candidates>;

export function teacherCandidates(
  teacher: Teacher,
  { topK, negatives }: CacheSizes,
  logits: LogitsDType,
  chunkBytes = CHUNK,
): Reduce {
  const V = teacher.config.vocabSize;
  const reduce = (hidden: Tensor, uniform: Tensor): Candidates => {
    const all = (teacher.logits?.(hidden) ?? teacher.lmHead.forward(hidden)).float(); // [C, V]
    const { values, indices: topkIdx } = largest(all, topK);
    const top = { topkIdx, topkLogits: values.to(logits) };
    if (!negatives) return top;
    const randIdx = negativesOf(topkIdx, uniform, V);
    return { ...top, randIdx, randLogits: all.gather(1, randIdx).to(logits) };
  };
  return compile(
    ofLibrary(function teacherCandidates(ids: Tensor, random: Tensor): Candidates {
      return noGrad(() => {
        const [B, L] = ids.shape as [number, number];
        const positions = B * (L - 1);
        const rows = Math.max(1, Math.min(positions, Math.floor(chunkBytes / (4 * V))));
        const chunks = Math.ceil(positions / rows);
        const chunked = (x: Tensor): Tensor => {
          const missing = zeros([chunks * rows - positions, x.shape[1]!], { dtype: x.dtype });
          return cat([x, missing], 0).reshape([chunks, rows, -1]);
        };
        const hidden = teacher.model.forward(ids).narrow(1, 0, L - 1); // the last position predicts no token
        const uniform = rand([positions, Math.max(1, negatives)], { generator: new Generator().setState(random) });
        const [, found] = scan((_: readonly Tensor[], [h, u]: readonly [Tensor, Tensor]) => [[], reduce(h, u)], [], [
          chunked(hidden.reshape([positions, -1])),
          chunked(uniform),
        ] as const);
        const whole = (x: Tensor) =>
          x
            .reshape([chunks * rows, -1])
            .narrow(0, 0, positions)
            .reshape([B, L - 1, -1]);
        return Object.fromEntries(Object.entries(found).map(([name, x]) => [name, whole(x)])) as unknown as Candidates;
      });
    }),
    { name: 'teacherCandidates', check: false },
  );
}

const GROUP = 128; // the lanes of a TPU: narrower rows would be padded
/**
 * The k largest of each row of [C, V], in order. They are in the k groups with the largest maxima, so two small sorts suffice;
 * topk on accelerators would sort all of V.
 */
export function largest(x: Tensor, k: number): { readonly values: Tensor; readonly indices: Tensor } {
  const [C, V] = x.shape as [number, number];
  const groups = Math.ceil(V / GROUP);
  if (groups < 2 * k) {
    const { values, indices } = x.topk(k);
    return { values, indices: indices.to('i32') };
  }
  const missing = full([C, groups * GROUP - V], Number.NEGATIVE_INFINITY, { dtype: x.dtype });
  const grouped = cat([x, missing], 1).reshape([C, groups, GROUP]);
  const chosen = grouped.amax(2).topk(k).indices.to('i32').sort(1).values; // sorted, so that of equal logits the lower token comes first
  const candidates = grouped.gather(1, chosen.unsqueeze(2).expand([C, k, GROUP])).reshape([C, k * GROUP]);
  const { values, indices } = candidates.topk(k);
  const place = indices.to('i32');
  const group = chosen.gather(1, place.div(GROUP, { roundingMode: 'floor' }));
  return { values, indices: group.mul(GROUP).add(place.remainder(GROUP)) };
}

/**
 * R different tokens for each row that are not among its K: the V - K other tokens are split into R equal parts, and one is drawn
 * uniformly from each. u: [C, R] uniform in [0, 1).
 */
function negativesOf(topkIdx: Tensor, u: Tensor, V: number): Tensor {
  const [K, R] = [topkIdx.size(1), u.size(1)];
  const starts = Array.from({ length: R + 1 }, (_, i) => Math.floor((i * (V - K)) / R));
  const sizes = starts.slice(1).map((end, i) => end - starts[i]!);
  const constant = (numbers: number[]) => tensor(Int32Array.from(numbers));
  const size = constant(sizes);
  const drawn = u.mul(size.float()).to('i32').minimum(size.sub(1)); // f32 may round up to the size
  const rank = drawn.add(constant(starts.slice(0, -1))); // [C, R], an index into the other tokens
  // The n-th other token is n plus the number of the K tokens before it.
  const before = topkIdx.sort(1).values.sub(arange(K, { dtype: 'i32' })); // [C, K]
  return rank.add(before.unsqueeze(1).le(rank.unsqueeze(2)).sum(2, { dtype: 'i32' }));
}

/** The state of the random generator for a sequence, independent of its batch. */
export function randomOf(sequence: number, { sequenceLength, negatives }: CacheSizes, seed: number): Tensor {
  const counter = sequence * (sequenceLength - 1) * Math.max(1, negatives);
  const words = [seed, counter].flatMap((n) => [n % 2 ** 32, Math.floor(n / 2 ** 32)]);
  return tensor(Uint32Array.from(words));
}
