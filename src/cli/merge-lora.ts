// `tsxla merge-lora`: adapters into a student's weights, and how far that moves what it says.
import path from 'node:path';
import { Command, Option } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { bytes, plural, seconds } from '../base/format.js';
import { withDevice } from './device-option.js';
import { fetchProgress } from './progress.js';
import { checkOutput, weightBytes } from './quantize.js';

interface Options {
  readonly model: string;
  readonly base?: string;
  readonly adapters?: string;
  readonly output: string;
  readonly requantize?: true;
  readonly dense?: true;
  readonly json?: true;
}

export const mergeLoraCommand = (): Command =>
  withDevice(
    new Command('merge-lora')
      .description("put adapters into a model's weights; a quantized one is quantized again, or becomes plain")
      .requiredOption('-m, --model <name>', 'the student: a folder, quantized or not, or a file of the original')
      .option('--base <name>', "for the original's files: the Qwen3 that they were made of")
      .option('-a, --adapters <path>', "a folder of PEFT, or a file; those inside of the original's files unless told")
      .requiredOption('-o, --output <folder>', 'where the result is written')
      .addOption(
        new Option('--requantize', 'a quantized student stays so, with other codes: the default').conflicts('dense'),
      )
      .option('--dense', 'a quantized student becomes a plain one: nothing of the adapters is lost')
      .option('--json', 'print one JSON object at the end')
      .action(run),
  );

async function run({ model: name, base, adapters, output, dense, json }: Options): Promise<void> {
  const { findStudent, loadStudent, mergeStudent, saveStudent } = await import('../recovery/index.js');
  const started = performance.now();
  const found = await findStudent(name, { ...(base && { base }) });
  if (!adapters && found.form !== 'original')
    throw new ArgumentError(`${name} has no adapters inside: name some with --adapters`);
  await checkOutput(output, name, ...(name.endsWith('.pt') ? [path.dirname(name)] : []));
  const { model, form } = await loadStudent(name, {
    ...(base && { base }),
    ...(adapters && { adapters }),
    materialize: false,
    scanLayers: true,
    onProgress: fetchProgress(),
  });
  const { errors, logits } = await mergeStudent(model, dense ? 'dense' : 'requantize');
  const written = dense ? 'plain' : form;
  await saveStudent(output, model, { form: written, ...(base && { modelId: base }) });
  const error = [...errors.values()].reduce((a, b) => a + b, 0) / errors.size;
  const result = { output, form: written, bytes: await weightBytes(output), error, ...logits };
  const took = (performance.now() - started) / 1e3;
  if (json) process.stdout.write(`${JSON.stringify({ ...result, seconds: took })}\n`);
  else
    process.stdout.write(
      `${output}: ${plural(errors.size, 'adapter')} merged, ${written}, ${bytes(result.bytes)}, in ${seconds(took)}\n` +
        `weights are ${(100 * error).toFixed(2)}% from base and adapters; on a probe the logits moved by a KL of ${logits.kl.toPrecision(3)}, ` +
        `and ${(100 * logits.sameTop).toFixed(0)}% of the most likely tokens are the same\n`,
    );
}
