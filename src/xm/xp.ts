// PyTorch/XLA's torch_xla.debug.profiler (usually imported as xp), for ported code. docs/profiling.md is the guide.
import { ArgumentError } from '../base/errors.js';

export {
  StepTrace,
  type StepTraceOptions,
  startTrace,
  stopTrace,
  Trace,
  type TraceFiles,
  type TraceOptions,
  trace,
} from '../profiler/index.js';

/** xp.start_server: not supported and throws. The program itself starts a trace. */
export function startServer(port: number): never {
  throw new ArgumentError(
    `startServer: there is no profiling server to listen on port ${port}: call startTrace(dir) and stopTrace() in the program, or train with --profile DIR`,
  );
}
