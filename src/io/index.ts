// Files: arrays in safetensors.
export { type HostArray, readSafetensors, writeSafetensors } from './safetensors.js';
