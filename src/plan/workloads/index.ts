// Whole models' jobs as programs, and plans of them for TPUs.
import '../../tensor/index.js'; // its methods: whoever imports this alone needs them

export { GUIDE, type GuideRow, guideReport, planGuide } from './guide.js';
export { type Job, type JobProgram, type JobSettings, REMAT, type Remat, SETTINGS } from './job.js';
export { JOBS, type JobName } from './jobs.js';
export { findModel, type PlannedModel } from './model.js';
export { pageOf } from './page.js';
export { type JobPlan, type JobPlanOptions, type JobPlanProgress, type JobRow, planJob } from './plan.js';
export { type Base, type RecoverySettings, recoveryProgram } from './recovery.js';
export type { Remedy } from './remedies.js';
export { recommendation, reportOf } from './report.js';
export { type Look, largestBatch } from './search.js';
