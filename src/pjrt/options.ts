// Compile options, and their encoding as XLA's CompileOptionsProto.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { encode, message } from './proto.js';

export interface CompileOptions {
  /** Copies of the program that run on different data; the program itself has their collectives. Default: 1. */
  readonly numReplicas?: number;
  /** Devices one copy is split over by its shardings. Default: 1. */
  readonly numPartitions?: number;
  /** The device of each replica and partition: deviceIds[replica * numPartitions + partition]. Default: 0, 1, 2, ... */
  readonly deviceIds?: readonly number[];
  /** Let XLA partition the program by its shardings. Default: true if numPartitions > 1. */
  readonly useSpmd?: boolean;
  /** Propagate shardings with Shardy (sdy.sharding) instead of GSPMD (mhlo.sharding). Default: the value of useSpmd. */
  readonly useShardy?: boolean;
  /** Whether XLA may choose the sharding of each input or output that has none: one for all, or one for each. */
  readonly allowSpmdShardingPropagationToParameters?: readonly boolean[];
  readonly allowSpmdShardingPropagationToOutput?: readonly boolean[];
  /** XLA flags for this program only: { xla_cpu_enable_fast_math: true }. A leading -- is allowed. */
  readonly xlaFlags?: Readonly<Record<string, string | number | boolean>>;
  readonly profileVersion?: number;
}

const DEVICE_ASSIGNMENT = message({
  replicas: [1, 'int'],
  partitions: [2, 'int'],
  byPartition: [3, [message({ byReplica: [1, ['int']] })]],
});
const BUILD_OPTIONS = message({
  deviceOrdinal: [1, 'int'],
  numReplicas: [4, 'int'],
  numPartitions: [5, 'int'],
  useSpmd: [6, 'bool'],
  deviceAssignment: [9, DEVICE_ASSIGNMENT],
  propagateToOutput: [12, ['bool']],
  propagateToParameters: [18, ['bool']],
  useShardy: [19, 'bool'],
});
const COMPILE_OPTIONS = message({
  build: [3, BUILD_OPTIONS],
  profileVersion: [5, 'int'],
  overrides: [7, ['map', 'string', message({ string: [1, 'string'], bool: [2, 'bool'] })]],
});

/** The devices a program may be split over. */
interface Available {
  readonly name: string;
  readonly devices: readonly unknown[];
}

/** A sanity limit: XLA's count is an i32, and the largest machines have some ten thousand devices. */
const MOST_DEVICES = 2 ** 20;

/** The options as bytes for PJRT_Client_Compile. Equal options give equal bytes, so they can be part of a cache key. */
export function encodeCompileOptions(options: CompileOptions = {}, available?: Available): Uint8Array {
  const { numReplicas = 1, numPartitions = 1, deviceIds, profileVersion } = options;
  const { useSpmd = numPartitions > 1, useShardy = useSpmd } = options;
  for (const [name, n] of Object.entries({ numReplicas, numPartitions })) checkWhole(`compile: ${name}`, n, 1);
  const count = numReplicas * numPartitions;
  const most = available?.devices.length ?? MOST_DEVICES;
  if (count > most) {
    const parts = numReplicas > 1 ? ` (${numReplicas} replicas x ${numPartitions} partitions)` : '';
    throw new ArgumentError(
      `compile: the program is split over ${count} devices${parts}, but ${available?.name ?? 'XLA'} has ${most}. Change \
mhlo.num_partitions and mhlo.num_replicas in the module, or compile it where there are enough devices`,
    );
  }
  const devices = deviceIds ?? Array.from({ length: count }, (_, i) => i);
  if (devices.length !== count || new Set(devices).size !== count || !devices.every(Number.isSafeInteger)) {
    const wanted = `${numReplicas} x ${numPartitions} different device ids (replicas x partitions)`;
    throw new ArgumentError(`compile: deviceIds is [${devices.join(', ')}]: give ${wanted}`);
  }
  // A program for one unspecified device has no assignment: it is compiled for the client's first device.
  const deviceAssignment =
    count > 1 || deviceIds
      ? {
          replicas: numReplicas,
          partitions: numPartitions,
          byPartition: Array.from({ length: numPartitions }, (_, p) => ({
            byReplica: Array.from({ length: numReplicas }, (_, r) => devices[r * numPartitions + p]!),
          })),
        }
      : undefined;
  return encode(COMPILE_OPTIONS, {
    build: {
      deviceOrdinal: deviceIds ? -1 : undefined, // use the devices of the assignment, not the first one
      numReplicas,
      numPartitions,
      useSpmd: useSpmd || undefined,
      deviceAssignment,
      propagateToOutput: options.allowSpmdShardingPropagationToOutput,
      propagateToParameters: options.allowSpmdShardingPropagationToParameters,
      useShardy: useShardy || undefined,
    },
    profileVersion,
    overrides: overrides(options.xlaFlags ?? {}),
  });
}

/** Numbers are sent as text: XLA parses text by the flag's type, and JavaScript cannot distinguish 1 from 1.0. */
function overrides(flags: Readonly<Record<string, string | number | boolean>>) {
  const sorted = Object.entries(flags).map(([name, value]) => [name.replace(/^--/, ''), value] as const);
  sorted.sort(([a], [b]) => (a < b ? -1 : 1));
  return new Map(sorted.map(([name, v]) => [name, typeof v === 'boolean' ? { bool: v } : { string: String(v) }]));
}
