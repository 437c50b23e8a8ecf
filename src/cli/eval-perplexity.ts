// `tsxla eval-perplexity`: the perplexity of a model, quantized or not, on a text.
import fs from 'node:fs/promises';
import { Command, Option } from 'commander';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { seconds } from '../base/format.js';
import type { FoundStudent, PerplexityTextOptions } from '../recovery/index.js';
import { computeIn, dtypeOption, withDevice } from './device-option.js';
import { whole } from './numbers.js';
import { fetchProgress, progress } from './progress.js';

interface Options extends Pick<PerplexityTextOptions, 'stride' | 'maxTokens' | 'field' | 'by'> {
  readonly model: string;
  readonly base?: string;
  readonly adapters?: string;
  readonly data: string[];
  readonly sequenceLength?: number;
  readonly batchSize: number;
  readonly dtype?: DType;
  readonly scanLayers: boolean;
  readonly json?: true;
}

export function evalPerplexityCommand(): Command {
  const number = (flags: string, text: string) => new Option(flags, text).argParser(whole);
  const command = new Command('eval-perplexity')
    .requiredOption(
      '-m, --model <name>',
      'a model folder (quantized or not), a name on the Hugging Face hub, or a file of the original',
    )
    .option('--base <name>', "for the original's files: the model they were made from")
    .option('-a, --adapters <path>', 'adapters to load onto the model: a PEFT folder, or a file')
    .requiredOption(
      '-d, --data <files...>',
      '.txt, .jsonl or .parquet files, hf://datasets/OWNER/NAME/PATTERN, or the folder of a KD cache',
    )
    .addOption(number('-l, --sequence-length <n>', 'tokens per row. Default: 1024, or the most positions of the model'))
    .addOption(
      number(
        '--stride <n>',
        'tokens from one row to the next; if less than the row length, the overlap is context only',
      ),
    )
    .addOption(number('-b, --batch-size <n>', 'rows per batch').default(4))
    .addOption(number('--max-tokens <n>', 'the most tokens of the text to read'))
    .option('--field <name>', 'the field or column with the text, tokens or messages', 'text')
    .addOption(
      new Option('--by <unit>', 'what counts as a document in a .txt file')
        .choices(['file', 'line', 'paragraph'])
        .default('file'),
    )
    .addOption(dtypeOption())
    .option('--no-scan-layers', 'unroll the layers instead of a loop: compiles slower, may run faster')
    .option('--json', 'print one JSON object at the end')
    .action(run);
  return withDevice(command);
}

async function run({
  model: name,
  base,
  adapters,
  batchSize,
  dtype,
  scanLayers,
  json,
  ...options
}: Options): Promise<void> {
  const { evaluatePerplexity, findStudent, loadStudent } = await import('../recovery/index.js');
  const started = performance.now();
  const from = { ...(base && { base }), ...(adapters && { adapters }), onProgress: fetchProgress() };
  const rows = await rowsOf(await findStudent(name, from), options); // errors in them are found before a model is loaded
  const { model } = await loadStudent(name, { ...from, ...computeIn(dtype), scanLayers });
  const tell = progress('eval-perplexity', String, () => ' rows');
  const result = await evaluatePerplexity(model, rows, { batchSize, onProgress: tell });
  const took = (performance.now() - started) / 1e3;
  if (json) process.stdout.write(`${JSON.stringify({ ...result, rows: rows.length, seconds: took })}\n`);
  else
    process.stdout.write(
      `perplexity ${result.perplexity.toPrecision(5)} (loss ${result.loss.toFixed(4)} over ${result.tokens} tokens), in ${seconds(took)}\n`,
    );
}

const DEFAULT_LENGTH = 1024;

/** The rows of --data, for a student's tokenizer and positions. */
export async function rowsOf(
  { folder }: FoundStudent,
  {
    data,
    sequenceLength,
    stride,
    maxTokens,
    field,
    by,
  }: Pick<Options, 'data'> & Partial<Pick<Options, 'sequenceLength' | 'stride' | 'maxTokens' | 'field' | 'by'>>,
) {
  const { perplexityRows } = await import('../recovery/index.js');
  const { readFolder } = await import('../models/index.js');
  const { isHubFolder } = await import('../io/hub-files.js');
  const { config, tokenizer } = await readFolder(folder);
  const one = data.length === 1 ? await fs.stat(data[0]!).catch(() => undefined) : undefined;
  if (one?.isDirectory() || (data.length === 1 && isHubFolder(data[0]!))) {
    for (const [flag, given] of Object.entries({ 'sequence-length': sequenceLength, stride, 'max-tokens': maxTokens }))
      if (given !== undefined)
        throw new ArgumentError(`--${flag} applies to text, but ${data[0]} is a KD cache: leave it out`);
    const { KDCacheDataset } = await import('../distill/index.js');
    return KDCacheDataset.open(data[0]!, { expect: { tokenizer: tokenizer?.hash, vocabSize: config.vocabSize } });
  }
  const { maxPositionEmbeddings: most } = config;
  if (sequenceLength !== undefined && sequenceLength > most)
    throw new ArgumentError(`--sequence-length is ${sequenceLength}, but the model has ${most} positions`);
  return perplexityRows(data, tokenizer, {
    sequenceLength: sequenceLength ?? Math.min(DEFAULT_LENGTH, most),
    ...(stride !== undefined && { stride }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(field !== undefined && { field }),
    ...(by !== undefined && { by }),
  });
}
