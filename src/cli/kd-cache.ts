// `tsxla kd-cache`: caches a teacher's logits on a text for students. `tsxla kd-convert`: converts from and to the original's files.
import { statfs } from 'node:fs/promises';
import { Command, Option } from 'commander';
import { bytes, plural, seconds, timeLeft } from '../base/format.js';
import { notice } from '../base/log.js';
import type { KDCacheOptions, KDCacheProgress } from '../distill/index.js';
import { computeIn, dtypeOption, withDevice } from './device-option.js';
import { whole } from './numbers.js';
import { fetchProgress, progress } from './progress.js';

interface Options extends Omit<KDCacheOptions, 'separator' | 'data' | 'teacher'> {
  readonly teacher: string;
  readonly data: string[];
  readonly output: string;
  readonly separator: number | false | undefined;
  readonly device: string;
  readonly json?: true;
}

export function kdCacheCommand(): Command {
  const number = (flags: string, text: string) => new Option(flags, text).argParser(whole);
  const command = new Command('kd-cache')
    .requiredOption('-t, --teacher <name>', 'a model folder, or a name on the Hugging Face hub')
    .requiredOption('-d, --data <files...>', '.jsonl, .parquet or .txt files, or hf://datasets/OWNER/NAME/PATTERN')
    .requiredOption('-o, --output <folder>', 'the folder to write the cache to, or whose cache is continued')
    .addOption(number('-l, --sequence-length <n>', 'tokens per sequence').default(1024))
    .addOption(number('-k, --top-k <n>', 'number of most likely tokens kept for each position').default(128))
    .addOption(number('-r, --negatives <n>', 'number of other tokens sampled at random').default(64))
    .addOption(number('-n, --sequences <n>', 'the most sequences; a larger number than before continues the cache'))
    .addOption(number('-b, --batch-size <n>', 'sequences per batch of the teacher').default(4))
    .option('--field <name>', 'the field or column with the text, tokens or messages', 'text')
    .addOption(
      new Option('--by <unit>', 'what counts as a document in a .txt file')
        .choices(['line', 'paragraph'])
        .default('paragraph'),
    )
    .addOption(number('--separator <token>', "the token after each text. Default: the tokenizer's end of text"))
    .option('--no-separator', 'no token between texts')
    .option('--no-pack', 'one sequence per document, truncated and padded')
    .addOption(
      new Option('--logits <dtype>', 'dtype of the stored logits').choices(['f16', 'bf16', 'f32']).default('f16'),
    )
    .addOption(number('--seed <n>', 'seed of the random tokens').default(0))
    .addOption(
      number('--shard-sequences <n>', 'sequences per file, the most that a killed run loses. Default: about 64 MiB'),
    )
    .addOption(dtypeOption())
    .option('--no-scan-layers', 'unroll the layers instead of a loop: compiles slower, may run faster')
    .option('--overwrite', 'remove an existing cache first')
    .option('--json', 'print one JSON object at the end')
    .action(run);
  return withDevice(command);
}

async function run({ output, separator, json, dtype, device: _, ...options }: Options): Promise<void> {
  const { writeKDCache } = await import('../distill/index.js');
  const started = performance.now();
  const result = await writeKDCache(output, {
    ...options,
    ...computeIn(dtype),
    ...(separator !== undefined && { separator: separator === false ? null : separator }),
    onProgress: shower(output),
    onFetch: fetchProgress(),
  });
  const took = (performance.now() - started) / 1e3;
  if (json) process.stdout.write(`${JSON.stringify({ ...result, seconds: took })}\n`);
  else {
    const before = result.resumedAt ? `, ${result.resumedAt} of them from before` : '';
    process.stdout.write(
      `${output}: ${plural(result.sequences, 'sequence')}${before}, ${bytes(result.bytes)}, in ${seconds(took)}\n`,
    );
  }
}

/** Shows the expected size first, then the progress. */
function shower(folder: string): (p: KDCacheProgress) => void {
  let last: KDCacheProgress | undefined;
  const rest = () => {
    const { totalBytes = 0, tokensPerSecond: rate, secondsLeft: left } = last!;
    const parts = [
      `sequences (${bytes(totalBytes)})`,
      rate && `${Math.round(rate)} tokens/s`,
      left && `${timeLeft(left)} left`,
    ];
    return ` ${parts.filter(Boolean).join(', ')}`;
  };
  const tell = progress('kd-cache', String, rest);
  return (p) => {
    if (!last) void announce(folder, p);
    last = p;
    if (p.total !== undefined && p.tokensPerSecond !== undefined) tell(p.sequences, p.total);
  };
}

async function announce(
  folder: string,
  { sequences, total, totalBytes, bytes: there }: KDCacheProgress,
): Promise<void> {
  if (sequences) notice(`${folder} has ${plural(sequences, 'sequence')} already: resuming after them`);
  if (total === undefined || totalBytes === undefined) return;
  notice(`about ${plural(total, 'sequence')}, ${bytes(totalBytes)}`);
  const { bavail, bsize } = await statfs(folder);
  if (totalBytes - there > bavail * bsize)
    notice(`${folder} has room for ${bytes(bavail * bsize)} only: use fewer --sequences, --top-k or --negatives`);
}

export const kdConvertCommand = (): Command =>
  new Command('kd-convert')
    .argument('<from>', 'the folder of a cache')
    .argument('<to>', 'an empty folder, or one to create')
    .option(
      '--tokenizer <name>',
      "for the original's files: the folder of the teacher; its tokenizer is recorded in the cache",
    )
    .action(async (from: string, to: string, { tokenizer: teacher }: { tokenizer?: string }) => {
      const { exportKDCache, importKDCache, KDCacheDataset } = await import('../distill/index.js');
      const { Tokenizer } = await import('../models/index.js');
      const { info } = await KDCacheDataset.open(from);
      const tokenizer = teacher === undefined ? null : (await Tokenizer.fromPretrained(teacher)).hash;
      const n = info.format === 'tsxla' ? await exportKDCache(from, to) : await importKDCache(from, to, { tokenizer });
      process.stdout.write(`${to}: ${plural(n, 'sequence')}\n`);
    });
