// A workload: training, adapting or running a model, as programs that need no weights.
import { CHECKPOINT, type DecoderConfig } from '../../models/index.js';
import type { Module } from '../../nn/module.js';
import type { Optimizer } from '../../optim/index.js';
import { pendingCells } from '../../runtime/cell.js';
import type { ParallelSizes } from '../../spmd/index.js';
import type { Lowered } from '../../step/step.js';
import type { Tensor } from '../../tensor/tensor.js';

/** What layers recompute in the backward pass. */
export type Remat = keyof typeof CHECKPOINT;
export const REMAT = Object.keys(CHECKPOINT) as readonly Remat[];

export interface WorkloadSettings {
  /** Number of sequences in a batch of each data-parallel group of devices. Default: 1. */
  readonly batch: number;
  /** Number of tokens in a sequence. Default: 1024. */
  readonly seq: number;
  /** Batches per optimizer step. Default: 1. */
  readonly accumulation: number;
  /** The rank of adapters. Default: 8. */
  readonly rank: number;
  readonly remat: Remat;
  readonly dtype: 'bf16' | 'f32';
  /** Number of tokens to generate after the prompt. Default: 256. */
  readonly newTokens: number;
  /** The mesh; empty: one device. */
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
  /** Number of tokens that one run processes, on all devices. */
  readonly tokens: number;
}

export interface Workload {
  readonly about: string;
  /** Whether gradients are computed, so that remat and accumulation apply. */
  readonly trains: boolean;
  /** The programs; the one that runs repeatedly is last. */
  programs(config: DecoderConfig, settings: WorkloadSettings): WorkloadProgram[];
}

/** The names of all tensors that a step uses. */
export function* namesOf(model: Module, optimizer?: Pick<Optimizer, 'state'>): Generator<[string, Tensor]> {
  yield* model.namedBuffers();
  for (const [name, p] of model.namedParameters()) {
    yield [name, p];
    for (const [slot, t] of Object.entries(optimizer?.state.get(p) ?? {})) yield [`${name} (${slot})`, t];
  }
}

/** Runs `run`, which traces a model, and drops its pending tensors: otherwise weights would be drawn with the next computation. */
export function onlyDescribed<T>(run: () => T): T {
  const before = new Set(pendingCells());
  try {
    return run();
  } finally {
    for (const cell of pendingCells()) if (!before.has(cell)) cell.settle(cell.peek());
  }
}
