// The jobs that can be planned, as a table.
import { fullProgram } from './full.js';
import { inferencePrograms } from './inference.js';
import type { Job, JobSettings } from './job.js';
import { sharesOf } from './parallel.js';
import { recoveryProgram } from './recovery.js';

/** At a time, on all devices. */
const sequences = (s: JobSettings): number => s.batch * sharesOf(s.mesh);

export const JOBS = {
  'recovery-lora': {
    about: 'adapters on a quantized model learn from a teacher',
    trains: true,
    programs: (config, s) => [{ lowered: recoveryProgram(config, s), tokens: s.accumulation * sequences(s) * s.seq }],
  },
  full: {
    about: 'every weight learns',
    trains: true,
    programs: (config, s) => [{ lowered: fullProgram(config, s), tokens: s.accumulation * sequences(s) * s.seq }],
  },
  inference: {
    about: 'prompts are read, then tokens generated',
    trains: false,
    programs(config, s) {
      const { prefill, decode } = inferencePrograms(config, s);
      return [
        { lowered: prefill, tokens: sequences(s) * s.seq },
        { lowered: decode, tokens: sequences(s) },
      ];
    },
  },
} as const satisfies Readonly<Record<string, Job>>;
export type JobName = keyof typeof JOBS;
