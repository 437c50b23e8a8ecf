// Programs that libtpu compiled, kept so that tests need no libtpu: written by scripts/golden/plan.ts.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type MemoryStats, type Module, readModule } from 'tsxla/pjrt';
import { goldenPath } from '../support.js';

export interface GoldenProgram {
  readonly module: Module;
  readonly memory: MemoryStats;
  readonly cost: Readonly<Record<string, number>>;
  /** The sizes it was made of. */
  readonly facts: Record<'N' | 'B' | 'D' | 'T' | 'rows' | 'table' | 'width', number>;
}

export function goldenProgram(name: string): GoldenProgram {
  const { format, ...rest } = JSON.parse(readFileSync(goldenPath(`plan/${name}.json`), 'utf8'));
  return { module: readModule(gunzipSync(readFileSync(goldenPath(`plan/${name}.hlo.gz`))), format), ...rest };
}
