// `tsxla/ray`: submits jobs to a Ray cluster from Node, uploads projects, and runs workers through tsxla's driver.
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
