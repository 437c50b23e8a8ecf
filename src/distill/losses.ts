// Distillation losses of a student. The logits of all positions are never in memory together: the head is applied to a chunk of
// positions at a time, in a loop that is recomputed in the backward pass.
//   N positions, D = the size of hidden states, V tokens, K candidates of each position
import { sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isInteger } from '../base/promote.js';
import { Mesh } from '../ir/mesh.js';
import { capped } from '../models/outputs.js';
import { gathered } from '../spmd/gathered.js';
import { sharesOf } from '../spmd/shares.js';
import { scan } from '../tensor/control.js';
import { zeros } from '../tensor/create.js';
import { cat, embedding, linear, logSoftmax, softmax, where } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';

/**
 * Soft cross-entropy of logits [..., V] against a teacher's: the mean over positions, times T squared. It is the KL
 * divergence plus the teacher's entropy: the gradient is the same.
 */
export function kdSoftCe(studentLogits: Tensor, teacherLogits: Tensor, temperature = 1): Tensor {
  checkTemperature('kdSoftCe', temperature);
  return softCe(studentLogits, teacherLogits.detach(), temperature)
    .mean()
    .mul(temperature ** 2);
}

export interface ChunkOptions {
  /** Number of positions in a chunk. Default: as many as keep the largest array of a pass near 128 MiB. */
  readonly chunk?: number;
  /** [...]: the weight of each position, such as attention_mask[:, 1:]. Default: 1 for all. */
  readonly mask?: Tensor | null;
  readonly temperature?: number;
  /** Caps logits softly to between -softcap and softcap, as in Gemma 2. Default: no cap. */
  readonly softcap?: number | null;
}

/** A teacher's logits of some tokens at each position. */
export interface KdCandidates {
  /** i32[..., K]: the K most likely tokens; the most likely one must be first. */
  readonly topkIdx: Tensor;
  /** [..., K]: the teacher's logits of topkIdx, not divided by a temperature. */
  readonly topkLogits: Tensor;
  /** Random tokens, from which the student learns which tokens are unlikely. */
  readonly randIdx?: Tensor | null;
  readonly randLogits?: Tensor | null;
}

export interface KdOptions extends ChunkOptions {
  /** Weight of the cross-entropy, over the candidates, of the teacher's top token. A tensor may change from step to step. Default: 0. */
  readonly hardTop1?: number | Tensor;
  /** Weight of the cross-entropy, over the whole vocabulary, of the teacher's top token. Default: 0. */
  readonly hardFull?: number | Tensor;
  /**
   * 'gather' multiplies only the candidates' rows of the head; 'dense' multiplies all rows and selects the candidates' logits. The
   * results are the same. Default: the faster one; with hardFull, 'dense'.
   */
  readonly compute?: 'gather' | 'dense';
}

/** Means over the positions of the mask; `loss` is to be minimized. */
export interface KdLoss {
  readonly loss: Tensor;
  /** The KL divergence times T squared. */
  readonly kl: Tensor;
  readonly hardTop1?: Tensor;
  readonly hardFull?: Tensor;
}

/**
 * The KL divergence of a student from a teacher over candidates: the teacher's top k and tokens drawn at random.
 * hidden: [..., D], the student's last hidden states; head: [V, D].
 */
