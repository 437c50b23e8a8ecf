// The step of recovery LoRA at full size, as src/plan/workloads has it, for one v6e.

import { QWEN3 } from 'tsxla/models';
import { type AheadOfTime, compileAhead } from 'tsxla/plan';
import { type Base, GUIDE, recoveryProgram as lowered, SETTINGS } from 'tsxla/workloads';

export type { Base };
export interface Row {
  readonly rank: number;
  readonly batch: number;
  readonly accumulation: number;
  readonly base?: Base;
  readonly compute?: 'gather' | 'dense';
}
/** The memory guide of recovery LoRA for a v6e, whose figures were 22, 24 and 28 GB. */
export const ROWS: readonly Row[] = GUIDE.map(({ rank, batch, accumulation }) => ({ rank, batch, accumulation }));

export const recoveryProgram = (row: Row, platform: 'cpu' | 'cuda' | 'tpu'): string =>
  lowered(QWEN3['0.6B'], { ...SETTINGS, ...row, platform }).text;

export const planRecovery = (row: Row): Promise<AheadOfTime> =>
  compileAhead(recoveryProgram(row, 'tpu'), { topology: 'v6e:1x1', timeoutSeconds: 900 });
