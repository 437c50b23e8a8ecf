// `tsxla plan`: predicts whether a workload fits a TPU and how fast it runs there, with the TPU's own compiler on this machine.
import fs from 'node:fs/promises';
import { Command, Option } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { stand } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import type { GuideRow, Remat, WorkloadName, WorkloadPlanProgress } from '../plan/workloads/index.js';
import { duration, whole } from './numbers.js';
import { type Progress, progress } from './progress.js';

export function planCommand(): Command {
  return new Command('plan')
    .option('--model <name>', 'a size of Qwen3, such as Qwen3-0.6B, the folder of a model, or a config.json')
    .option('--workload <name>', 'recovery-lora: adapters on a frozen model; full: all weights; inference: generation')
    .addOption(new Option('--job <name>', 'the former name of --workload').hideHelp())
    .option('--tpu <names>', 'slices, such as v6e-1,v6e-8,v5p-16,v7x-8 or v6e:2x4', list)
    .option(
      '--batch <sizes>',
      'batch sizes (sequences for each part of the devices), such as 1,2,4; auto: the largest up to 1024 that fits',
      batches,
      'auto',
    )
    .option('--mesh <axes>', 'device mesh, such as data=2,fsdp=4; -1: all remaining devices; auto: try several', 'auto')
    .option('--seq <n>', 'tokens per sequence, or per prompt (default: 1024)', whole)
    .option('--accumulation <n>', 'micro-batches per training step (default: 1)', whole)
    .option('--rank <n>', 'rank of the adapters (default: 8)', whole)
    .option('--new-tokens <n>', 'tokens to generate after the prompt (default: 256)', whole)
    .addOption(new Option('--remat [how]', 'recompute layers for the gradient: full, light or none').preset('full'))
    .option('--no-remat', 'the same as --remat none')
    .addOption(new Option('--dtype <name>', 'dtype of the weights. Default: bf16').choices(['bf16', 'f32']))
    .option('--timeout <seconds>', 'timeout of one compile (default: none)', duration)
    .option('--parallel <n>', 'number of parallel compiles (default: one for two cores)', whole)
    .addOption(new Option('--jobs <n>', 'the former name of --parallel').argParser(whole).hideHelp())
    .option('--fresh', 'ignore cached results and compile again')
    .option('--guide', 'print the memory guide of recovery LoRA for a v6e-1, next to the memory our step needs')
    .option('--html <file>', 'write a page with charts')
    .option('--json', 'print everything as JSON')
    .action(run);
}

interface Flags {
  readonly model?: string;
  readonly workload?: string;
  readonly job?: string;
  readonly tpu?: readonly string[];
  readonly guide?: true;
  readonly batch: readonly number[] | 'auto';
  readonly mesh: string;
  readonly seq?: number;
  readonly accumulation?: number;
  readonly rank?: number;
  readonly newTokens?: number;
  readonly remat?: string | boolean;
  readonly dtype?: 'bf16' | 'f32';
  readonly timeout?: number;
  readonly parallel?: number;
  readonly jobs?: number;
  readonly fresh?: true;
  readonly json?: true;
  readonly html?: string;
}

const print = (text: string) => void process.stdout.write(`${text}\n`);

async function run(flags: Flags): Promise<void> {
  const { guide, model, job, workload = job, jobs, parallel = jobs, tpu: tpus, batch, ...others } = flags;
  const { timeout, remat, json, html, ...rest } = others;
  const { guideHead, guideLine, pageOf, planGuide, planWorkload, reportOf } = await import(
    '../plan/workloads/index.js'
  );
  if (guide) {
    if (!json) print(guideHead());
    const show = (row: GuideRow) => {
      stand(''); // the progress line is drawn again below
      print(guideLine(row));
    };
    const onRow = json ? undefined : show;
    const rows = await planGuide({ timeoutSeconds: timeout, fresh: rest.fresh, onProgress: shower(), onRow });
    if (json) print(JSON.stringify(rows, null, 2));
    return;
  }
  for (const [flag, value] of Object.entries({ '--model': model, '--workload': workload, '--tpu': tpus }))
    if (!value)
      throw new ArgumentError(
        `${flag} is missing: tsxla plan --model Qwen3-0.6B --workload recovery-lora --tpu v6e-1,v6e-8`,
      );
  if (html) await writePage(html, '', 'a'); // find out before an hour of compiling whether it can be written
  const how = remat === false ? 'none' : remat === true ? undefined : remat;
  const plan = await planWorkload({
    ...rest,
    ...(how !== undefined && { remat: how as Remat }),
    model: model!,
    workload: workload as WorkloadName,
    parallel,
    tpus: tpus!,
    batches: batch,
    timeoutSeconds: timeout,
    onProgress: shower(),
  });
  if (html) await writePage(html, pageOf(plan));
  // `job` is the former name of `workload`.
  print(json ? JSON.stringify({ ...plan, job: plan.workload }, null, 2) : reportOf(plan));
  if (!plan.rows.some((row) => row.fits)) process.exitCode = 1;
}

const writePage = (file: string, text: string, flag = 'w'): Promise<void> =>
  fs.writeFile(file, text, { flag }).catch((e: unknown) => {
    throw new ArgumentError(`cannot write ${file}: ${messageOf(e)}`, { cause: e });
  });

function shower(): (event: WorkloadPlanProgress) => void {
  let rest = '';
  const bar: Progress = progress('planning', String, () => rest, { steps: true });
  return ({ done, total, compiled, cached, what }) => {
    rest = `, ${plural(compiled, 'compile')}${cached ? `, ${cached} known` : ''}: ${what}`;
    bar(done, total);
  };
}

const list = (text: string): string[] => text.split(',').map((s) => s.trim());
const batches = (text: string): number[] | 'auto' => (text === 'auto' ? 'auto' : list(text).map(whole));
