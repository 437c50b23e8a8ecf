// Exports a model as a StableHLO module with its weights, from tokens to logits, for other XLA runtimes.
import path from 'node:path';
import type { HostArray } from '../base/dtype.js';
import { jsonText } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import { version } from '../base/version.js';
import { replaceFiles } from '../io/file.js';
import { safetensors } from '../io/safetensors.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { defaultClient } from '../runtime/value.js';
import { compile } from '../step/step.js';
import { noGrad } from '../tensor/autograd.js';
import { ones } from '../tensor/create.js';
import { Tensor } from '../tensor/tensor.js';

export interface ExportStableHloOptions {
  /** The number of rows of tokens. Default: 1. */
  readonly batchSize?: number;
  /** The number of tokens per row. Default: 128. */
  readonly sequenceLength?: number;
}
export interface StableHloReport {
  readonly inputs: number;
  readonly bytes: number;
  /** The StableHLO version of the text. */
  readonly version: string;
}

export const [MODULE, INPUTS, MANIFEST] = ['model.mlir', 'inputs.safetensors', 'manifest.json'];

/**
 * Writes three files: the module (text), its inputs as arg0, arg1, ..., and a manifest that describes each input. The tokens are
 * one of the inputs, with an example.
 */
export async function exportStableHlo(
  model: DecoderForCausalLM,
  folder: string,
  options: ExportStableHloOptions = {},
): Promise<StableHloReport> {
  checkOptions('exportStableHlo', ['batchSize', 'sequenceLength'], options);
  const { batchSize = 1, sequenceLength = 128 } = options;
  const ids = ones([batchSize, sequenceLength], { dtype: 'i32' });
  const forward = compile(function forward(ids: Tensor) {
    return noGrad(() => model.forward(ids));
  });
  const names = [...model.namedParameters(), ...model.namedBuffers()];
  const { text, inputs } = forward.lower([ids], { platform: 'cpu', names }); // no device's own operations
  const read = async (tensor: Tensor): Promise<HostArray> => ({
    dtype: tensor.dtype,
    shape: tensor.shape,
    data: await tensor.data(),
  });
  const arrays = new Map<string, HostArray>();
  for (const [i, { value }] of inputs.entries()) arrays.set(`arg${i}`, await read(value ? new Tensor(value) : ids));
  const isNamed = new Set(names.map(([name]) => name));
  const stablehlo = await stablehloVersion();
  const manifest = {
    format: 'StableHLO text',
    stablehlo_version: stablehlo,
    producer: `tsxla ${version}`,
    model_type: model.architecture.modelType,
    inputs: inputs.map(({ label, dtype, shape, value }, i) => {
      const kind = !value ? 'input' : isNamed.has(label) ? 'weight' : 'constant';
      return { arg: `arg${i}`, name: { input: 'input_ids', weight: label, constant: null }[kind], kind, dtype, shape };
    }),
    outputs: [{ out: 'out0', name: 'logits', shape: [batchSize, sequenceLength, model.config.vocabSize] }],
  };
  const mlir = Buffer.from(`// StableHLO ${stablehlo}, written by tsxla ${version}. Its inputs: ${MANIFEST}\n${text}`);
  await replaceFiles(
    new Map([
      [path.join(folder, MODULE!), (write) => write(mlir)],
      [path.join(folder, INPUTS!), safetensors(arrays)],
      [path.join(folder, MANIFEST!), (write) => write(jsonText(manifest))],
    ]),
  );
  const bytes = [...arrays.values()].reduce((sum, a) => sum + a.data.byteLength, mlir.length);
  return { inputs: inputs.length, bytes, version: stablehlo };
}

/** Of the plugin that is in use, whose StableHLO is what is written here. */
async function stablehloVersion(): Promise<string> {
  const { stablehlo_current_version: said } = (await defaultClient()).pluginAttributes;
  return Array.isArray(said) ? said.join('.') : 'of an unknown version';
}
