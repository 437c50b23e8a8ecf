// The perplexity of a model on a text: exp of the mean loss over tokens. Logits are computed in chunks of positions, and one
// program serves any number of rows.
import fs from 'node:fs/promises';
import { checkWhole } from '../base/check.js';
import type { HostArray } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { type Dataset, isDataset } from '../data/dataset.js';
import { type DocumentOptions, documentsOf, endOfText, sourcesOf } from '../distill/cache-rows.js';
import { inChunks, tokenLoss, wide } from '../distill/losses.js';
import { findFiles } from '../io/hub-files.js';
import type { DecoderForCausalLM, Tokenizer } from '../models/index.js';
import { firstNonfinite, nonfiniteText, REPAIR, showNonfinite } from '../nn/finite.js';
import type { Module } from '../nn/module.js';
import { batchFor, readableFor } from '../spmd/parallel.js';
import { type Compiled, compile, ofLibrary } from '../step/step.js';
import { noGrad } from '../tensor/autograd.js';
import { tensor } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { positionsOf } from './lessons.js';

type Tokens = ArrayLike<number | bigint>;
type Row = Tokens | Pick<HostArray, 'data'>;
/** A row of tokens; its mask is 1 for tokens to predict. Default: all but the first. */
export interface PerplexityRow {
  readonly inputIds: Row;
  readonly lossMask?: Row;
}
export interface PerplexityOptions {
  /** Number of rows in a batch. Default: 4. */
  readonly batchSize?: number;
  /** Called with the number of finished rows and of all rows. */
  readonly onProgress?: (done: number, total: number) => void;
}
export interface Perplexity {
  readonly perplexity: number;
  /** The mean loss over the predicted tokens, in nats. */
  readonly loss: number;
  /** Number of predicted tokens. */
  readonly tokens: number;
}

/**
 * The perplexity of rows of equal length: of a KD cache, of perplexityRows, or lists of tokens. The model is evaluated in eval mode
 * and returned to its previous mode. Repeated calls during training compile only once.
 */
export async function evaluatePerplexity(
  model: DecoderForCausalLM,
  rows: Dataset<PerplexityRow | Tokens> | readonly (PerplexityRow | Tokens)[],
  options: PerplexityOptions = {},
): Promise<Perplexity> {
  checkOptions('evaluatePerplexity', ['batchSize', 'onProgress'], options);
  const { batchSize = 4, onProgress } = options;
  checkWhole('evaluatePerplexity: batchSize', batchSize, 1);
  const dataset = isDataset<PerplexityRow | Tokens>(rows)
    ? rows
    : { length: rows.length, get: (i: number) => rows[i]! };
  if (!dataset.length) throw new DataError('evaluatePerplexity: there are no rows: pass at least one');
  const size = Math.min(batchSize, dataset.length);
  const length = plain(await dataset.get(0)).ids.length;
  checkLength(length, model);
  return evaluating(model, () => meanOf(model, dataset, size, length, onProgress));
}

async function meanOf(
  model: DecoderForCausalLM,
  dataset: Dataset<PerplexityRow | Tokens>,
  size: number,
  length: number,
  onProgress: PerplexityOptions['onProgress'],
): Promise<Perplexity> {
  const run = programOf(model);
  let [sum, total] = [0, 0];
  const add = async (losses: Promise<Tensor>, { ids, mask, counted }: Filled, start: number): Promise<void> => {
    const rows = (await (await losses).data()) as Float32Array;
    const lost = rows.findIndex((loss) => !Number.isFinite(loss));
    if (lost >= 0) {
      const at = lost * length;
      const [row, counts] = [ids.subarray(at, at + length), mask.subarray(at, at + length)];
      throw new DataError(await lossReason(model, row, counts, start + lost, rows[lost]!));
    }
    for (const row of rows) sum += row;
    total += counted;
    onProgress?.(Math.min(start + size, dataset.length), dataset.length);
  };
  let before: Promise<void> | undefined;
  for (let start = 0; start < dataset.length; start += size) {
    const end = Math.min(start + size, dataset.length);
    const batch = await Promise.all(Array.from({ length: end - start }, async (_, i) => dataset.get(start + i)));
    const filled = fill(batch.map(plain), size, length, model.config.vocabSize, start);
    const tokens = tensor(filled.ids, { shape: [size, length], dtype: 'i32' });
    const counts = tensor(filled.mask, { shape: [size, length], dtype: 'u8' });
    const losses = run(batchFor(model, tokens), batchFor(model, counts));
    await before; // the previous batch is read while this one is computed
    before = add(losses, filled, start);
  }
  await before;
  if (!total) throw new DataError('evaluatePerplexity: no token is to be predicted: the mask is 0 everywhere');
  const loss = sum / total;
  const perplexity = Math.exp(loss);
  if (!Number.isFinite(perplexity))
    throw new DataError(
      `evaluatePerplexity: the mean loss is ${loss.toPrecision(5)}, and its exponential, the perplexity, is ${showNonfinite(perplexity)}: the model's logits are too large`,
    );
  return { perplexity, loss, tokens: total };
}