export function kdLoss(hidden: Tensor, weight: Tensor, candidates: KdCandidates, options: KdOptions = {}): KdLoss {
  const head = gathered(weight);
  const { temperature: T = 2, mask = null, hardTop1 = 0, hardFull = 0, softcap = null } = options;
  const { topkIdx, topkLogits, randIdx = null, randLogits = null } = candidates;
  checkTemperature('kdLoss', T);
  checkHead('kdLoss', hidden, head);
  const K = (topkIdx?.shape.at(-1) ?? 0) + (randIdx?.shape.at(-1) ?? 0);
  const { compute = hardFull !== 0 || head.size(0) <= K * DENSE_BELOW ? 'dense' : 'gather', chunk } = options;
  if (!['gather', 'dense'].includes(compute))
    throw new ArgumentError(`kdLoss: compute is '${compute}': use 'gather' or 'dense'`);
  if (compute === 'gather' && hardFull !== 0)
    throw new ArgumentError(`kdLoss: hardFull needs the whole vocabulary: leave compute out, or use 'dense'`);
  checkCandidates(hidden, 'topkIdx', topkIdx, 'topkLogits', topkLogits);
  if (randIdx || randLogits) checkCandidates(hidden, 'randIdx', randIdx, 'randLogits', randLogits);

  const [V, D] = head.shape as [number, number];
  const rows = {
    h: hidden,
    ids: [topkIdx, ...(randIdx ? [randIdx] : [])],
    teacher: [topkLogits, ...(randLogits ? [randLogits] : [])],
  };
  const size = compute === 'dense' ? V : K * D;
  const losses = inChunks('kdLoss', hidden, rows, chunk, size, ({ h, ...r }) => {
    const ids = cat(r.ids, -1); // [C, K]
    const all = compute === 'dense' ? logitsOf(h, head, softcap) : null; // [C, V]
    const student = all ? all.gather(-1, ids) : capped(logitsAt(h, head, ids), softcap); // [C, K]
    const expected = logSoftmax(wide(cat(r.teacher, -1)).detach().div(T), -1);
    return {
      kl: expected
        .exp()
        .mul(expected.sub(logSoftmax(student.div(T), -1)))
        .sum(-1),
      ...(hardTop1 !== 0 && { hardTop1: logSoftmax(student, -1).select(-1, 0).neg() }),
      ...(hardFull !== 0 && { hardFull: all!.logsumexp(-1).sub(student.select(-1, 0)) }),
    };
  });
  const mean = mapTree(losses, (x) => meanOver('kdLoss', x, mask));
  const kl = mean.kl.mul(T * T);
  const hard = [mean.hardTop1?.mul(hardTop1), mean.hardFull?.mul(hardFull)];
  return { ...mean, kl, loss: hard.reduce<Tensor>((sum, x) => (x ? sum.add(x) : sum), kl) };
}

/**
 * 'dense' is faster up to this number of tokens in the vocabulary per candidate. On two cores both take the same time at 128;
 * on an H200, at 1187, 'gather' takes 5.5 ms less of 39.
 */
const DENSE_BELOW = 128;

/** h [C, D] times the rows ids [C, K] of the head. Written as a sum, into which compilers fuse the gather. */
const logitsAt = (h: Tensor, head: Tensor, ids: Tensor): Tensor =>
  wide(embedding(ids, head)).mul(wide(h).unsqueeze(1)).sum(-1);

/** A weight that changes linearly from `start` at step 0 to `end` at the last of `steps`, and stays there. */
export function annealed(start: number, end: number, step: number, steps: number): number {
  return start + (end - start) * Math.min(1, step / Math.max(1, steps - 1));
}

// ---- against a text

/** The cross-entropy of the next tokens [...]: the mean over the positions of the mask. */
export function nextTokenLoss(
  hidden: Tensor,
  weight: Tensor,
  next: Tensor,
  { mask = null, chunk, softcap = null }: Omit<ChunkOptions, 'temperature'> = {},
): Tensor {
  checkHead('nextTokenLoss', hidden, weight);
  const head = gathered(weight);
  const { ce } = inChunks('nextTokenLoss', hidden, { h: hidden, next }, chunk, head.size(0), (r) => ({
    ce: tokenLoss(logitsOf(r.h, head, softcap), r.next),
  }));
  return meanOver('nextTokenLoss', ce, mask);
}
/** The cross-entropy [C] of tokens [C] under logits [C, V]. */
export const tokenLoss = (logits: Tensor, tokens: Tensor): Tensor =>
  logits.logsumexp(-1).sub(logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1));

// ---- against a model

/** A model's last hidden states [..., D'] and its head [V, D']. */
export interface Expecting {
  readonly hidden: Tensor;
  readonly head: Tensor;
  /** The soft cap of its logits. Default: no cap. */
  readonly softcap?: number | null;
}
export interface LiveOptions extends ChunkOptions {
  /** Weight of the teacher's loss; that of the labels is 1 - alpha. Default: 0.5. */
  readonly alpha?: number;
}
export interface LiveLoss {
  readonly loss: Tensor;
  /** kdSoftCe: the mean over the positions of the mask. */
  readonly kd: Tensor;
  /** The cross-entropy of the labels that are not -100. */
  readonly ce: Tensor;
}

