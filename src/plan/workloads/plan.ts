// Plans of a workload: compiles each combination of a TPU, a mesh and a batch, in parallel processes.
import { availableParallelism } from 'node:os';
import { checkSeconds, checkWhole } from '../../base/check.js';
import { ArgumentError, PluginFetchError, PluginNotFoundError, TimeoutError } from '../../base/errors.js';
import { checkOptions } from '../../base/options.js';
import { sentenceOf } from '../../base/thrown.js';
import { pointingAt } from '../../ir/source.js';
import { flagOf } from '../../recovery/options.js';
import { type Plan, parseTopology, planLowered, type Slice } from '../index.js';
import { findModel, type PlannedModel } from './model.js';
import { autoMeshes, parseMesh } from './parallel.js';
import { type Remedy, tryRemedies } from './remedies.js';
import { nameOf } from './report.js';
import { largestBatch } from './search.js';
import { WORKLOADS, type WorkloadName } from './table.js';
import { REMAT, SETTINGS, type WorkloadSettings } from './workload.js';

export interface WorkloadPlanOptions extends Partial<Omit<WorkloadSettings, 'batch' | 'mesh'>> {
  /** 'Qwen3-0.6B', the folder of a model, or the path of its config.json. */
  readonly model: string;
  readonly workload: WorkloadName;
  /** TPUs, such as 'v6e-1' or 'v5p:2x2x1'. */
  readonly tpus: readonly string[];
  /** Batch sizes. Default: 'auto', which searches for the largest that fits. */
  readonly batches?: readonly number[] | 'auto' | undefined;
  /** The mesh for all TPUs, such as 'data=2,fsdp=4'. Default: 'auto', which tries several. */
  readonly mesh?: string | undefined;
  /** Number of parallel compiles. Default: one for each two cores. */
  readonly parallel?: number | undefined;
  readonly timeoutSeconds?: number | undefined;
  /** Compile again, even if answers are in the cache. Default: false. */
  readonly fresh?: boolean | undefined;
  /** Try remedies for combinations that do not fit. */
  readonly remedies?: boolean | undefined;
  readonly onProgress?: ((event: WorkloadPlanProgress) => void) | undefined;
}
export interface WorkloadPlanProgress {
  /** Number of finished combinations of a TPU and a mesh; `total` is that of all. */
  readonly done: number;
  readonly total: number;
  readonly compiled: number;
  readonly cached: number;
  /** The last finished one, 'v6e-8, batch 4', or the one that starts, 'compiling v6e-8, batch 4'. */
  readonly what: string;
}

/** The plan of one combination of a TPU, a mesh and a batch. */
export interface WorkloadRow {
  /** Google Cloud's name: 'v6e-8'. */
  readonly tpu: string;
  readonly topology: Slice;
  readonly settings: WorkloadSettings;
  readonly programs: readonly { readonly name: string; readonly tokens: number; readonly plan: Plan }[];
  readonly fits: boolean;
  /** Peak memory on one device, in bytes, of the largest program. */
  readonly peak: number;
  readonly available: number;
  readonly compileSeconds: number;
  /** Time of the program that runs repeatedly, if all programs fit. */
  readonly stepSeconds?: number;
  readonly tokensPerSecond?: number;
  readonly tokensPerSecondPerChip?: number;
  readonly utilisation?: number;
  /** Why the compile failed: a timeout, or a crash of the compiler. */
  readonly error?: string;
  /** The compile timed out: whether the program fits is unknown. */
  readonly timedOut?: boolean;
  readonly remedies?: readonly Remedy[];
}

export interface WorkloadPlan {
  readonly model: PlannedModel;
  readonly workload: WorkloadName;
  /** Best first: those that fit, by tokens per second and chip. */
  readonly rows: readonly WorkloadRow[];
  /** Other batches that the search for the largest one tried. */
  readonly looked: readonly WorkloadRow[];
}

const OPTIONS = [
  'model',
  'workload',
  'tpus',
  'batches',
  'mesh',
  'parallel',
  'timeoutSeconds',
  'fresh',
  'remedies',
  'onProgress',
] as const;

/** Plans one combination. */
export type Ask = (slice: Slice, settings: WorkloadSettings) => Promise<WorkloadRow>;

