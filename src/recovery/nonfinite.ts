// The errors of runs whose loss or gradients are not finite: how to find the operation, and which files were saved.
import fs from 'node:fs';
import { NonfiniteError } from '../base/errors.js';
import type { OutputFolder } from './output.js';

/** A value of a step that is NaN or infinite. */
export interface NonfiniteValue {
  readonly what: 'loss' | 'norm of the gradients';
  readonly step: number;
  readonly value: number;
}

/**
 * The error of a run with a non-finite value. The inputs of that step are gone, so it says how to find the operation in a new run.
 * The student's weights and the data were checked when they were read.
 */
export async function nonfiniteRun({ what, step, value }: NonfiniteValue, folder: Folder): Promise<NonfiniteError> {
  const saved = await savedText(folder);
  const again = folder.checkpoints.latest ? ' and --resume' : '';
  return new NonfiniteError(
    `the ${what} of step ${step} is ${value}: the adapters are lost. To find the operation, run again with TSXLA_DEBUG_NANS=1${again}. If it diverged, train with a smaller --lr or --grad-clip. ${saved}`,
    { details: { step, what, value } },
  );
}
type Folder = Pick<OutputFolder, 'checkpoints' | 'paths'>;

/** The error if TSXLA_DEBUG_NANS is on: the search has found the operation and the step was not done. */
export async function failedStep(step: number, error: NonfiniteError, folder: Folder): Promise<NonfiniteError> {
  const message = `step ${step} is not finite: ${error.message}\n    ${await savedText(folder)}`;
  return new NonfiniteError(message, { details: { ...error.details, step } });
}

/** The usable files of the run, for the error. */
async function savedText({ checkpoints, paths: { best } }: Folder): Promise<string> {
  await checkpoints.done().catch(() => {}); // a checkpoint may still be written; its manager reports a failure
  const { latest } = checkpoints;
  const saved = [
    ...(latest ? [`the checkpoint of step ${latest.step} (--resume)`] : []),
    ...(fs.existsSync(best) ? [`the best adapters (--resume-from ${best})`] : []),
  ];
  return saved.length ? `What was saved is good: ${saved.join(' and ')}.` : 'Nothing was saved yet.';
}
