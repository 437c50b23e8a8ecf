// What is said of a run whose loss or gradients are not finite any more: how the reason is found, and what is saved.
import fs from 'node:fs';
import { NonfiniteError } from '../base/errors.js';
import type { OutputFolder } from './output.js';

/** A number of a step that is NaN or infinite. */
export interface NonfiniteValue {
  readonly what: 'loss' | 'norm of the gradients';
  readonly step: number;
  readonly value: number;
}

/**
 * The error of a run whose numbers are not finite. The inputs of that step are gone: it says how to find the operation. The student's
 * weights and the data were checked when they were read.
 */
export async function nonfiniteRun({ what, step, value }: NonfiniteValue, folder: Folder): Promise<NonfiniteError> {
  const saved = await savedText(folder);
  const again = folder.checkpoints.latest ? ' and --resume' : '';
  return new NonfiniteError(
    `the ${what} of step ${step} is ${value}: the adapters are lost. To find the operation, run it again with TSXLA_DEBUG_NANS=1${again}. If it diverged, train with a smaller --lr or --grad-clip. ${saved}`,
    { details: { step, what, value } },
  );
}
type Folder = Pick<OutputFolder, 'checkpoints' | 'paths'>;

/** The same where the search is on: the step was not done, and says what went wrong. */
export async function failedStep(step: number, error: NonfiniteError, folder: Folder): Promise<NonfiniteError> {
  const message = `step ${step} is not finite: ${error.message}\n    ${await savedText(folder)}`;
  return new NonfiniteError(message, { details: { ...error.details, step } });
}

/** Only what is there is named. */
async function savedText({ checkpoints, paths: { best } }: Folder): Promise<string> {
  await checkpoints.done().catch(() => {}); // one may be on its way to the disk; why it is not there, its manager says
  const { latest } = checkpoints;
  const saved = [
    ...(latest ? [`the checkpoint of step ${latest.step} (--resume)`] : []),
    ...(fs.existsSync(best) ? [`the best adapters (--resume-from ${best})`] : []),
  ];
  return saved.length ? `What was saved is good: ${saved.join(' and ')}.` : 'Nothing was saved yet.';
}
