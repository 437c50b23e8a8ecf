// `tsxla kd-cache`: what a teacher says of a text, kept for students. `tsxla kd-convert`: from and to the original's files.
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
    .requiredOption('-t, --teacher <name>', 'the folder of a Qwen3 model, or its name on the Hugging Face hub')
    .requiredOption('-d, --data <files...>', '.jsonl, .parquet or .txt files')
    .requiredOption('-o, --output <folder>', 'where the cache is written, or continued')
    .addOption(number('-l, --sequence-length <n>', 'tokens of a sequence').default(1024))
    .addOption(number('-k, --top-k <n>', 'how many of the most likely tokens are kept for each position').default(128))
    .addOption(number('-r, --negatives <n>', 'how many others are drawn at random').default(64))
    .addOption(number('-n, --sequences <n>', 'at most so many; more than last time continues the cache'))
    .addOption(number('-b, --batch-size <n>', 'sequences that the teacher reads at a time').default(4))
    .option('--field <name>', 'the field or column with the text, tokens or messages', 'text')
    .addOption(
      new Option('--by <unit>', 'what is a document in a .txt file')
        .choices(['line', 'paragraph'])
        .default('paragraph'),
    )
    .addOption(number('--separator <token>', "the token behind each text; the tokenizer's end of text unless told"))
    .option('--no-separator', 'nothing between texts')
    .option('--no-pack', 'each document has its own sequence, cut and padded')
    .addOption(
      new Option('--logits <dtype>', 'what logits are stored in').choices(['f16', 'bf16', 'f32']).default('f16'),
    )
    .addOption(number('--seed <n>', 'of what is drawn at random').default(0))
    .addOption(
      number(
        '--shard-sequences <n>',
        'sequences of a file, which is what a killed run loses; about 64 MiB unless told',
      ),
    )
    .addOption(dtypeOption())
    .option('--no-scan-layers', 'the layers one by one: compiles slower, may run faster')
    .option('--overwrite', 'remove the cache that is there')
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

/** First what it will be, then how far it is. */
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
  if (sequences) notice(`${folder} has ${plural(sequences, 'sequence')} already: going on behind them`);
  if (total === undefined || totalBytes === undefined) return;
  notice(`about ${plural(total, 'sequence')}, ${bytes(totalBytes)}`);
  const { bavail, bsize } = await statfs(folder);
  if (totalBytes - there > bavail * bsize)
    notice(`${folder} has room for ${bytes(bavail * bsize)} only: use fewer --sequences, --top-k or --negatives`);
}

export const kdConvertCommand = (): Command =>
  new Command('kd-convert')
    .argument('<from>', 'the folder of a cache')
    .argument('<to>', 'an empty folder, or one to be made')
    .option(
      '--tokenizer <name>',
      "for the original's: the folder of the teacher, whose tokenizer is noted in the cache",
    )
    .action(async (from: string, to: string, { tokenizer: teacher }: { tokenizer?: string }) => {
      const { exportKDCache, importKDCache, KDCacheDataset } = await import('../distill/index.js');
      const { Tokenizer } = await import('../models/index.js');
      const { info } = await KDCacheDataset.open(from);
      const tokenizer = teacher === undefined ? null : (await Tokenizer.fromPretrained(teacher)).hash;
      const n = info.format === 'tsxla' ? await exportKDCache(from, to) : await importKDCache(from, to, { tokenizer });
      process.stdout.write(`${to}: ${plural(n, 'sequence')}\n`);
    });
