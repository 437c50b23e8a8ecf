// Compares the memory guide of Anemll's recovery LoRA for a TPU v6e-1 with the compiler's figures for tsxla's step.
import { seconds } from '../../base/format.js';
import { planWorkload, type WorkloadPlanOptions, type WorkloadRow } from './plan.js';
import { fitOf } from './report.js';

export const GUIDE = [
  { rank: 8, batch: 4, accumulation: 8, said: '~22GB' },
  { rank: 16, batch: 4, accumulation: 8, said: '~24GB' },
  { rank: 8, batch: 8, accumulation: 4, said: '~28GB' },
] as const;

export interface GuideRow {
  readonly rank: number;
  readonly batch: number;
  readonly accumulation: number;
  readonly said: string;
  /** With the defaults of train-recovery-lora on a TPU; `kept` keeps all activations, as the guide does. */
  readonly ours: WorkloadRow;
  readonly kept: WorkloadRow;
}

export interface GuideOptions extends Pick<WorkloadPlanOptions, 'timeoutSeconds' | 'fresh' | 'onProgress'> {
  /** Called with each row once it is ready: a row takes minutes. */
  readonly onRow?: ((row: GuideRow) => void) | undefined;
}

export async function planGuide({ onRow, onProgress, ...options }: GuideOptions = {}): Promise<GuideRow[]> {
  const rows: GuideRow[] = [];
  const counts = { done: 0, total: 2 * GUIDE.length, compiled: 0, cached: 0 };
  for (const { rank, batch, accumulation, said } of GUIDE) {
    const [ours, kept] = [await plan('full'), await plan('none')];
    rows.push({ rank, batch, accumulation, said, ours, kept });
    onRow?.(rows.at(-1)!);
    async function plan(remat: 'full' | 'none'): Promise<WorkloadRow> {
      const asked = { model: 'Qwen3-0.6B', workload: 'recovery-lora', tpus: ['v6e-1'], remedies: false } as const;
      const what = `rank ${rank}, batch ${batch}, remat ${remat}`;
      onProgress?.({ ...counts, what: `compiling ${what}` });
      const [row] = (await planWorkload({ ...options, ...asked, rank, accumulation, batches: [batch], remat })).rows;
      counts.done++;
      for (const { plan } of row!.programs) counts[plan.cached ? 'cached' : 'compiled']++;
      onProgress?.({ ...counts, what });
      return row!;
    }
  }
  return rows;
}

const GiB = (row: WorkloadRow): string =>
  row.error ? fitOf(row) : `${(row.peak / 2 ** 30).toFixed(2)} GiB${row.fits ? '' : ', too much'}`;

/** Titles and widths of the columns: fixed, so that rows can be printed once they are ready. */
const COLUMNS = [
  ['config', 23],
  ['batch', 5],
  ['seq len', 7],
  ['accum', 5],
  ['guide', 8],
  ['ours', 19],
  ['without remat', 19],
  ['step', 7],
  ['compile', 7],
] as const;
const lineOf = (cells: readonly string[]): string =>
  cells
    .map((cell, i) => cell.padEnd(COLUMNS[i]![1]))
    .join('  ')
    .trimEnd();

/** The title and the names of the columns. */
export const guideHead = (): string =>
  `The memory guide of recovery LoRA (TPU v6e-1), and what the TPU's compiler says of our step\n\n${lineOf(COLUMNS.map(([title]) => title))}`;

export const guideLine = ({ rank, batch, accumulation, said, ours, kept }: GuideRow): string =>
  lineOf([
    `Qwen3-0.6B + LoRA r=${rank}`,
    String(batch),
    String(ours.settings.seq),
    String(accumulation),
    said,
    GiB(ours),
    GiB(kept),
    ours.stepSeconds ? seconds(ours.stepSeconds) : '',
    ours.compileSeconds ? seconds(ours.compileSeconds) : '',
  ]);

export const guideReport = (rows: readonly GuideRow[]): string => [guideHead(), ...rows.map(guideLine)].join('\n');
