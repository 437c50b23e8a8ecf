// Spec 000's memory guide for a TPU v6e-1, beside what the TPU's compiler says of our step.
import { columns, seconds } from '../../base/format.js';
import { planWorkload, type WorkloadPlanOptions, type WorkloadRow } from './plan.js';

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
  /** As train-recovery-lora does it on a TPU, and with all activations kept, as the guide's figures were. */
  readonly ours: WorkloadRow;
  readonly kept: WorkloadRow;
}

export async function planGuide(
  options: Pick<WorkloadPlanOptions, 'timeoutSeconds' | 'fresh' | 'onProgress'> = {},
): Promise<GuideRow[]> {
  const rows: GuideRow[] = [];
  for (const { rank, batch, accumulation, said } of GUIDE) {
    const [ours, kept] = [await plan('full'), await plan('none')];
    rows.push({ rank, batch, accumulation, said, ours, kept });
    async function plan(remat: 'full' | 'none'): Promise<WorkloadRow> {
      const asked = { model: 'Qwen3-0.6B', workload: 'recovery-lora', tpus: ['v6e-1'], remedies: false } as const;
      return (await planWorkload({ ...options, ...asked, rank, accumulation, batches: [batch], remat })).rows[0]!;
    }
  }
  return rows;
}

const GiB = ({ peak, error, fits }: WorkloadRow): string =>
  error ? 'failed' : `${(peak / 2 ** 30).toFixed(2)} GiB${fits ? '' : ', too much'}`;

export function guideReport(rows: readonly GuideRow[]): string {
  const titles = ['config', 'batch', 'seq len', 'accum', 'spec 000', 'ours', 'without remat', 'step', 'compile'];
  const lines = rows.map(({ rank, batch, accumulation, said, ours, kept }) => [
    `Qwen3-0.6B + LoRA r=${rank}`,
    String(batch),
    String(ours.settings.seq),
    String(accumulation),
    said,
    GiB(ours),
    GiB(kept),
    ours.stepSeconds ? seconds(ours.stepSeconds) : '',
    seconds(ours.compileSeconds),
  ]);
  return `Spec 000's memory guide (TPU v6e-1), and what the TPU's compiler says of our step\n\n${columns([titles, ...lines], '')}`;
}
