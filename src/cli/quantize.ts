// `tsxla quantize`: quantizes a model's linear layers to 2 or 4 bits, and reports errors and sizes.
import fs from 'node:fs/promises';
import path from 'node:path';
import { Command, Option } from 'commander';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { bytes, columns, plural, seconds } from '../base/format.js';
import { notice } from '../base/log.js';
import { openOutput } from '../io/file.js';
import type { FactoredOptions, LayerReport } from '../quant/index.js';
import { PRESET_NAMES, type Preset } from '../quant/presets.js';
import type { StudentForm } from '../recovery/index.js';
import { withDevice } from './device-option.js';
import { whole } from './numbers.js';
import { fetchProgress, progress } from './progress.js';

interface Options extends Pick<FactoredOptions, 'lutSize' | 'scaleRank' | 'groupSize' | 'init'> {
  readonly model: string;
  readonly output: string;
  readonly preset: Preset;
  readonly quantizeAttn: boolean;
  readonly scaleDtype?: DType;
  readonly form: StudentForm;
  readonly json?: true;
}

export function quantizeCommand(): Command {
  const number = (flags: string, text: string) => new Option(flags, text).argParser(whole);
  const command = new Command('quantize')
    .requiredOption('-m, --model <name>', 'a model folder, or a name on the Hugging Face hub')
    .requiredOption('-o, --output <folder>', 'the folder to write the student to')
    .addOption(
      new Option('--preset <name>', 'bits of the MLPs and of attention')
        .choices(PRESET_NAMES)
        .default('q2a4' satisfies Preset),
    )
    .addOption(number('--lut-size <n>', "levels of a weight, instead of the preset's: 4 (2 bits) or 16 (4 bits)"))
    .addOption(number('--scale-rank <n>', "the rank of scales, instead of the preset's"))
    .addOption(number('--group-size <n>', 'weights that share an initial scale').default(32))
    .addOption(
      new Option('--init <how>', 'initial scales: best: least error; max: from the largest weights').choices([
        'best',
        'max',
      ]),
    )
    .option('--no-quantize-attn', 'quantize only the MLPs')
    .addOption(
      new Option('--scale-dtype <dtype>', 'dtype of scales in the packed file; f16 takes half the space').choices([
        'f32',
        'f16',
      ]),
    )
    .addOption(
      new Option('--form <form>', "packed: 2 and 4 bits a weight; original: the original's state dict; plain: floats")
        .choices(['packed', 'original', 'plain'] satisfies StudentForm[])
        .default('packed'),
    )
    .option('--json', 'print one JSON object at the end')
    .action(run);
  return withDevice(command);
}

async function run(given: Options): Promise<void> {
  const {
    model: name,
    output,
    preset,
    quantizeAttn,
    scaleDtype,
    form,
    json,
    lutSize,
    scaleRank,
    groupSize,
    init,
  } = given;
  const { findStudent, saveStudent } = await import('../recovery/index.js');
  const { checkStudentOutput } = await import('../recovery/student.js');
  const { AutoModelForCausalLM } = await import('../models/index.js');
  const { MLP, quantizeModel } = await import('../quant/index.js');
  const started = performance.now();
  await using _output = await openOutput(output); // an error leaves no empty folder
  const onProgress = fetchProgress();
  const found = await findStudent(name, { onProgress });
  if (found.form !== 'plain') throw new ArgumentError(`${name} is quantized already: pass the model it was made from`);
  await checkOutput(output, found.folder);
  await checkStudentOutput(output, form);
  const model = await AutoModelForCausalLM.fromPretrained(found.folder);
  if (!model.tokenizer) notice(`${name} has no tokenizer.json, so the student takes token ids, not text`);
  const tell = progress('quantizing', String, () => ' linears');
  const report = await quantizeModel(model, {
    preset,
    options: { ...defined({ lutSize, scaleRank, groupSize, init }) },
    ...(!quantizeAttn && { targets: MLP }),
    onLayer: (_, done, total) => tell(done, total),
  });
  await saveStudent(output, model, { form, modelId: name, ...(scaleDtype && { scaleDtype }) });
  const [before, after] = [await weightBytes(found.folder), await weightBytes(output)];
  const took = (performance.now() - started) / 1e3;
  if (json) {
    const { layers, error } = report;
    process.stdout.write(
      `${JSON.stringify({ output, form, bytesBefore: before, bytes: after, error, layers, seconds: took })}\n`,
    );
    return;
  }
  process.stdout.write(
    `${columns(summary(report.layers), '')}\n${output}: ${plural(report.layers.length, 'linear')} quantized, ` +
      `${bytes(before)} to ${bytes(after)} on disk, error ${percent(report.error)}, in ${seconds(took)}\n`,
  );
}

const defined = <O extends object>(options: O): { [K in keyof O]: Exclude<O[K], undefined> } =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;

/** Rows for groups of layers: layers of one kind share a row, with * for their number. */
function summary(layers: readonly LayerReport[]): string[][] {
  const groups = new Map<string, LayerReport[]>();
  for (const layer of layers) {
    const name = layer.name.replace(/\.\d+\./, '.*.');
    groups.set(name, [...(groups.get(name) ?? []), layer]);
  }
  return [...groups].map(([name, group]) => {
    const sum = (of: (layer: LayerReport) => number) => group.reduce((n, layer) => n + of(layer), 0);
    const sizes = `${bytes(sum((l) => l.bytesBefore))} to ${bytes(sum((l) => l.bytes))}`;
    return [
      name,
      `${group.length} x`,
      `${group[0]!.bits} bits`,
      sizes,
      `error ${percent(sum((l) => l.error) / group.length)}`,
    ];
  });
}

/** Throws if the output folder is one that a model is read from. */
export const checkOutput = (output: string, ...inputs: readonly string[]): Promise<void> =>
  checkOutputOf('--output', output, ...inputs);
/** The same for an option with another name. */
export async function checkOutputOf(option: string, output: string, ...inputs: readonly string[]): Promise<void> {
  const real = (folder: string) => fs.realpath(folder).catch(() => path.resolve(folder));
  for (const input of inputs)
    if ((await real(input)) === (await real(output)))
      throw new ArgumentError(`${option} is ${output}, the folder the model is read from: use another folder`);
}

/** The size of a model's weights on disk. */
export async function weightBytes(folder: string): Promise<number> {
  const names = (await fs.readdir(folder)).filter((name) => /^model.*\.(safetensors|pt)$/.test(name));
  const sizes = await Promise.all(names.map(async (name) => (await fs.stat(path.join(folder, name))).size));
  return sizes.reduce((a, b) => a + b, 0);
}
