// The table of workloads that can be planned.
import type { Lowered } from '../../step/step.js';
import { fullProgram } from './full.js';
import { inferencePrograms } from './inference.js';
import { sharesOf } from './parallel.js';
import { recoveryProgram } from './recovery.js';
import { onlyDescribed, type Workload, type WorkloadProgram, type WorkloadSettings } from './workload.js';

/** Number of sequences in a batch on all devices. */
const sequences = (s: WorkloadSettings): number => s.batch * sharesOf(s.mesh);
/** The program of one optimizer step. */
const step = (lower: () => Lowered, s: WorkloadSettings): WorkloadProgram[] => [
  { lowered: onlyDescribed(lower), tokens: s.accumulation * sequences(s) * s.seq },
];

export const WORKLOADS = {
  'recovery-lora': {
    about: 'adapters on a quantized model learn from a teacher',
    trains: true,
    programs: (config, s) => step(() => recoveryProgram(config, s), s),
  },
  full: {
    about: 'every weight learns',
    trains: true,
    programs: (config, s) => step(() => fullProgram(config, s), s),
  },
  inference: {
    about: 'prompts are read, then tokens generated',
    trains: false,
    programs(config, s) {
      const { prefill, decode } = onlyDescribed(() => inferencePrograms(config, s));
      return [
        { lowered: prefill, tokens: sequences(s) * s.seq },
        { lowered: decode, tokens: sequences(s) },
      ];
    },
  },
} as const satisfies Readonly<Record<string, Workload>>;
export type WorkloadName = keyof typeof WORKLOADS;
