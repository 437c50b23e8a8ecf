// What a loop costs, counted.
import { setImmediate } from 'node:timers/promises';
import type * as tx from 'tsxla';
import { addSink } from '../../dist/runtime/events.js';
import { counts } from '../../dist/runtime/program.js';
import { defaultClient } from '../../dist/runtime/value.js';
import { golden } from '../support.js';
import { type How, LOOPS } from './loops.js';

export const GOLDEN: Record<string, Record<string, number[]>> = JSON.parse(golden('plain-loops.json'));

export interface Cost {
  readonly compiled: number;
  readonly executed: number;
  /** Operations of the largest program. */
  readonly largest: number;
  readonly buffers: number;
  readonly values: readonly number[];
}

export async function collected(): Promise<number> {
  const client = await defaultClient();
  for (let i = 0; i < 8; i++) {
    globalThis.gc!();
    await setImmediate();
  }
  return client.live.buffers;
}

/** Runs one of the loops, and gives what it cost and what it learned. */
export async function measure(name: string, steps: number, how: How): Promise<Cost> {
  const start = { ...counts };
  let largest = 0;
  using _ = addSink({ compiling: (program) => void (largest = Math.max(largest, program.key.nodeCount)) });
  const tensors: tx.Tensor[] = await LOOPS[name]!(steps, how);
  const values: number[] = [];
  for (const t of tensors) values.push(...((await t.data()) as Float32Array));
  return {
    compiled: counts.compiled - start.compiled,
    executed: counts.executed - start.executed,
    largest,
    buffers: await collected(),
    values,
  };
}

export const difference = (a: readonly number[], b: readonly number[]): number =>
  Math.max(...a.map((x, i) => Math.abs(x - b[i]!)));
