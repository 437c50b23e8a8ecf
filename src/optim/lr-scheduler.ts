// torch.optim.lr_scheduler: the schedules under its name, tx.optim.lrScheduler.
export { Schedule as LRScheduler } from './schedule.js';
export * from './schedules.js';
export { ChainedScheduler, ReduceLROnPlateau, SequentialLR } from './schedules-composed.js';
