// What is said of a run whose loss or gradients are not finite any more: why, as far as that can be known, and what is saved.
import fs from 'node:fs';
import { NonfiniteError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import type { Module } from '../nn/module.js';
import { checksNonfinite } from '../runtime/nonfinite.js';
import { offLoop } from '../runtime/rules-loop.js';
import { cat } from '../tensor/functions.js';
import type { RunFolder } from './folder.js';

/** A number of a step that is NaN or infinite. */
export interface Lost {
  readonly what: 'loss' | 'norm of the gradients';
  readonly step: number;
  readonly value: number;
}

/**
 * The error of a run that is lost. Its inputs are gone, but for the weights that are not trained: those are looked at, and
 * else it says how the operation is found.
 */
export async function lostRun({ what, step, value }: Lost, student: Module, folder: Folder): Promise<NonfiniteError> {
  const head = `the ${what} of step ${step} is ${value}: the adapters are lost.`;
  const bad = await badWeights(student);
  const [first] = bad;
  if (first) {
    const more = bad.length > 1 ? `, and ${bad.length - 1} more weights are not finite` : '';
    const { name, count, size } = first;
    return new NonfiniteError(
      `${head} The student's weight ${name} has ${count} of ${size} elements that are NaN or infinite${more}: make the student anew.`,
      { details: { step, weights: bad.map((w) => w.name) } },
    );
  }
  const saved = await savedText(folder);
  const again = folder.checkpoints.latest ? ', with --resume,' : '';
  const search = checksNonfinite() ? '' : ` To find the operation, run it again${again} with TSXLA_DEBUG_NANS=1.`;
  return new NonfiniteError(
    `${head} The weights that are not trained are finite.${search} If it diverged, train with a smaller --lr or --grad-clip. ${saved}`,
    { details: { step, weights: [] } },
  );
}
type Folder = Pick<RunFolder, 'checkpoints' | 'paths'>;

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

/** The weights and buffers that are not trained and are not finite, by their names in state dicts. */
async function badWeights(student: Module): Promise<{ name: string; count: number; size: number }[]> {
  const kept = [...student.stateEntries()].filter(({ tensor: t }) => !t.requiresGrad && isFloat(t.dtype));
  if (!kept.length) return [];
  const counts = kept.map(({ tensor, names }) =>
    tensor.detach().isfinite().logicalNot().float().reshape([names.length, -1]).sum(1),
  );
  const all = (await offLoop(() => cat(counts).tolist())) as number[];
  const sizes = kept.flatMap(({ tensor, names }) =>
    names.map((name) => ({ name, size: tensor.numel() / names.length })),
  );
  return sizes.flatMap(({ name, size }, i) => (all[i]! > 0 ? [{ name, size, count: all[i]! }] : []));
}
