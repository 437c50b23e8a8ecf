// PackedLinear: quantized linears with codes packed into bytes, in memory and in safetensors files.

import { stat } from 'node:fs/promises';
import * as v from 'valibot';
import { DTYPES, type DType } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { flag, object, optional, parseJson, real, record, text, whole } from '../base/json.js';
import { compute } from '../io/array.js';
import { stateArrays } from '../io/entries.js';
import { replaceFiles, type WriteFile } from '../io/file.js';
import { openSafetensors, type TensorFile } from '../io/index.js';
import { safetensors } from '../io/safetensors.js';
import { loadArrays } from '../models/pretrained.js';
import { Linear } from '../nn/linear.js';
import { Buffer, type Module } from '../nn/module.js';
import { noGrad } from '../tensor/autograd.js';
import { tensor, zeros } from '../tensor/create.js';
import { pad } from '../tensor/functions.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Parts, QuantLinear, type Scale, scaleOf, weightOf } from './linear.js';
import { nearest } from './lut.js';
import { namesOf, quantLinears, replace } from './model.js';

const shifts = (bits: number) =>
  tensor(
    Array.from({ length: 8 / bits }, (_, i) => i * bits),
    { dtype: 'u8' },
  );

/** Packs u8 codes [..., n] into bytes [..., ceil(n * bits / 8)], the first code in the lowest bits. */
export function pack(codes: Tensor, bits: number): Tensor {
  const [n, per] = [codes.size(-1), 8 / bits];
  const whole = pad(codes, [0, (per - (n % per)) % per]);
  return whole
    .reshape([...whole.shape.slice(0, -1), -1, per])
    .bitwiseLeftShift(shifts(bits))
    .sum({ dim: -1, dtype: 'u8' });
}
/** Unpacks the first n codes. */
export function unpack(packed: Tensor, bits: number, n: number): Tensor {
  const mask = tensor(2 ** bits - 1, { dtype: 'u8' });
  const codes = packed.unsqueeze(-1).bitwiseRightShift(shifts(bits)).bitwiseAnd(mask);
  return codes.reshape([...packed.shape.slice(0, -1), -1]).narrow(-1, 0, n);
}

/** The description of a PackedLinear in files. */
export interface PackedForm {
  readonly bits: number;
  readonly inFeatures: number;
  readonly outFeatures: number;
  readonly levels: number;
  /** The rank of the scales; 0: one scale for each weight; -1: one for all. */
  readonly rank: number;
  readonly least?: number;
  readonly f16: boolean;
  readonly bias: boolean;
  readonly kind: string;
  readonly scaleDtype: DType;
}

/** A linear with packed codes of any quantization. It cannot be trained, but adapters on it can. */
export class PackedLinear extends QuantLinear {
  readonly kind = 'packed';
  /** u8 [..., out, bytes] */
  readonly packed: Buffer;
  readonly lut: Buffer;
  readonly scaleA: Buffer | null;
  readonly scaleB: Buffer | null;
  readonly scale: Buffer | null;
  readonly form: PackedForm;

  constructor(linear: Pick<Linear, 'inFeatures' | 'outFeatures' | 'bias'>, form: PackedForm, lead: readonly number[]) {
    super(linear);
    const { bits, rank, levels, scaleDtype: dtype } = form;
    const [out, width] = [linear.outFeatures, linear.inFeatures];
    const buffer = (shape: readonly number[], dtype: DType) => new Buffer(zeros([...lead, ...shape], { dtype }));
    this.form = form;
    this.packed = buffer([out, Math.ceil((width * bits) / 8)], 'u8');
    this.lut = buffer([levels], 'f32');
    this.scaleA = rank > 0 ? buffer([out, rank], dtype) : null;
    this.scaleB = rank > 0 ? buffer([rank, width], dtype) : null;
    this.scale = rank > 0 ? null : buffer(rank === 0 ? [out, width] : [1, 1], dtype);
  }
  /** The packed form of a quantized linear. */
  static of(layer: QuantLinear, scaleDtype?: DType): PackedLinear {
    const parts = layer.parts();
    const { bits, codes, levels, scale, f16 } = parts;
    const one = 'left' in scale ? scale.left : scale.whole;
    const form: PackedForm = {
      bits,
      inFeatures: layer.inFeatures,
      outFeatures: layer.outFeatures,
      levels: levels.size(-1),
      rank: 'left' in scale ? scale.left.size(-1) : scale.whole.size(-1) === 1 ? -1 : 0,
      ...(scale.least === undefined ? {} : { least: scale.least }),
      f16,
      bias: layer.bias !== null,
      kind: layer.kind,
      scaleDtype: scaleDtype ?? one.dtype,
    };
    const packed = new PackedLinear(layer, form, codes.shape.slice(0, -2));
    const put = (to: Buffer | null, value: Tensor) => to?.become(value.detach().to(to.dtype).expr);
    put(packed.packed, pack(codes, bits));
    put(packed.lut, levels);
    if ('left' in scale) {
      put(packed.scaleA, scale.left);
      put(packed.scaleB, scale.right);
    } else put(packed.scale, scale.whole);
    return packed;
  }

