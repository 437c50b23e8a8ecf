// Engines run the workers of a run: on this machine (local.ts) or on a Ray cluster (ray/engine.ts).
import { ArgumentError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { Checkpoint } from './checkpoint.js';
import type { CheckpointConfig, FailureConfig, ScalingConfig } from './config.js';
import { TrainingFailedError } from './errors.js';
import type { Link } from './link.js';
import { decodeMetrics, type JsonMetrics, type Metrics, type WorkerSpec } from './protocol.js';
import type { Scale } from './scaling.js';

/** The result of a run. */
export interface Result {
  /** The last report of worker 0. */
  readonly metrics: Metrics | undefined;
  /** All reports of worker 0, in order. Reports that a restart repeated are in it once. */
  readonly history: readonly Metrics[];
  /** The last checkpoint that was kept. */
  readonly checkpoint: Checkpoint | undefined;
  /** All checkpoints that are kept, oldest first, with the metrics reported with them. */
  readonly checkpoints: readonly KeptCheckpoint[];
  /** The folder of the run. It exists once a checkpoint was kept in it. */
  readonly path: string;
  /** Why the run failed: fit() then throws a TrainingFailedError that has this result. */
  readonly error?: Error;
}
export interface KeptCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly metrics: Metrics;
}
/** A result as JSON, with checkpoints as paths. */
export interface PlainResult {
  readonly history: readonly JsonMetrics[];
  readonly checkpoints: readonly { readonly path: string; readonly metrics: JsonMetrics }[];
  readonly path: string;
  /** Why it failed. */
  readonly error?: string;
}
export const plainOf = ({ history, checkpoints, path }: Result): PlainResult => ({
  history,
  checkpoints: checkpoints.map(({ checkpoint, metrics }) => ({ path: checkpoint.path, metrics })),
  path,
});
export function resultOf(plain: PlainResult, error?: Error): Result {
  const history = plain.history.map(decodeMetrics);
  const checkpoints = plain.checkpoints.map((kept) => ({
    checkpoint: Checkpoint.at(kept.path), // of an earlier run, which may be on another machine
    metrics: decodeMetrics(kept.metrics),
  }));
  const last = { metrics: history.at(-1), checkpoint: checkpoints.at(-1)?.checkpoint };
  return { ...last, history, checkpoints, path: plain.path, ...(error && { error }) };
}

/** The TrainingFailedError of a run: how many attempts it had, and its result up to the failure. */
export function failedError(name: string, begun: number, plain: PlainResult, e: unknown): TrainingFailedError {
  const error = e instanceof Error ? e : new Error(String(e));
  const result = resultOf(plain, error);
  const times = begun > 1 ? ` at attempt ${begun}` : '';
  const kept = result.checkpoint ? `; its last checkpoint is ${result.checkpoint.path}` : '';
  return new TrainingFailedError(`the run ${name} failed${times}: ${messageOf(e)}${kept}`, result, { cause: error });
}

export interface FitRequest {
  readonly name: string;
  /** The folder of the run. */
  readonly storage: string;
  /** Whether the user gave a name or a storagePath. Other runs leave no folder unless they keep a checkpoint. */
  readonly isNamed: boolean;
  /** The index of this fit() call in the script, and the results of the earlier ones. */
  readonly run: number;
  readonly earlier: readonly PlainResult[];
  readonly scale: Scale;
  readonly scaling: ScalingConfig;
  readonly failure: FailureConfig;
  readonly checkpoint: CheckpointConfig;
  /** The datasets that Ray Data reads, by name, as the driver takes them. */
  readonly rayDatasets: Readonly<Record<string, object>>;
  /** The folder for TensorBoard curves. */
  readonly tensorboard: string | undefined;
  readonly profile: WorkerSpec['profile'];
  /** Runs the loop in this process. */
  readonly runHere: (spec: WorkerSpec, link: Link) => Promise<void>;
}

export interface Engine {
  /** Throws a TrainingFailedError if the run fails more often than maxFailures allows. */
  run(request: FitRequest): Promise<Result>;
}

/** The arguments of `node` that run this program again, as each worker does. */
export interface Command {
  readonly execArgv: readonly string[];
  readonly script: string;
  readonly args: readonly string[];
}
/** The command of this program. It may have no script (node -e, the REPL): `otherwise` is an alternative for the error. */
export function ownCommand(workers: number, otherwise = ''): Command {
  const [, script, ...args] = process.argv;
  const isCode = process.execArgv.some((a) => /^(-e|--eval|-p|--print|-i|--interactive|-pe)\b/.test(a));
  const execArgv = process.execArgv.filter((a) => !/^--inspect/.test(a));
  if (script && script !== '-' && !isCode) return { execArgv, script, args };
  throw new ArgumentError(
    `fit: each of ${workers} workers runs this program's script again, but it has no script: put the code in a file${otherwise}`,
  );
}
