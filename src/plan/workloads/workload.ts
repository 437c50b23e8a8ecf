// A workload: what is done with a model (trained, adapted, run), as programs that need no weights.
import type { Qwen3Config } from '../../models/index.js';
import { CHECKPOINT } from '../../models/qwen3.js';
import type { Module } from '../../nn/module.js';
import type { Optimizer } from '../../optim/index.js';
import { pendingCells } from '../../runtime/cell.js';
import type { ParallelSizes } from '../../spmd/index.js';
import type { Lowered } from '../../step/step.js';
import type { Tensor } from '../../tensor/tensor.js';

/** What layers compute again for the gradient instead of keeping it. */
export type Remat = keyof typeof CHECKPOINT;
export const REMAT = Object.keys(CHECKPOINT) as readonly Remat[];

export interface WorkloadSettings {
  /** Sequences at a time, of each group of devices that has its own. */
  readonly batch: number;
  /** Tokens of each. */
  readonly seq: number;
  /** Batches of one step. */
  readonly accumulation: number;
  /** Of adapters. */
  readonly rank: number;
  readonly remat: Remat;
  readonly dtype: 'bf16' | 'f32';
  /** How many tokens are generated behind the prompt. */
  readonly newTokens: number;
  /** None: one device. */
  readonly mesh: ParallelSizes;
}
export const SETTINGS: WorkloadSettings = {
  batch: 1,
  seq: 1024,
  accumulation: 1,
  rank: 8,
  remat: 'full', // as train-recovery-lora does on a TPU
  dtype: 'bf16',
  newTokens: 256,
  mesh: {},
};

export interface WorkloadProgram {
  readonly lowered: Lowered;
  /** Tokens that one run of it works through, on all devices. */
  readonly tokens: number;
}

export interface Workload {
  readonly about: string;
  /** Whether gradients are computed: then layers can be computed again, and steps can accumulate. */
  readonly trains: boolean;
  /** The one that is run again and again comes last. */
  programs(config: Qwen3Config, settings: WorkloadSettings): WorkloadProgram[];
}

/** The names of all tensors that a step reaches. */
export function* namesOf(model: Module, optimizer?: Pick<Optimizer, 'state'>): Generator<[string, Tensor]> {
  yield* model.namedBuffers();
  for (const [name, p] of model.namedParameters()) {
    yield [name, p];
    for (const [slot, t] of Object.entries(optimizer?.state.get(p) ?? {})) yield [`${name} (${slot})`, t];
  }
}

/** Runs `run`, which describes a model, and drops what it left pending: its weights would be drawn with the next computation. */
export function onlyDescribed<T>(run: () => T): T {
  const before = new Set(pendingCells());
  try {
    return run();
  } finally {
    for (const cell of pendingCells()) if (!before.has(cell)) cell.settle(cell.peek());
  }
}
