// `tsxla/ray`: a Ray cluster from Node: its jobs, the project they need, and runs of workers through our driver.
export { addressFromEnv, rayAddress } from './address.js';
export * from './jobs.js';
export * from './pack.js';
export * from './run.js';
