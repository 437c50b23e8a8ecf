// `tsxla/recovery`: trains LoRA adapters that restore the quality of a quantized model; perplexity; merging adapters.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export { type MergeMode, type MergeReport, mergeStudent } from './merge.js';
export type { EvalMetrics, Metrics } from './metrics.js';
export type { RecoveryOptions } from './options.js';
export {
  evaluatePerplexity,
  type Perplexity,
  type PerplexityOptions,
  type PerplexityRow,
  type PerplexityTextOptions,
  perplexityRows,
} from './perplexity.js';
export {
  type FoundStudent,
  findStudent,
  loadStudent,
  type SaveStudentOptions,
  type Student,
  type StudentForm,
  type StudentOptions,
  saveStudent,
} from './student.js';
export type { RecoveryEvent, RecoveryResult } from './train.js';
export { trainRecoveryLora } from './trainer.js';
