// tsxla/jobs: the former names of tsxla/workloads.
import { planWorkload, type WorkloadName, type WorkloadPlan, type WorkloadPlanOptions } from './index.js';

export * from './index.js';
export {
  /** @deprecated Use WORKLOADS. */
  WORKLOADS as JOBS,
  /** @deprecated Use Workload. */
  type Workload as Job,
  /** @deprecated Use WorkloadName. */
  type WorkloadName as JobName,
  /** @deprecated Use WorkloadPlanProgress. */
  type WorkloadPlanProgress as JobPlanProgress,
  /** @deprecated Use WorkloadProgram. */
  type WorkloadProgram as JobProgram,
  /** @deprecated Use WorkloadRow. */
  type WorkloadRow as JobRow,
  /** @deprecated Use WorkloadSettings. */
  type WorkloadSettings as JobSettings,
} from './index.js';

/** @deprecated Use WorkloadPlan. */
export interface JobPlan extends WorkloadPlan {
  readonly job: WorkloadName;
}
/** @deprecated Use WorkloadPlanOptions. */
export interface JobPlanOptions extends Omit<WorkloadPlanOptions, 'workload' | 'parallel'> {
  readonly job: WorkloadName;
  readonly jobs?: number | undefined;
}
/** @deprecated Use planWorkload. */
export async function planJob({ job, jobs, ...options }: JobPlanOptions): Promise<JobPlan> {
  return { ...(await planWorkload({ ...options, workload: job, parallel: jobs })), job };
}
