// `tsxla merge-lora`: merges adapters into a student's weights, and measures the effect on its perplexity.
import path from 'node:path';
import { Command, Option } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { bytes, plural, seconds } from '../base/format.js';
import { notice } from '../base/log.js';
import { openOutput } from '../io/file.js';
import type { Perplexity } from '../recovery/index.js';
import { computeIn, withDevice } from './device-option.js';
import { rowsOf } from './eval-perplexity.js';
import { whole } from './numbers.js';
import { fetchProgress, progress } from './progress.js';
import { checkOutput, weightBytes } from './quantize.js';

interface Options {
  readonly model: string;
  readonly base?: string;
  readonly adapters?: string;
  readonly output: string;
  readonly requantize?: true;
  readonly dense?: true;
  readonly evalData?: string[];
  readonly sequenceLength?: number;
  readonly batchSize: number;
  readonly json?: true;
}

export function mergeLoraCommand(): Command {
  const number = (flags: string, text: string) => new Option(flags, text).argParser(whole);
  return withDevice(
    new Command('merge-lora')
      .requiredOption('-m, --model <name>', 'the student: a model folder (quantized or not), or a file of the original')
      .option('--base <name>', "for the original's files: the model they were made from")
      .option('-a, --adapters <path>', "a PEFT folder, or a file. Default: the adapters inside the original's files")
      .requiredOption('-o, --output <folder>', 'the folder to write the result to')
      .addOption(
        new Option(
          '--dense',
          'a quantized student becomes a plain one, which keeps all that was learned (default)',
        ).conflicts('requantize'),
      )
      .option('--requantize', 'a quantized student stays quantized, with other codes: loses part of what was learned')
      .option('--eval-data <files...>', 'measure perplexity on these files: base, with adapters, merged')
      .addOption(
        number(
          '-l, --sequence-length <n>',
          'tokens per row of --eval-data. Default: 1024, or the most positions of the model',
        ),
      )
      .addOption(number('-b, --batch-size <n>', 'rows of --eval-data per batch').default(4))
      .option('--json', 'print one JSON object at the end')
      .action(run),
  );
}

async function run(options: Options): Promise<void> {
  const { model: name, base, adapters, output, requantize, json } = options;
  const { findStudent, loadStudent, mergeStudent, saveStudent } = await import('../recovery/index.js');
  const { checkStudentOutput } = await import('../recovery/student.js');
  const started = performance.now();
  await using _output = await openOutput(output); // an error leaves no empty folder
  const from = { ...(base && { base }) };
  const found = await findStudent(name, from);
  if (!adapters && found.form !== 'original')
    throw new ArgumentError(`${name} contains no adapters: pass them with --adapters`);
  await checkOutput(output, name, ...(name.endsWith('.pt') ? [path.dirname(name)] : []));
  const written = requantize ? found.form : 'plain';
  await checkStudentOutput(output, written);
  const measure = options.evalData && (await perplexityOf(found, options.evalData, options));
  const adapted = { ...from, ...(adapters && { adapters }) };
  const before = measure && {
    base: await measure('base', name, { ...from, adapters: false }),
    adapters: await measure('with adapters', name, adapted),
  };
  const { model } = await loadStudent(name, {
    ...adapted,
    materialize: false,
    scanLayers: true,
    onProgress: fetchProgress(),
  });
  const { errors, logits } = await mergeStudent(model, requantize ? 'requantize' : 'dense');
  await saveStudent(output, model, { form: written, ...(base && { modelId: base }) });
  const measured = before && { ...before, merged: await measure('merged', output, from) };
  if (requantize && measured) warnOfLoss(measured);
  if (requantize && !measured) notice('quantizing again loses part of what was learned: --eval-data FILES measures it');
  const error = [...errors.values()].reduce((a, b) => a + b, 0) / errors.size;
  const result = { output, form: written, bytes: await weightBytes(output), error, ...logits };
  const took = (performance.now() - started) / 1e3;
  if (json) {
    const numbers = measured && Object.fromEntries(Object.entries(measured).map(([of, p]) => [of, p.perplexity]));
    process.stdout.write(`${JSON.stringify({ ...result, ...(numbers && { perplexity: numbers }), seconds: took })}\n`);
    return;
  }
  const show = (p: Perplexity) => p.perplexity.toPrecision(5);
  process.stdout.write(
    `${output}: ${plural(errors.size, 'adapter')} merged, ${written}, ${bytes(result.bytes)}, in ${seconds(took)}\n` +
      `weights differ from base plus adapters by ${(100 * error).toFixed(2)}%; on a probe the logits have a KL divergence of ${logits.kl.toPrecision(3)}, ` +
      `and ${(100 * logits.sameTop).toFixed(0)}% of the most likely tokens are the same\n` +
      (measured
        ? `perplexity: base ${show(measured.base)}, with adapters ${show(measured.adapters)}, merged ${show(measured.merged)}\n`
        : ''),
  );
}

type Measured = Readonly<Record<'base' | 'adapters' | 'merged', Perplexity>>;

/** A function that measures perplexity on the same rows. Errors in the files are found before a model is loaded. */
async function perplexityOf(
  found: Parameters<typeof rowsOf>[0],
  data: string[],
  { sequenceLength, batchSize }: Pick<Options, 'sequenceLength' | 'batchSize'>,
) {
  const { evaluatePerplexity, loadStudent } = await import('../recovery/index.js');
  const rows = await rowsOf(found, { data, ...(sequenceLength !== undefined && { sequenceLength }) });
  return async (what: string, name: string, from: Parameters<typeof loadStudent>[1]): Promise<Perplexity> => {
    const { model } = await loadStudent(name, { ...from, ...computeIn(undefined), scanLayers: true });
    return evaluatePerplexity(model, rows, { batchSize, onProgress: progress(what, String, () => ' rows') });
  };
}

const LITTLE = 0.05;
/** Warns if quantizing again lost much: 2-bit codes cannot represent small changes of weights. */
function warnOfLoss({ base, adapters, merged }: Measured): void {
  const gained = base.loss - adapters.loss;
  const lost = merged.loss - adapters.loss;
  if (lost > LITTLE * Math.abs(gained))
    notice(
      `warning: quantizing again lost ${gained > 0 ? `${Math.round((100 * lost) / gained)}% of what the adapters gained` : `${lost.toPrecision(2)} nats a token`}: leave --requantize out for a plain model, or keep the adapters beside the student`,
    );
}
