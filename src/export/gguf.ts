// Exports a model as a GGUF file, for llama.cpp and programs based on it (Ollama, LM Studio). Each architecture's `gguf`
// (models/gguf-form.ts) has the differences.
import fs from 'node:fs/promises';
import path from 'node:path';
import type { DType, HostArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { checkOptions } from '../base/options.js';
import type { ReadLater } from '../io/array.js';
import { replaceFiles } from '../io/file.js';
import { GGML, type GgmlType } from '../io/ggml.js';
import { type GgufTensor, ggufFile } from '../io/gguf.js';
import { GGUF_NAMES, type GgufForm } from '../models/gguf-form.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { plainArrays } from '../recovery/student.js';
import { ggufMetadata } from './gguf-metadata.js';
import { type GgufVocabulary, ggufVocabulary } from './gguf-vocabulary.js';

/** The storage types of matrices with llama.cpp's names and numbers. */
export const GGUF_FILE_TYPES = {
  f32: { type: 'F32', id: 0 },
  f16: { type: 'F16', id: 1 },
  bf16: { type: 'BF16', id: 32 },
  q8_0: { type: 'Q8_0', id: 7 },
  q4_0: { type: 'Q4_0', id: 2 },
  q4_k: { type: 'Q4_K', id: 14 },
} as const satisfies Readonly<Record<string, { readonly type: GgmlType; readonly id: number }>>;
export type GgufFileType = keyof typeof GGUF_FILE_TYPES;

export interface ExportGgufOptions {
  /** The storage type of matrices. Default: the dtype of the weights. Vectors are always f32. */
  readonly type?: GgufFileType;
  /** The metadata general.name. Default: the name of the model's folder. */
  readonly name?: string;
  /** tokenizer.ggml.pre, for an unknown tokenizer. Default: detected from tokenizer.json. */
  readonly tokenizerPre?: string;
}
export interface GgufReport {
  readonly bytes: number;
  readonly tensors: number;
  /** Tensors whose rows are not whole blocks of the type, and the type used instead. */
  readonly fallbacks: readonly { readonly name: string; readonly row: number; readonly type: GgmlType }[];
  /** What llama.cpp computes otherwise. */
  readonly notes: readonly string[];
  /** Undefined: the model has none. */
  readonly vocabulary?: Pick<GgufVocabulary, 'model' | 'pre' | 'size'>;
}

/** Writes a model to one file, tensor by tensor: never more than one of them is in memory besides the model. */
export async function exportGguf(
  model: DecoderForCausalLM,
  file: string,
  options: ExportGgufOptions = {},
): Promise<GgufReport> {
  checkOptions('exportGguf', ['type', 'name', 'tokenizerPre'], options);
  const { config, architecture, folder } = model;
  const form = architecture.gguf;
  const refuse = (what: string): never => {
    throw new ArgumentError(`exportGguf: llama.cpp cannot run this ${architecture.name}: ${what}`);
  };
  if (!form) throw new ArgumentError(`exportGguf: ${architecture.name} has no GGUF form (Architecture.gguf)`);
  const { type = ownType(model.lmHead.weight.dtype), name = path.basename(folder ?? architecture.name) } = options;
  const chosen = GGUF_FILE_TYPES[type];
  if (!chosen)
    throw new ArgumentError(`exportGguf: type is '${type}': it must be ${Object.keys(GGUF_FILE_TYPES).join(', ')}`);
  const { metadata, factors, notes } = ggufMetadata(model, form, refuse);
  const vocabulary =
    model.tokenizer && folder ? await ggufVocabulary(folder, model.tokenizer, config, options.tokenizerPre) : undefined;
  const fallbacks: { name: string; row: number; type: GgmlType }[] = [];
  const tensors = new Map<string, GgufTensor>();
  const arraysOf = new Map<string, ReadLater[]>(); // one, or one of each expert in their order
  for (const [ours, array] of plainArrays(model))
    for (const theirs of namesOf(ours, form, config.tieWordEmbeddings, refuse))
      arraysOf.set(theirs, [...(arraysOf.get(theirs) ?? []), array]);
  for (const [theirs, arrays] of arraysOf) {
    const [array] = arrays as [ReadLater];
    const wanted = typeOf(theirs, array, chosen.type, config.tieWordEmbeddings);
    const fitting = fittingType(wanted, array.shape.at(-1) ?? 1);
    if (fitting !== wanted) fallbacks.push({ name: theirs, row: array.shape.at(-1)!, type: fitting });
    const shape = EXPERTS.test(theirs) ? [arrays.length, ...array.shape] : array.shape;
    tensors.set(theirs, { shape, type: fitting, parts: () => parts(theirs, arrays, form, model) });
  }
  for (const [of, values] of factors) tensors.set(of, vector(values));
  const all = new Map([
    ...metadata,
    ['general.name', { type: 'string', value: name }] as const,
    ['general.file_type', { type: 'u32', value: chosen.id }] as const,
    ['general.quantization_version', { type: 'u32', value: 2 }] as const,
    ...(vocabulary?.metadata ?? new Map([['tokenizer.ggml.model', { type: 'string', value: 'none' }] as const])),
  ]);
  await replaceFiles(new Map([[file, ggufFile(tensors, all)]]));
  const { size: bytes } = await fs.stat(file);
  return {
    bytes,
    tensors: tensors.size,
    fallbacks,
    notes: [...notes, ...(vocabulary?.notes ?? ['no tokenizer.json: llama.cpp can only be given token ids'])],
    ...(vocabulary && { vocabulary: { model: vocabulary.model, pre: vocabulary.pre, size: vocabulary.size } }),
  };
}

function ownType(dtype: DType): GgufFileType {
  if (dtype === 'f32' || dtype === 'f16' || dtype === 'bf16') return dtype;
  throw new ArgumentError(`exportGguf: the weights are ${dtype}: pass the type to store them in, { type }`);
}

// ---- tensors

const TOP: Readonly<Record<string, string>> = {
  'model.embed_tokens.weight': 'token_embd.weight',
  'model.norm.weight': 'output_norm.weight',
  'lm_head.weight': 'output.weight',
  'transformer.wte.weight': 'token_embd.weight',
  'transformer.wpe.weight': 'position_embd.weight',
  'transformer.ln_f.weight': 'output_norm.weight',
  'transformer.ln_f.bias': 'output_norm.bias',
};
const TABLES: readonly string[] = ['token_embd.weight', 'output.weight'];
/** Tensors with the stacked matrices of all experts. */
const EXPERTS = /_exps\.weight$/;
const IN_LAYER = /^(?:model\.layers|transformer\.h)\.(\d+)\.(.+)\.(weight|bias)$/;

/** The GGUF name of a tensor of a state dict; a tied table may have two names. */
function namesOf(
  ours: string,
  form: GgufForm<never>,
  isTied: boolean,
  refuse: (what: string) => never,
): readonly string[] {
  const top = TOP[ours];
  if (top === 'token_embd.weight' && isTied && form.needsOutput) return TABLES;
  if (top) return [top];
  const [, layer, path = '', kind] = IN_LAYER.exec(ours) ?? [];
  const module = path.replace(/\.experts\.\d+\./, '.experts.');
  const theirs = form.names?.[module] ?? GGUF_NAMES[module];
  if (!theirs) return refuse(`it has no name for ${ours}`);
  if (kind === 'bias' && !form.biases?.includes(theirs)) return refuse(`it does not read ${ours}`);
  return [`blk.${layer}.${theirs}.${kind}`];
}

/** Vectors, learned positions and routers are not quantized. Output tables have 8 bits instead of 4, which would harm quality. */
function typeOf(name: string, { shape }: ReadLater, type: GgmlType, isTied: boolean): GgmlType {
  if (shape.length < 2 || /^position_embd|\.ffn_gate_inp\./.test(name)) return 'F32';
  const isOutput = name === 'output.weight' || (isTied && name === 'token_embd.weight');
  return isOutput && GGML[type].quantize ? 'Q8_0' : type;
}
/** The types that llama-quantize uses for rows that are not whole blocks. */
const FALLBACKS: Partial<Record<GgmlType, GgmlType>> = { Q4_K: 'Q5_0' };
function fittingType(type: GgmlType, row: number): GgmlType {
  if (row % GGML[type].block === 0) return type;
  return fittingType(FALLBACKS[type] ?? 'F16', row);
}

async function* parts(
  name: string,
  arrays: readonly ReadLater[],
  form: GgufForm<never>,
  model: DecoderForCausalLM,
): AsyncGenerator<HostArray> {
  for (const { dtype, shape, ...array } of arrays)
    yield asTheirs(name, { dtype, shape, data: await array.data() }, form, model);
}
function asTheirs(name: string, read: HostArray, form: GgufForm<never>, { config }: DecoderForCausalLM): HostArray {
  const { dtype, shape } = read;
  const [, part] = /\.attn_([qk])\.(?:weight|bias)$/.exec(name) ?? [];
  if (form.interleaved && part)
    return interleaved(read, part === 'q' ? config.numAttentionHeads : config.numKeyValueHeads);
  if (!form.normOffset || !name.endsWith('_norm.weight')) return read;
  const numbers = decodeFloats(dtype, read.data) as Float32Array;
  return { dtype: 'f32', shape, data: numbers.map((x) => x + form.normOffset!) };
}

/** Rows of each head: 0, d/2, 1, d/2 + 1, ... */
function interleaved({ dtype, shape, data }: HostArray, heads: number): HostArray {
  const [rows, width = 1] = shape as [number, number?];
  const half = rows / heads / 2;
  const made = data.slice() as Float32Array; // of the same type
  for (let row = 0; row < rows; row++) {
    const [head, i, second] = [Math.floor(row / (2 * half)), Math.floor((row % (2 * half)) / 2), row % 2];
    const from = (2 * head + second) * half + i;
    made.set(data.subarray(from * width, (from + 1) * width) as Float32Array, row * width);
  }
  return { dtype, shape, data: made };
}

function vector(values: readonly number[]): GgufTensor {
  const shape = [values.length];
  return {
    shape,
    type: 'F32',
    async *parts() {
      yield { dtype: 'f32', shape, data: Float32Array.from(values) };
    },
  };
}