export async function planWorkload(options: WorkloadPlanOptions): Promise<WorkloadPlan> {
  const names = Object.keys(SETTINGS).filter((name) => name !== 'batch' && name !== 'mesh') as (keyof typeof options)[];
  checkOptions<WorkloadPlanOptions>('planWorkload', [...OPTIONS, ...names], options);
  const { workload, tpus, batches = 'auto', mesh = 'auto', onProgress } = options;
  const { model, settings } = checked(options);
  const ways = tpus.map(parseTopology).flatMap((slice) => {
    const meshes =
      mesh === 'auto'
        ? autoMeshes(slice, WORKLOADS[workload].trains, model.config.numKeyValueHeads)
        : [parseMesh(mesh, slice)];
    return meshes.map((sizes) => ({ slice, settings: { ...settings, mesh: sizes } }));
  });
  const counts = { done: 0, total: ways.length, compiled: 0, cached: 0 };
  const ask = asker(model, options, {
    begins: (row) => onProgress?.({ ...counts, what: `compiling ${nameOf(row)}` }),
    done: (row) => {
      for (const { plan } of row.programs) counts[plan.cached ? 'cached' : 'compiled']++;
      onProgress?.({ ...counts, what: nameOf(row) });
    },
  });
  const looked: WorkloadRow[] = [];
  const found = await Promise.all(
    ways.map(async ({ slice, settings }) => {
      const rows = await (batches === 'auto'
        ? searched(ask, slice, settings, looked)
        : Promise.all(batches.map((batch) => ask(slice, { ...settings, batch }))));
      const explained = await Promise.all(
        rows.map(async (row) =>
          row.fits || row.error || options.remedies === false
            ? row
            : { ...row, remedies: await tryRemedies(WORKLOADS[workload], row, ask) },
        ),
      );
      counts.done++;
      onProgress?.({ ...counts, what: slice.accelerator });
      return explained;
    }),
  );
  return { model, workload, rows: found.flat().sort(better), looked };
}

/** Of anything that is counted: more is a slip of the fingers, and would be traced for hours. */
const MOST = 2 ** 20;

function checked(options: WorkloadPlanOptions): { model: PlannedModel; settings: WorkloadSettings } {
  const { model: name, workload, tpus, batches = 'auto', parallel = 1, timeoutSeconds = 1 } = options;
  if (!Object.hasOwn(WORKLOADS, workload))
    throw new ArgumentError(`there is no workload ${workload}: use ${Object.keys(WORKLOADS).join(', ')}`);
  const model = findModel(name);
  const given = Object.entries(options).filter(([key, value]) => key in SETTINGS && value !== undefined);
  const settings: WorkloadSettings = { ...SETTINGS, ...Object.fromEntries(given) };
  for (const [name] of given)
    if (!usedBy(name as keyof WorkloadSettings, workload))
      throw new ArgumentError(`${flagOf(name)} does nothing with --workload ${workload}: leave it out`);
  const { seq, rank, accumulation, newTokens, remat } = settings;
  if (!tpus.length) throw new ArgumentError('no TPU to plan for: name at least one, as in v6e-1, v6e-8');
  for (const batch of batches === 'auto' ? [] : batches) checkWhole('--batch', batch, 1, MOST);
  checkWhole('--seq', seq, 2, MOST);
  checkWhole('--rank', rank, 1, MOST);
  checkWhole('--accumulation', accumulation, 1, MOST);
  checkWhole('--new-tokens', newTokens, 1, MOST);
  checkWhole('--parallel', parallel, 1, 1024);
  checkSeconds('--timeout', timeoutSeconds);
  if (!REMAT.includes(remat)) throw new ArgumentError(`--remat ${remat}: use ${REMAT.join(', ')}`);
  const positions = seq + (WORKLOADS[workload].trains ? 0 : newTokens);
  if (positions > model.config.maxPositionEmbeddings)
    throw new ArgumentError(
      `${WORKLOADS[workload].trains ? `--seq ${seq}` : `--seq ${seq} and ${newTokens} new tokens are ${positions}`}: ${model.name} has only ${model.config.maxPositionEmbeddings} positions`,
    );
  return { model, settings };
}

