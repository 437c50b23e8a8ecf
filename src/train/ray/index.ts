// `tsxla/ray`: a Ray cluster from Node: its jobs, the project they need, and runs of workers through our driver.
export { addressFromEnv, rayAddress } from './address.js';
export { type ClusterOptions, isFinal, type Job, type JobRequest, type JobStatus, RayCluster } from './jobs.js';
export { type LeftOut, type Pack, type PackOptions, packProject, projectOf } from './pack.js';
export {
  eventsOf,
  type FailedWhy,
  type RunEvent,
  type RunRequest,
  type SubmitOptions,
  showEvent,
  stopJob,
  submitRun,
  watchRun,
} from './run.js';
