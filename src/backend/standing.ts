// Keeps the changes applied to each model, in order, until they are undone.
import { sentenceOf } from '../base/thrown.js';
import { describe } from '../base/tree.js';
import { Module } from '../nn/module.js';
import type { Client } from '../pjrt/index.js';
import { wholeOf } from '../runtime/memory.js';
import { startedClient } from '../runtime/value.js';
import {
  type Applied,
  CHANGES,
  type Change,
  type Context,
  OPTIMIZATION_LEVELS,
  type OptimizationLevel,
  type Purpose,
} from './changes.js';
import { checkOneOf } from './check.js';
import { dtypeOf, type KernelPyTorchConfig, limitOf, type TPUConfig } from './config.js';
import { TPUOptimizationError } from './errors.js';
import { log } from './log.js';

export interface ChangeReport {
  readonly name: string;
  /** 'undone': outputs drifted too far, or it failed. 'none': it would have no effect. */
  readonly status: 'applied' | 'undone' | 'none';
  /** What was changed, or why not. */
  readonly what: string;
  /** The relative error it caused in the outputs (difference norm / norm), if sample inputs were given. */
  readonly drift?: number;
}

export interface Standing extends Applied {
  readonly row: Change;
  readonly purpose: Purpose;
}
const standings = new WeakMap<Module, Standing[]>();
export function standingOf(model: Module): Standing[] {
  const found = standings.get(model) ?? [];
  standings.set(model, found);
  return found;
}
/** Undoes changes, last first, until `length` are left. */
export function takeBack(standing: Standing[], length = 0): void {
  while (standing.length > length) standing.pop()!.undo();
}

/** Whether an applied change has converted the weights themselves to bf16. */
export const isRounded = (standing: readonly Standing[]): boolean => standing.some(({ settle }) => settle);
/** Warns that weights converted back to f32 have lost precision, which matters for training. */
export function tellLost(model: Module, wasRounded: boolean): void {
  if (wasRounded && !isRounded(standingOf(model)))
    log.warning(
      'weights converted to bf16 for inference are f32 again, without the precision that was rounded away: load them again, or keep two models',
      { model: model.constructor.name },
    );
}

export const rowsOf = (level: OptimizationLevel): readonly Change[] => {
  const most = OPTIMIZATION_LEVELS.indexOf(level);
  return CHANGES.filter((row) => OPTIMIZATION_LEVELS.indexOf(row.level) <= most);
};
/** Undoes changes of earlier calls that this one does not want, and all changes made on top of them. */
export function reconcile(standing: Standing[], rows: readonly Change[], context: Context): void {
  const isWanted = ({ row, purpose }: Standing) =>
    rows.includes(row) && purpose === context.purpose && row.unless(context) === undefined;
  const first = standing.findIndex((s) => !isWanted(s));
  if (first >= 0) takeBack(standing, first);
}

/** Makes a change unless it is applied already. Returns a report if nothing was changed. */
export function tryApply(row: Change, model: Module, standing: Standing[], context: Context): ChangeReport | undefined {
  const { name } = row;
  const there = standing.find((s) => s.row === row);
  if (there) return { name, status: 'applied', what: there.what };
  const unless = row.unless(context);
  if (unless) return { name, status: 'none', what: unless };
  try {
    const change = row.apply(model, context);
    if ('none' in change) return { name, status: 'none', what: change.none };
    standing.push({ ...change, row, purpose: context.purpose });
    return undefined;
  } catch (e) {
    return { name, status: 'undone', what: `it failed: ${sentenceOf(e)}` };
  }
}

/** The changes that prepareModel makes without a level. */
const PREPARED = ['checkpointing', 'everything in bf16'];
/**
 * Makes the configured changes, or those of a level, without measuring or comparing. Existing changes are made again, so that
 * layers added since get them too. Without a level, changes made by an optimizer are kept. Sharding is left out unless it was
 * applied before: the devices are not known until they are started.
 */
export function prepare(model: Module, config: KernelPyTorchConfig, level?: OptimizationLevel): ChangeReport[] {
  checkModel(model);
  if (level !== undefined) checkOneOf('the optimization level', level, OPTIMIZATION_LEVELS);
  const { tpu } = config.hardware;
  const standing = standingOf(model);
  const names = new Set(standing.map(({ row }) => row.name));
  const wasRounded = isRounded(standing);
  takeBack(standing);
  if (!tpu.mixedPrecision) model.to(dtypeOf(tpu));
  const isNarrow = names.has('bf16 linears') && !names.has('everything in bf16');
  const wanted = PREPARED.filter((name) => !(isNarrow && name === 'everything in bf16'));
  const rows = level ? rowsOf(level) : CHANGES.filter(({ name }) => names.has(name) || wanted.includes(name));
  const purpose = purposeOf(config);
  const client = names.has('sharding') ? startedClient() : undefined;
  const context = client ? contextOf(purpose, tpu, client) : { purpose, config: tpu };
  const changes = rows.map((row): ChangeReport => {
    const report = tryApply(row, model, standing, context);
    if (report) return report;
    const { what, settle } = standing.at(-1)!;
    settle?.();
    return { name: row.name, status: 'applied', what };
  });
  tellLost(model, wasRounded && model.parameters().some((p) => p.dtype === 'f32'));
  return changes;
}
export const contextOf = (purpose: Purpose, config: TPUConfig, client: Client): Context => ({
  purpose,
  config,
  devices: client.devices.length,
  capacity: limitOf(config, wholeOf(client), client.defaultDevice.kind),
});
export const purposeOf = ({ mode }: KernelPyTorchConfig): Purpose => (mode === 'inference' ? 'inference' : 'training');

/** Undoes all changes applied to a model. Weights converted to bf16 become f32 again, with the values rounded to bf16. */
export function undoOptimizations(model: Module): void {
  checkModel(model);
  takeBack(standingOf(model));
}

export function checkModel(model: unknown): asserts model is Module {
  if (!(model instanceof Module)) throw new TPUOptimizationError(`the model is ${describe(model)}: pass an nn.Module`);
}