  override parts(): Parts {
    const { bits, least, f16 } = this.form;
    const limit = least === undefined ? {} : { least };
    const scale: Scale = this.scaleA
      ? { left: this.scaleA.float(), right: this.scaleB!.float(), ...limit }
      : { whole: this.scale!.float(), ...limit };
    return { bits, codes: unpack(this.packed, bits, this.inFeatures), levels: this.lut, scale, f16 };
  }
  override effectiveWeight(): Tensor {
    return weightOf(this.parts());
  }
  override fit(): Promise<void> {
    throw new ArgumentError('PackedLinear: its codes are fixed: fit the layer before packing it');
  }
  override requantize_(weight: Tensor): void {
    const { scale, levels, bits } = this.parts();
    const codes = noGrad(() => nearest(weight.detach().float().div(scaleOf(scale)), levels));
    this.packed.become(pack(codes, bits).expr);
    if (this.effective) this.materialize();
  }
  override extraRepr(): string {
    return `inFeatures=${this.inFeatures}, outFeatures=${this.outFeatures}, bits=${this.form.bits}`;
  }
}

/** Replaces every quantized linear by a PackedLinear. Latent weights are lost. */
export function packModel(model: Module, { scaleDtype }: { readonly scaleDtype?: DType } = {}): void {
  for (const [name, layer] of [...quantLinears(model)])
    if (!(layer instanceof PackedLinear)) replace(model, name, PackedLinear.of(layer, scaleDtype));
}

const KEY = 'tsxla_quant';
export interface PackedFile {
  /** Size of the file. */
  readonly bytes: number;
  readonly layers: number;
}
/**
 * Writes a model with its quantized linears packed, and all other tensors unchanged. Scales keep their dtype and are restored bit
 * for bit; `scaleDtype: 'f16'` halves their size and rounds them.
 */
export async function savePacked(
  path: string,
  model: Module,
  options: { readonly scaleDtype?: DType } = {},
): Promise<PackedFile> {
  const { layers, write } = await packedFile(model, options);
  await replaceFiles(new Map([[path, write]]));
  return { bytes: (await stat(path)).size, layers };
}

/** The writer of such a file, to be written together with other files. */
export async function packedFile(
  model: Module,
  { scaleDtype }: { readonly scaleDtype?: DType } = {},
): Promise<{ readonly layers: number; readonly write: WriteFile }> {
  const forms: Record<string, PackedForm> = {};
  const entries: StateEntry[] = [];
  const unpacked = new Set<Tensor>(); // tensors that the packed ones replace
  for (const [name, layer] of quantLinears(model)) {
    const packed = layer instanceof PackedLinear ? layer : PackedLinear.of(layer, scaleDtype);
    const lead = packed.packed.shape.slice(0, -2);
    const names = namesOf(name, lead);
    for (const of of names) forms[of] = packed.form;
    for (const { tensor } of layer.stateEntries()) if (tensor !== layer.bias) unpacked.add(tensor);
    for (const { tensor, names: keys } of packed.stateEntries())
      if (tensor !== layer.bias)
        entries.push({ tensor, names: names.map((of) => `${of}.${keys[0]}`), stacked: lead.length });
  }
  for (const entry of model.stateEntries()) if (!unpacked.has(entry.tensor)) entries.push(entry);
  if (!Object.keys(forms).length)
    throw new ArgumentError(`savePacked: ${model.constructor.name} has no quantized linears: call quantizeModel first`);
  const arrays = stateArrays(entries);
  const write = safetensors(arrays, { metadata: { [KEY]: JSON.stringify(forms) } });
  await compute(arrays);
  return { layers: Object.keys(forms).length, write };
}

const size = whole(1, 2 ** 31 - 1);
const FormSchema = object({
  bits: v.pipe(
    size,
    v.check((bits) => [1, 2, 4, 8].includes(bits), '1, 2, 4 or 8'),
  ),
  inFeatures: size,
  outFeatures: size,
  levels: whole(1, 256),
  rank: whole(-1, 2 ** 31 - 1),
  least: optional(real),
  f16: flag,
  bias: flag,
  kind: text,
  scaleDtype: v.picklist(Object.keys(DTYPES) as DType[], 'the name of a dtype'),
});

/** Loads a file of savePacked into a model with plain linears: those that the file has packed become PackedLinears. */
export async function loadPacked(model: Module, path: string): Promise<void> {
  await using file = await openSafetensors(path);
  await loadPackedArrays(model, file);
}

/** Loads an open file of savePacked. */
export async function loadPackedArrays(model: Module, file: TensorFile): Promise<void> {
  const { path } = file;
  const json = file.metadata.get(KEY);
  if (!json) throw new FileError(`${path} was not written by savePacked: it has no packed linears`);
  const forms = new Map(Object.entries(parseJson(json, `${path}, ${KEY}`, record(FormSchema)))) as ReadonlyMap<
    string,
    PackedForm
  >;
  for (const [name, m] of [...model.namedModules()]) {
    if (!(m instanceof Linear)) continue;
    const lead = m.weight.shape.slice(0, -2);
    const found = namesOf(name, lead).map((of) => forms.get(of));
    const form = found[0];
    if (!form) continue;
    if (found.some((f) => JSON.stringify(f) !== JSON.stringify(form)))
      throw new ArgumentError(
        `loadPacked: the layers of ${name} are packed in different ways: load them without scanLayers`,
      );
    if (form.inFeatures !== m.inFeatures || form.outFeatures !== m.outFeatures)
      throw new ArgumentError(
        `loadPacked: ${name} is ${m.inFeatures} to ${m.outFeatures}, in ${path} it is ${form.inFeatures} to ${form.outFeatures}: the file belongs to another model`,
      );
    replace(model, name, new PackedLinear(m, form, lead));
    m.weight.dispose();
  }
  await loadArrays(model, file);
}