/** The reason why the loss of a row is not finite: a weight, or the first token with such a loss. */
async function lossReason(
  model: DecoderForCausalLM,
  ids: Int32Array,
  mask: Uint8Array,
  row: number,
  loss: number,
): Promise<string> {
  const bad = await firstNonfinite(model);
  if (bad) return `evaluatePerplexity: the loss is ${showNonfinite(loss)}: ${nonfiniteText(bad)}: ${REPAIR}`;
  const tokens = tensor(ids, { shape: [1, ids.length], dtype: 'i32' });
  const losses = (await noGrad(() => readableFor(model, tokenLosses(model, tokens))).data()) as Float32Array;
  const at = losses.findIndex((x, i) => mask[i + 1] === 1 && !Number.isFinite(x)) + 1;
  const place = at ? `of token ${ids[at]} at position ${at} of row ${row}` : `of row ${row}`;
  const { dtype } = model.lmHead.weight;
  const remedy = dtype === 'f32' ? '' : ': compute in f32 (--dtype f32)';
  return `evaluatePerplexity: the loss ${place} is ${showNonfinite(at ? losses[at - 1]! : loss)}, though all weights are finite: the model's activations overflow ${dtype}${remedy}`;
}

// ---- the program

type LossProgram = Compiled<[ids: Tensor, mask: Tensor], Tensor>;
const programs = new WeakMap<Module, LossProgram>();

/** The program from tokens i32[B, L] and their mask u8[B, L] to the sum of losses of each row, [B]. */
function programOf(model: DecoderForCausalLM): LossProgram {
  const known = programs.get(model);
  if (known) return known;
  const made = compile(
    ofLibrary(
      (ids: Tensor, mask: Tensor): Tensor =>
        noGrad(() => {
          const loss = tokenLosses(model, ids);
          return readableFor(model, where(mask.narrow(1, 1, loss.size(1)).ne(0), loss, 0).sum(-1));
        }),
    ),
    { name: 'evaluatePerplexity', check: false },
  );
  programs.set(model, made);
  return made;
}

/** The loss of each token but the first, [B, L - 1]. */
function tokenLosses(model: DecoderForCausalLM, ids: Tensor): Tensor {
  const hidden = positionsOf(model, ids);
  const rows = { h: hidden, next: ids.narrow(1, 1, ids.size(1) - 1) };
  return inChunks('evaluatePerplexity', hidden, rows, undefined, model.config.vocabSize, ({ h, next }) => ({
    loss: tokenLoss(wide(model.logits(h)), next),
  })).loss;
}

/** Runs fn in eval mode and restores the mode of each module. */
export async function evaluating<T>(model: Module, fn: () => Promise<T>): Promise<T> {
  const modes = model.modules().map((m) => [m, m.training] as const);
  model.eval();
  try {
    return await fn();
  } finally {
    for (const [m, training] of modes) m.train(training); // outer modules first: train() also sets the inner ones
  }
}

// ---- rows

const listOf = (x: Row): Tokens => ('data' in x ? (x.data as Tokens) : x);
const plain = (row: PerplexityRow | Tokens): { ids: Tokens; mask?: Tokens } => {
  if (!('inputIds' in row)) return { ids: row };
  return { ids: listOf(row.inputIds), ...(row.lossMask && { mask: listOf(row.lossMask) }) };
};

function checkLength(length: number, { config }: DecoderForCausalLM): void {
  const { maxPositionEmbeddings: most } = config;
  if (length > most)
    throw new ArgumentError(`evaluatePerplexity: rows have ${length} tokens, but the model has only ${most} positions`);
  if (length < 2)
    throw new ArgumentError(
      `evaluatePerplexity: rows have ${length} tokens: at least 2 are needed, because the first is not predicted`,
    );
}

