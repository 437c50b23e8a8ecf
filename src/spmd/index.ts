// tx.spmd: device meshes, shardings, and parallel training. The same code runs on one chip, a host, or a pod.
export { BATCH_AXES, Mesh, type MeshOptions, type PartitionSpec, Sharding } from '../ir/mesh.js';
export {
  deviceCount,
  meshFromConfig,
  meshFromEnv,
  meshOf,
  type ParallelSizes,
  parseSizes,
  type SpmdConfig,
  useSpmd,
} from './config.js';
export { gathered } from './gathered.js';
export { hybridMesh } from './hybrid.js';
export {
  type AllGatherOptions,
  type AllReduceOptions,
  type AllToAllOptions,
  type Axes,
  allGather,
  allReduce,
  allToAll,
  axisIndex,
  axisSize,
  permute,
  type ReduceScatterOptions,
  reduceScatter,
  type ShardMapOptions,
  shardMap,
} from './manual.js';
export {
  type AxisOptions,
  type BatchOptions,
  batchFor,
  dataParallel,
  type FsdpOptions,
  fsdp,
  type ParallelTable,
  parallelize,
  shardBatch,
  tensorParallel,
} from './parallel.js';
export { batchShare, fromLocal, processCount, processIndex, type Share } from './processes.js';
export { markSharding, microBatches, replicate, shard, shardingOf } from './sharding.js';
export { visualizeSharding } from './visualize.js';