/** Whether a setting has a meaning for a workload. */
function usedBy(setting: keyof WorkloadSettings, workload: WorkloadName): boolean {
  if (setting === 'rank') return workload === 'recovery-lora';
  if (setting === 'newTokens') return workload === 'inference';
  return WORKLOADS[workload].trains || (setting !== 'accumulation' && setting !== 'remat');
}

/** Folders of this package whose source lines are shown for buffers and kernels. */
export const POINTED = ['models', 'lora', 'quant', 'distill', 'recovery', 'plan/workloads', 'optim'];

interface Watcher {
  readonly begins: (row: Pick<WorkloadRow, 'tpu' | 'settings'>) => void;
  readonly done: (row: WorkloadRow) => void;
}

/** Plans combinations, a few at a time. */
function asker({ config }: PlannedModel, options: WorkloadPlanOptions, watcher: Watcher): Ask {
  const { workload, timeoutSeconds, fresh, parallel = Math.max(1, Math.floor(availableParallelism() / 2)) } = options;
  const turn = limited(parallel);
  return async (slice, settings) => {
    const row = await turn(async () => {
      const programs: WorkloadRow['programs'][number][] = [];
      watcher.begins({ tpu: slice.accelerator, settings });
      try {
        const described = pointingAt(POINTED, () => WORKLOADS[workload].programs(config, settings));
        for (const { lowered, tokens } of described)
          programs.push({
            name: lowered.name,
            tokens,
            plan: await planLowered(lowered, slice, { timeoutSeconds, fresh }),
          });
      } catch (e) {
        // A missing compiler or a wrong argument fails all rows. Other errors only fail their own row.
        if (e instanceof ArgumentError || e instanceof PluginNotFoundError || e instanceof PluginFetchError) throw e;
        return {
          ...rowOf(slice, settings, programs, sentenceOf(e)),
          ...(e instanceof TimeoutError && { timedOut: true }),
        };
      }
      return rowOf(slice, settings, programs);
    });
    watcher.done(row);
    return row;
  };
}

function rowOf(
  slice: Slice,
  settings: WorkloadSettings,
  programs: WorkloadRow['programs'],
  error?: string,
): WorkloadRow {
  const plans = programs.map((p) => p.plan);
  const { tokens = 0, plan } = programs.at(-1) ?? {};
  const fits = !error && plans.every((p) => p.fits);
  const tokensPerSecond = fits && plan ? tokens / plan.estimate.seconds : 0;
  return {
    tpu: slice.accelerator,
    topology: slice,
    settings,
    programs,
    fits,
    peak: Math.max(0, ...plans.map((p) => p.peak)),
    available: slice.chip.hbm.available,
    compileSeconds: plans.reduce((sum, p) => sum + p.compileSeconds, 0),
    ...(fits && {
      stepSeconds: plan!.estimate.seconds,
      tokensPerSecond,
      tokensPerSecondPerChip: tokensPerSecond / slice.chips,
      utilisation: plan!.estimate.utilisation,
    }),
    ...(error && { error }),
  };
}

/** Runs at most n functions at a time, in the order of the calls. */
function limited(n: number): <T>(run: () => Promise<T>) => Promise<T> {
  let free = n;
  const waiting: (() => void)[] = [];
  return async (run) => {
    if (free > 0) free--;
    else await new Promise<void>((go) => waiting.push(go));
    try {
      return await run();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}

/** The row of the largest batch that fits, or of batch 1 if none fits. */
async function searched(
  ask: Ask,
  slice: Slice,
  settings: WorkloadSettings,
  looked: WorkloadRow[],
): Promise<WorkloadRow[]> {
  const rows = new Map<number, WorkloadRow>();
  const largest = await largestBatch(async (batch) => {
    const row = await ask(slice, { ...settings, batch });
    rows.set(batch, row);
    return row;
  });
  const best = rows.get(Math.max(1, largest))!;
  looked.push(...[...rows.values()].filter((row) => row !== best));
  return [best];
}

const better = (a: WorkloadRow, b: WorkloadRow): number =>
  Number(b.fits) - Number(a.fits) || (b.tokensPerSecondPerChip ?? 0) - (a.tokensPerSecondPerChip ?? 0);