interface Filled {
  readonly ids: Int32Array;
  readonly mask: Uint8Array;
  /** Number of tokens to predict. */
  readonly counted: number;
}
/** A batch of `size` rows; missing rows are zeros with mask 0. */
function fill(
  rows: readonly { readonly ids: Tokens; readonly mask?: Tokens }[],
  size: number,
  length: number,
  vocabSize: number,
  start: number,
): Filled {
  const [ids, mask] = [new Int32Array(size * length), new Uint8Array(size * length)];
  let counted = 0;
  for (const [r, row] of rows.entries()) {
    for (const [what, n] of [['tokens', row.ids.length] as const, ['masks', row.mask?.length ?? length] as const])
      if (n !== length)
        throw new DataError(
          `evaluatePerplexity: row ${start + r} has ${n} ${what}, the first row ${length} tokens: all rows must have the same length`,
        );
    for (let i = 0; i < length; i++) {
      const token = Number(row.ids[i]);
      if (!(token >= 0 && token < vocabSize))
        throw new DataError(
          `evaluatePerplexity: token ${token} of row ${start + r} is out of range: the model's tokens are 0 to ${vocabSize - 1}`,
        );
      const at = r * length + i;
      ids[at] = token;
      mask[at] = i && Number(row.mask?.[i] ?? 1) ? 1 : 0;
      counted += mask[at]!;
    }
  }
  return { ids, mask, counted };
}

// ---- text

export interface PerplexityTextOptions extends Omit<DocumentOptions, 'by'> {
  /** Number of tokens in a row. */
  readonly sequenceLength: number;
  /** Distance between the starts of rows. Tokens that the previous row had are context and not predicted again. Default: sequenceLength. */
  readonly stride?: number;
  /** The largest number of tokens to read. Default: all. */
  readonly maxTokens?: number;
  /** What is a document in a text file. Default: 'file'. */
  readonly by?: 'file' | 'line' | 'paragraph';
}

/**
 * Rows of the text in files (.txt, .jsonl, .parquet), with documents concatenated as in transformers' guide to perplexity: windows
 * of sequenceLength tokens, which predict the tokens that no earlier window had. Padding of the last window is not predicted.
 */
export async function perplexityRows(
  files: string | readonly string[],
  tokenizer: Tokenizer | null,
  options: PerplexityTextOptions,
): Promise<Dataset<{ readonly inputIds: Int32Array; readonly lossMask: Uint8Array }>> {
  const names = ['sequenceLength', 'stride', 'maxTokens', 'field', 'by', 'separator'] as const;
  checkOptions('perplexityRows', names, options);
  const { sequenceLength: L, stride = L, maxTokens = Number.POSITIVE_INFINITY } = options;
  checkWhole('perplexityRows: sequenceLength', L, 2);
  checkWhole('perplexityRows: stride', stride, 1);
  if (maxTokens !== Number.POSITIVE_INFINITY) checkWhole('perplexityRows: maxTokens', maxTokens, 2);
  if (stride > L)
    throw new ArgumentError(
      `perplexityRows: stride is ${stride}, which would skip tokens: it must be at most sequenceLength, which is ${L}`,
    );
  const tokens: number[] = [];
  for await (const document of documentsIn(typeof files === 'string' ? [files] : files, tokenizer, options)) {
    for (let i = 0; i < document.length && tokens.length < maxTokens; i++) tokens.push(document[i]!);
    if (tokens.length >= maxTokens) break;
  }
  if (tokens.length < 2)
    throw new DataError(`${[files].flat().join(', ')}: the text has fewer than 2 tokens: there is nothing to predict`);
  const length = 1 + Math.max(0, Math.ceil((tokens.length - L) / stride));
  return {
    length,
    get: (row) => {
      const start = row * stride;
      const seen = row ? start - stride + L : 1; // tokens before it were in the previous row; the very first is not predicted
      const [inputIds, lossMask] = [new Int32Array(L), new Uint8Array(L)];
      for (let i = 0; i < L && start + i < tokens.length; i++) {
        inputIds[i] = tokens[start + i]!;
        lossMask[i] = i && start + i >= seen ? 1 : 0;
      }
      return { inputIds, lossMask };
    },
  };
}

const TEXT = /\.(txt|text|md)$/i;
async function* documentsIn(
  files: readonly string[],
  tokenizer: Tokenizer | null,
  { field = 'text', by = 'file', ...options }: PerplexityTextOptions,
): AsyncGenerator<ArrayLike<number>> {
  await sourcesOf(files);
  const { separator = endOfText(tokenizer) } = options;
  if (by === 'file' && files.every((file) => TEXT.test(file))) {
    if (!tokenizer)
      throw new ArgumentError(
        'the model has no tokenizer.json: add one to its folder, or give token ids in a .jsonl file',
      );
    for (const file of await findFiles(files))
      yield tokenizer.encode(await fs.readFile(await file.fetch(), 'utf8'), { addSpecialTokens: false });
    return;
  }
  const documents = documentsOf(files, tokenizer, { field, by: by === 'file' ? 'paragraph' : by, separator });
  for await (const document of documents) yield 'length' in document ? document : document.tokens;
}
