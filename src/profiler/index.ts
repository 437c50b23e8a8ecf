// tx.profiler: profiles of host and device, for TensorBoard, xprof, Perfetto and `tsxla profile`. docs/profiling.md is the guide.
export { StepProfiler, type StepProfilerOptions } from './steps.js';
export {
  type Cause,
  type KernelShare,
  type ProfileSummary,
  type Share,
  showProfile,
  summarizeProfile,
} from './summary.js';
export {
  annotatePrograms,
  StepTrace,
  type StepTraceOptions,
  startTrace,
  stopTrace,
  Trace,
  type TraceFiles,
  type TraceOptions,
  trace,
} from './trace.js';
