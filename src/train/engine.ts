// Engines: what runs the workers of a run, on this machine (local.ts) or on a Ray cluster (ray/engine.ts).
import { ArgumentError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { Checkpoint } from './checkpoint.js';
import type { CheckpointConfig, FailureConfig, ScalingConfig } from './config.js';
import { TrainingFailedError } from './errors.js';
import type { Link } from './link.js';
import { decodeMetrics, type JsonMetrics, type Metrics, type WorkerSpec } from './protocol.js';
import type { Scale } from './scaling.js';

/** What a run came to. */
export interface Result {
  /** The last that worker 0 reported. */
  readonly metrics: Metrics | undefined;
  /** All that it reported, in order; what a restart did again is there once. */
  readonly history: readonly Metrics[];
  /** The last one that was kept. */
  readonly checkpoint: Checkpoint | undefined;
  /** All that are kept, oldest first, with what was reported with them. */
  readonly checkpoints: readonly KeptCheckpoint[];
  /** The folder of the run: it is there once something was kept in it. */
  readonly path: string;
  /** Why the run ended early: then fit() throws a TrainingFailedError that has this result. */
  readonly error?: Error;
}
export interface KeptCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly metrics: Metrics;
}
/** A result as JSON has it, with paths of checkpoints. */
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
    checkpoint: Checkpoint.at(kept.path), // a worker may be elsewhere than what earlier runs have kept
    metrics: decodeMetrics(kept.metrics),
  }));
  const last = { metrics: history.at(-1), checkpoint: checkpoints.at(-1)?.checkpoint };
  return { ...last, history, checkpoints, path: plain.path, ...(error && { error }) };
}

/** The error of a run that was begun so many times, and what there is of it. */
export function failedError(name: string, begun: number, plain: PlainResult, e: unknown): TrainingFailedError {
  const error = e instanceof Error ? e : new Error(String(e));
  const result = resultOf(plain, error);
  const times = begun > 1 ? `, the last of ${begun} times that it was begun` : '';
  const kept = result.checkpoint ? `; its last checkpoint is ${result.checkpoint.path}` : '';
  return new TrainingFailedError(`the run ${name} failed${times}: ${messageOf(e)}${kept}`, result, { cause: error });
}

export interface RunRequest {
  readonly name: string;
  /** The folder of the run. */
  readonly storage: string;
  /** Which fit() of the script this is, from 0, and what those before came to. */
  readonly run: number;
  readonly earlier: readonly PlainResult[];
  readonly scale: Scale;
  readonly scaling: ScalingConfig;
  readonly failure: FailureConfig;
  readonly checkpoint: CheckpointConfig;
  /** Runs the loop in this process. */
  readonly runHere: (spec: WorkerSpec, link: Link) => Promise<void>;
}

export interface Engine {
  /** Throws a TrainingFailedError where the run failed more often than it may. */
  run(request: RunRequest): Promise<Result>;
}

/** What runs this program again, as each worker does, behind `node`. */
export interface Command {
  readonly execArgv: readonly string[];
  readonly script: string;
  readonly args: readonly string[];
}
/** There may be no script (node -e, the REPL): `otherwise` says what one can do besides writing one. */
export function ownCommand(workers: number, otherwise = ''): Command {
  const [, script, ...args] = process.argv;
  const isCode = process.execArgv.some((a) => /^(-e|--eval|-p|--print|-i|--interactive|-pe)\b/.test(a));
  const execArgv = process.execArgv.filter((a) => !/^--inspect/.test(a));
  if (script && script !== '-' && !isCode) return { execArgv, script, args };
  throw new ArgumentError(
    `fit: ${workers} workers run this program's script again, and it has none: put it in a file${otherwise}`,
  );
}