/** alpha * kdSoftCe against a teacher + (1 - alpha) * the cross-entropy of labels [...]. */
export function liveKdLoss(
  hidden: Tensor,
  weight: Tensor,
  teacher: Expecting,
  labels: Tensor,
  options: LiveOptions = {},
): LiveLoss {
  const { temperature: T = 2, alpha = 0.5, mask = null, chunk, softcap = null } = options;
  const [head, teachers] = [gathered(weight), gathered(teacher.head)];
  checkTemperature('liveKdLoss', T);
  checkTeacher('liveKdLoss', hidden, head, teacher);
  if (!(alpha >= 0 && alpha <= 1)) throw new ArgumentError(`liveKdLoss: alpha is ${alpha}: it must be between 0 and 1`);
  const rows = { h: hidden, t: teacher.hidden.detach(), label: labels };
  const { kd, ce } = inChunks('liveKdLoss', hidden, rows, chunk, head.size(0), (r) => {
    const student = logitsOf(r.h, head, softcap); // [C, V]
    return {
      kd: softCe(student, logitsOf(r.t, teachers.detach(), teacher.softcap ?? null), T),
      ce: tokenLoss(student, where(r.label.eq(IGNORED), 0, r.label)),
    };
  });
  const means = {
    kd: meanOver('liveKdLoss', kd, mask).mul(T * T),
    ce: meanOver('liveKdLoss', ce, labels.ne(IGNORED)),
  };
  return { loss: means.kd.mul(alpha).add(means.ce.mul(1 - alpha)), ...means };
}
/** The label that is ignored, as in torch. */
const IGNORED = -100;

/**
 * The KL divergence, over the whole vocabulary, of a student from itself without adapters. Of the latter only the hidden states
 * have to be kept (and the head, if that is trained).
 */
export function anchorLoss(
  hidden: Tensor,
  weight: Tensor,
  anchor: Omit<Expecting, 'head'> & Partial<Expecting>,
  options: ChunkOptions = {},
): Tensor {
  const { temperature: T = 1, mask = null, chunk, softcap = null } = options;
  const head = gathered(weight);
  const from = { head, ...anchor };
  checkTemperature('anchorLoss', T);
  checkTeacher('anchorLoss', hidden, head, from);
  const rows = { h: hidden, t: from.hidden.detach() };
  const { kl } = inChunks('anchorLoss', hidden, rows, chunk, head.size(0), (r) => {
    const was = logitsOf(r.t, from.head.detach(), softcap);
    return { kl: softCe(logitsOf(r.h, head, softcap), was, T).sub(softCe(was, was, T)) };
  });
  return meanOver('anchorLoss', kl, mask).mul(T * T);
}

/** Soft cross-entropy [...] of logits [..., V] against a teacher's [..., V]. */
const softCe = (student: Tensor, teacher: Tensor, T: number): Tensor =>
  softmax(teacher.div(T), -1)
    .mul(logSoftmax(student.div(T), -1))
    .sum(-1)
    .neg();

// ---- chunks

const LARGEST_ARRAY = 128 * 2 ** 20; // bytes, in f32
export const wide = (x: Tensor): Tensor => (x.dtype === 'f64' ? x : x.float());
const logitsOf = (h: Tensor, head: Tensor, softcap: number | null): Tensor => capped(wide(linear(h, head)), softcap);

/**
 * The losses of all positions, [...], computed in chunks. `lossesOf` maps a chunk of the rows, [C, ...], to losses [C];
 * `elements` is the size of its largest array for one position.
 */
