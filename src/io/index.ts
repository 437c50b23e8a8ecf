// tx.io: safetensors, torch, numpy and GGUF files, checkpoints, and files of the Hugging Face hub.
export type { ArraySource, HostArray, NamedArrays } from './array.js';
export {
  CheckpointManager,
  type CheckpointOptions,
  type LoadOptions,
  type Restored,
  type TickOptions,
} from './checkpoint.js';
export type { CheckpointInfo } from './checkpoint-files.js';
export type { GgmlType } from './ggml.js';
export {
  type GgufEntry,
  GgufFile,
  type GgufItem,
  type GgufMetadata,
  type GgufOptions,
  type GgufValue,
  openGguf,
  readGguf,
  writeGguf,
} from './gguf.js';
export { resolveModel } from './hub.js';
export { type HubFileOptions, resolveFile, resolveFiles } from './hub-files.js';
export { type HubOptions, hubCache } from './hub-repo.js';
export { readNpy, readNpz, writeNpy, writeNpz } from './numpy.js';
export {
  openSafetensors,
  readAll,
  readSafetensors,
  SafetensorsFile,
  type TensorEntry,
  type TensorFile,
  type WriteOptions,
  writeSafetensors,
} from './safetensors.js';
export { openSharded, type ShardOptions, writeSharded } from './sharded.js';
export type { Items, Stateful } from './state.js';
export { type ArrayPlace, locateTorch, openTorch, readTorch, type TorchFile } from './torch.js';
export type {
  ComplexNumber,
  ComplexTensor,
  MetaTensor,
  NestedTensor,
  QuantizedTensor,
  RawTensor,
  SparseTensor,
  TorchValue,
} from './torch-values.js';
export { type TorchTree, writeTorch } from './torch-write.js';
