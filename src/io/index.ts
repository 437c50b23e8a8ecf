// Files: arrays in safetensors, checkpoints of training runs.
export {
  type CheckpointInfo,
  CheckpointManager,
  type CheckpointOptions,
  type Items,
  type Restored,
  type Stateful,
} from './checkpoint.js';
export { type HostArray, readSafetensors, writeSafetensors } from './safetensors.js';
