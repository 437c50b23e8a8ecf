// `tsxla/workloads`: programs of whole models (training, recovery, inference), and their plans for TPUs.
import '../../tensor/index.js'; // side effect: installs the Tensor methods

export { GUIDE, type GuideOptions, type GuideRow, guideHead, guideLine, guideReport, planGuide } from './guide.js';
export { findModel, type PlannedModel } from './model.js';
export { pageOf } from './page.js';
export {
  planWorkload,
  type WorkloadPlan,
  type WorkloadPlanOptions,
  type WorkloadPlanProgress,
  type WorkloadRow,
} from './plan.js';
export { type Base, type RecoverySettings, recoveryProgram } from './recovery.js';
export type { Remedy } from './remedies.js';
export { recommendation, reportOf } from './report.js';
export { type Look, largestBatch } from './search.js';
export { WORKLOADS, type WorkloadName } from './table.js';
export { REMAT, type Remat, SETTINGS, type Workload, type WorkloadProgram, type WorkloadSettings } from './workload.js';
