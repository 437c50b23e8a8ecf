// What the conformance tests share: what PT_XLA_DEBUG wrote, and what was counted, while something ran.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import * as tx from 'tsxla';
import { vi } from 'vitest';

/** One block of PT_XLA_DEBUG's about a graph. */
export interface Block {
  readonly cause: string;
  readonly name: string | undefined;
  readonly hash: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly frames: readonly string[];
}
export interface Told {
  readonly compilations: readonly Block[];
  readonly executions: readonly Block[];
  /** The five sizes after each compile. */
  readonly sizes: readonly (readonly string[])[];
  readonly text: string;
}

/** Runs fn with these variables and reads what PT_XLA_DEBUG_FILE says after it. */
export async function debugged(
  fn: () => Promise<unknown>,
  variables: Record<string, string> = { PT_XLA_DEBUG: '1' },
): Promise<Told> {
  const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-told-'));
  const file = path.join(folder, 'debug.txt');
  for (const [name, value] of Object.entries({ ...variables, PT_XLA_DEBUG_FILE: file })) vi.stubEnv(name, value);
  try {
    await fn();
    return read(readFileSync(file, { encoding: 'utf8', flag: 'a+' })); // made if nothing was written
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
}

function read(text: string): Told {
  const blocks = (kind: string): string[][] =>
    [...text.matchAll(new RegExp(`^(?:${kind} Analysis: .*\n)+`, 'gm'))].map(([block]) =>
      block.split('\n').map((line) => line.slice(kind.length + ' Analysis: '.length)),
    );
  const graph = (lines: string[]): Block => {
    const of = (label: string) => lines.find((l) => l.startsWith(`  ${label}: `))?.slice(label.length + 4);
    const stack = lines.indexOf('Python Frame Triggered Execution: ') + 1;
    return {
      cause: lines[2]!.trim(),
      name: of('Graph Name'),
      hash: of('Graph Hash')!,
      inputs: Number(of('Number of Graph Inputs')),
      outputs: Number(of('Number of Graph Outputs')),
      frames: lines.slice(stack, lines.indexOf('-'.repeat(80))).map((l) => l.trim()),
    };
  };
  return {
    compilations: blocks('Compilation').map(graph),
    executions: blocks('Execution').map(graph),
    sizes: blocks('Post Compilation').map((lines) => lines.slice(1, 6)),
    text,
  };
}

/** What earlier tests left is gone: the garbage collector frees none of it later. */
export async function collectGarbage(): Promise<void> {
  for (let i = 0; i < 2; i++) {
    globalThis.gc!();
    await setImmediate();
  }
}
/** Everything before is done, and nothing is counted yet. */
export async function startCounting(): Promise<void> {
  await tx.sync({ wait: true });
  tx.metrics.clearAll();
}
/** How often a metric was recorded since then, once all is done. */
export async function times(name: string): Promise<number> {
  await tx.sync({ wait: true });
  return tx.metrics.metricData(name)?.total ?? 0;
}
/** Inputs given up by the programs that were compiled since then. */
export const aliases = (): number => tx.metrics.metricData('InputOutputAliasCount')?.accumulator ?? 0;
