// Remedies for programs that do not fit. Each is tried by compiling it.

import type { Ask, WorkloadRow } from './plan.js';
import type { Workload, WorkloadSettings } from './workload.js';

export interface Remedy {
  /** 'half the batch' */
  readonly what: string;
  /** The flag: '--batch 4' */
  readonly flag: string;
  readonly fits: boolean;
  /** Peak memory in bytes; undefined if the compile failed. */
  readonly peak?: number;
}

interface Change {
  readonly what: string;
  readonly flag: (s: WorkloadSettings, devices: number) => string;
  readonly applies: (workload: Workload, s: WorkloadSettings, devices: number) => boolean;
  readonly change: (s: WorkloadSettings, devices: number) => Partial<WorkloadSettings>;
}
const half = (s: WorkloadSettings) => Math.floor(s.batch / 2);
const CHANGES: readonly Change[] = [
  {
    what: 'half the batch',
    flag: (s) => `--batch ${half(s)}`,
    applies: (_, s) => s.batch > 1,
    change: (s) => ({ batch: half(s) }),
  },
  {
    what: 'remat',
    flag: () => '--remat',
    applies: (workload, s) => workload.trains && s.remat !== 'full',
    change: () => ({ remat: 'full' }),
  },
  {
    what: 'bf16',
    flag: () => '--dtype bf16',
    applies: (_, s) => s.dtype === 'f32',
    change: () => ({ dtype: 'bf16' }),
  },
  {
    what: 'fsdp over all devices',
    flag: (_, devices) => `--mesh fsdp=${devices}`,
    applies: (_, s, devices) => devices > 1 && s.mesh.fsdp !== devices,
    change: (_, devices) => ({ mesh: { fsdp: devices } }),
  },
];

export const tryRemedies = (workload: Workload, { topology, settings }: WorkloadRow, ask: Ask): Promise<Remedy[]> =>
  Promise.all(
    CHANGES.filter((c) => c.applies(workload, settings, topology.devices)).map(async ({ what, flag, change }) => {
      const { fits, peak, error } = await ask(topology, { ...settings, ...change(settings, topology.devices) });
      return { what, flag: flag(settings, topology.devices), fits, ...(!error && { peak }) };
    }),
  );