export function inChunks<R, L extends Readonly<Record<string, Tensor>>>(
  op: string,
  hidden: Tensor,
  rows: R,
  chunk: number | undefined,
  elements: number,
  lossesOf: (rows: R) => L,
): L {
  const lead = hidden.shape.slice(0, -1);
  const N = sizeOf(lead);
  if (chunk !== undefined && !(Number.isSafeInteger(chunk) && chunk > 0))
    throw new ArgumentError(`${op}: chunk is ${chunk}: it must be a whole number of positions, at least 1`);
  const most = chunk ?? Math.max(8, Math.floor(LARGEST_ARRAY / (4 * elements))) * sharesOf(hidden);
  // Each pass takes positions of all B sequences, so that devices with different sequences all have work. On one device,
  // positions are taken in order.
  const B = Mesh.exists && lead.length > 1 ? lead[0]! : 1;
  const T = N / B;
  const size = Math.ceil(T / Math.ceil(T / Math.max(1, Math.floor(most / B))));
  const passes = Math.ceil(T / size);
  const stacked = mapTree(rows, (x) => {
    checkPositions(op, hidden, x);
    const rest = x.shape.slice(lead.length);
    const flat = x.reshape([B, T, ...rest]);
    const missing = passes * size - T;
    const filled = missing ? cat([flat, zeros([B, missing, ...rest], { dtype: x.dtype })], 1) : flat;
    return filled
      .reshape([B, passes, size, ...rest])
      .transpose(0, 1)
      .reshape([passes, B * size, ...rest]);
  });
  const [, losses] = scan((none: Tensor[], x: R) => [none, lossesOf(x)], [] as Tensor[], stacked, { checkpoint: true });
  return mapTree(losses, (x) =>
    x
      .reshape([passes, B, size])
      .transpose(0, 1)
      .reshape([B, passes * size])
      .narrow(1, 0, T)
      .reshape(lead),
  );
}

/** The mean over positions, weighted by the mask. */
function meanOver(op: string, losses: Tensor, mask: Tensor | null): Tensor {
  if (!mask) return losses.mean();
  if (String(mask.shape) !== String(losses.shape)) checkPositions(op, losses.unsqueeze(-1), mask);
  const times = mask.to(losses.dtype).detach();
  return losses
    .mul(times)
    .sum()
    .div(times.sum().clamp({ min: 1 }));
}

/** Maps each tensor of nested arrays and objects. */
function mapTree<R>(tree: R, change: (x: Tensor) => Tensor): R {
  if (tree instanceof Tensor) return change(tree) as R;
  if (Array.isArray(tree)) return tree.map((x) => mapTree(x, change)) as R;
  return Object.fromEntries(Object.entries(tree as object).map(([key, x]) => [key, mapTree(x, change)])) as R;
}

// ---- checks

function checkPositions(op: string, hidden: Tensor, x: Tensor): void {
  const lead = hidden.shape.slice(0, -1);
  if (String(x.shape.slice(0, lead.length)) !== String(lead))
    throw new ShapeError(
      `${op}: hidden states have positions [${lead}], which do not match ${x.aval}: the last position of a sequence predicts nothing: take hidden.narrow(1, 0, L - 1), and of masks and labels all but the first`,
    );
}
function checkTemperature(op: string, temperature: number): void {
  if (!(Number.isFinite(temperature) && temperature > 0))
    throw new ArgumentError(`${op}: temperature is ${temperature}: it must be above 0`);
}
function checkHead(op: string, hidden: Tensor, head: Tensor): void {
  if (head.ndim === 2 && hidden.ndim > 1 && hidden.shape.at(-1) === head.size(1)) return;
  throw new ShapeError(`${op}: expected hidden states [..., D] and a head [V, D], got ${hidden.aval} and ${head.aval}`);
}
function checkTeacher(op: string, hidden: Tensor, head: Tensor, teacher: Expecting): void {
  checkHead(op, hidden, head);
  checkHead(`${op}: the teacher`, teacher.hidden, teacher.head);
  if (head.size(0) !== teacher.head.size(0))
    throw new ShapeError(
      `${op}: the student has a vocabulary of ${head.size(0)} tokens, the teacher of ${teacher.head.size(0)}: they must be equal`,
    );
}
function checkCandidates(
  hidden: Tensor,
  idName: string,
  ids: Tensor | null,
  logitName: string,
  logits: Tensor | null,
): void {
  if (!ids || !logits)
    throw new ArgumentError(`kdLoss: ${ids ? logitName : idName} is missing: pass both ${idName} and ${logitName}`);
  if (!isInteger(ids.dtype)) throw new DTypeError(`kdLoss: ${idName} is ${ids.aval}: tokens must be integers`);
  if (ids.ndim !== hidden.ndim || String(ids.shape) !== String(logits.shape))
    throw new ShapeError(
      `kdLoss: ${idName} is ${ids.aval}, ${logitName} ${logits.aval}: both must have the positions of hidden, ${hidden.aval}, and a dimension of candidates`,
    );
}
