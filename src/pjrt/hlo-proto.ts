// XLA's protobuf messages for HLO (from xla_data.proto, hlo.proto and xla.proto), with attributes named as XLA prints them.
import { ArgumentError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { decode, type Message, message } from './proto.js';

/** The forms PJRT gives an optimized program in: HloModuleProto, alone or with its configuration. */
export type HloFormat = 'hlo' | 'hlo_with_config';

export type Decoded<M> = M extends Message<infer T> ? T : never;
export type Ints = readonly number[];
// biome-ignore format: a table
export const LAYOUT = message({
  minorToMajor: [1, ['int']], tiles: [6, [message({ dims: [1, ['int']] })]], elementBits: [7, 'int'],
  memorySpace: [8, 'int'], tailAlignment: [16, 'int'],
});
export const ARRAY = { type: [2, 'int'], dims: [3, ['int']], layout: [5, LAYOUT], dynamic: [6, ['bool']] } as const;
export const ARRAY_SHAPE = message(ARRAY);
export interface Shape extends Decoded<typeof ARRAY_SHAPE> {
  readonly tuple: readonly Shape[];
}
export const SHAPE: Message<Shape> = message({ ...ARRAY, tuple: [4, [(): Message<Shape> => SHAPE]] });
export const PROGRAM_SHAPE = message({ parameters: [1, [SHAPE]], result: [2, SHAPE], names: [3, ['string']] });
export const ALIAS = message({ output: [1, ['int']], parameter: [2, 'int'], index: [3, ['int']], kind: [4, 'int'] });
export const DONOR = message({ parameter: [1, 'int'], index: [2, ['int']] });
export const INTERFACE = {
  name: [1, 'string'],
  shape: [4, PROGRAM_SHAPE],
  aliases: [8, message({ entries: [1, [ALIAS]] })],
  donors: [18, message({ entries: [1, [DONOR]] })],
} as const;
export const AXIS = message({ index: [1, 'int'], sub: [2, message({ before: [1, 'int'], size: [2, 'int'] })] });
export const MESH = message({
  axes: [1, [message({ name: [1, 'string'], size: [2, 'int'] })]],
  devices: [2, ['int']],
  iota: [3, message({ dims: [1, ['int']], permutation: [2, ['int']] })],
});
// biome-ignore format: a table
export const NAMED_SHARDING = message({
  mesh: [2, MESH], dims: [3, [message({ axes: [1, [AXIS]], closed: [2, 'bool'] })]], replicated: [4, [AXIS]],
  unreduced: [5, [AXIS]], manual: [7, [AXIS]],
});
// biome-ignore format: a table
export const TILES = {
  type: [1, 'int'], dims: [3, ['int']], devices: [4, ['int']], replicateLast: [6, 'bool'], lastTileDims: [8, ['int']],
  iota: [9, ['int']], permutation: [10, ['int']], named: [14, NAMED_SHARDING],
} as const;
export const TILE_SHARDING = message(TILES);
export interface Sharding extends Decoded<typeof TILE_SHARDING> {
  readonly tuple: readonly Sharding[];
}
export const SHARDING: Message<Sharding> = message({ ...TILES, tuple: [5, [(): Message<Sharding> => SHARDING]] });
// Elements are decoded only for printing, since most literals are too large to print.
// biome-ignore format: a table
export const LITERAL = message({
  shape: [1, SHAPE], pred: [2, 'bytes'], u8: [3, 'bytes'], s32: [4, 'bytes'], s64: [5, 'bytes'], u32: [6, 'bytes'],
  u64: [7, 'bytes'], f32: [8, 'bytes'], f64: [9, 'bytes'], f16: [11, 'bytes'], c64: [12, 'bytes'], bf16: [13, 'bytes'],
  s8: [15, 'bytes'], u16: [16, 'bytes'], s16: [17, 'bytes'], c128: [18, 'bytes'], f8e5m2: [19, 'bytes'],
  f8e4m3fn: [20, 'bytes'],
});
// biome-ignore format: a table
export const WINDOW = message({ dims: [1, [message({
  size: [1, 'int'], stride: [2, 'int'], low: [3, 'int'], high: [4, 'int'], rhsDilate: [5, 'int'], lhsDilate: [6, 'int'],
  reversal: [7, 'bool'],
})]] });
// biome-ignore format: a table
export const CONVOLUTION = message({
  kernelInput: [3, 'int'], kernelOutput: [4, 'int'], kernelSpatial: [6, ['int']], inputBatch: [7, 'int'],
  inputFeature: [8, 'int'], outputBatch: [9, 'int'], outputFeature: [10, 'int'], inputSpatial: [11, ['int']],
  outputSpatial: [12, ['int']],
});
// biome-ignore format: a table
export const DOT = message({
  lhs_contracting_dims: [1, ['int']], rhs_contracting_dims: [2, ['int']], lhs_batch_dims: [3, ['int']],
  rhs_batch_dims: [4, ['int']],
});
// biome-ignore format: a table
export const GATHER = message({
  offset_dims: [1, ['int']], collapsed_slice_dims: [2, ['int']], start_index_map: [3, ['int']],
  index_vector_dim: [4, 'int'], operand_batching_dims: [5, ['int']], start_indices_batching_dims: [6, ['int']],
});
// biome-ignore format: a table
export const SCATTER = message({
  update_window_dims: [1, ['int']], inserted_window_dims: [2, ['int']], scatter_dims_to_operand_dims: [3, ['int']],
  index_vector_dim: [4, 'int'], input_batching_dims: [5, ['int']], scatter_indices_batching_dims: [6, ['int']],
});
// biome-ignore format: a table
export const TRIANGULAR = message({
  left_side: [1, 'bool'], lower: [2, 'bool'], unit_diagonal: [3, 'bool'], transpose_a: [4, 'int'],
});
// biome-ignore format: a table
export const METADATA = message({
  op_type: [1, 'string'], op_name: [2, 'string'], source_file: [3, 'string'], source_line: [4, 'int'],
  source_end_line: [17, 'int'], source_column: [18, 'int'], source_end_column: [19, 'int'],
  deduplicated_name: [12, 'string'], scheduling_name: [16, 'string'], frame: [15, 'int'],
});
export const FRONTEND = message({ map: [1, ['map', 'string', 'string']] });
export const GROUPS = [message({ ids: [1, ['int']] })] as const;
// biome-ignore format: a table
export const INSTRUCTION = message({
  name: [1, 'string'], opcode: [2, 'string'], shape: [3, SHAPE], metadata: [7, METADATA], literal: [8, LITERAL],
  parameter: [9, 'int'], kind: [11, 'string'], index: [13, 'int'], dimensions: [14, ['int']], window: [15, WINDOW],
  convolution: [16, CONVOLUTION],
  slices: [17, [message({ start: [1, 'int'], limit: [2, 'int'], stride: [3, 'int'] })]],
  exponent_bits: [18, 'int'], mantissa_bits: [19, 'int'], dynamic_slice_sizes: [20, ['int']],
  padding: [21, message({ dims: [1, [message({ low: [1, 'int'], high: [2, 'int'], interior: [3, 'int'] })]] })],
  distribution: [23, 'int'], epsilon: [24, 'float'], feature_index: [25, 'int'], channel_id: [26, 'int'],
  target: [28, 'string'], outfeedShape: [29, SHAPE], dot: [30, DOT], fft_type: [31, 'int'], fft_length: [32, ['int']],
  gather: [33, GATHER], slice_sizes: [34, ['int']], id: [35, 'int'], operands: [36, ['int']],
  predecessors: [37, ['int']], called: [38, ['int']], sharding: [40, SHARDING], backendConfig: [43, 'bytes'],
  is_host_transfer: [47, 'bool'], scatter: [48, SCATTER], oldGroups: [49, GROUPS], featureGroups: [50, 'int'],
  precision: [51, message({ operands: [1, ['int']], algorithm: [2, 'int'] })],
  pairs: [52, [message({ source: [1, 'int'], target: [2, 'int'] })]], constrain_layout: [56, 'bool'],
  operandShapes: [57, [SHAPE]], batchGroups: [58, 'int'], triangular: [59, TRIANGULAR], is_stable: [60, 'bool'],
  replication: [61, message({ leaves: [1, ['bool']] })], cholesky: [62, message({ lower: [1, 'bool'] })],
  direction: [63, 'string'], custom_call_has_side_effect: [65, 'bool'], delta: [66, 'int'],
  indices_are_sorted: [67, 'bool'], frontend: [68, FRONTEND], unique_indices: [69, 'bool'], rng: [70, 'int'],
  use_global_device_ids: [71, 'bool'], comparison: [72, 'string'],
  aliasing: [74, [message({ output: [1, ['int']], operand: [2, 'int'], index: [3, ['int']] })]],
  padding_type: [75, 'int'], schedule: [76, 'int'], api_version: [77, 'int'], thread: [79, 'string'], k: [81, 'int'],
  largest: [85, 'bool'], groups: [87, message({ groups: [1, GROUPS] })], composite: [89, 'bool'],
  ragged: [90, message({ dot: [1, DOT], lhs_ragged_dims: [2, ['int']], rhs_group_dims: [3, ['int']] })],
  iotaGroups: [92, message({ count: [1, 'int'], size: [2, 'int'], iota: [3, ['int']], permutation: [4, ['int']] })],
  meshGroups: [93, message({ mesh: [1, MESH], axes: [2, [AXIS]] })], is_reverse: [94, 'bool'], num_carries: [95, 'int'], is_associative: [96, 'int'], convolution_kind: [97, 'int'],
  payload: [99, message({ value: [1, 'bytes'], id: [2, 'int'] })],
});
export type Instruction = Decoded<typeof INSTRUCTION>;
// biome-ignore format: a table
export const COMPUTATION = message({
  name: [1, 'string'], instructions: [2, [INSTRUCTION]], shape: [4, PROGRAM_SHAPE], id: [5, 'int'], root: [6, 'int'],
  thread: [8, 'string'],
});
export type Computation = Decoded<typeof COMPUTATION>;
// biome-ignore format: a table
export const FRAMES = message({
  files: [1, ['string']], locations: [3, [message({ file: [1, 'int'], line: [3, 'int'], column: [4, 'int'] })]],
  frames: [4, [message({ location: [1, 'int'] })]],
});
export const PROGRAM = message({ ...INTERFACE, outputSharding: [12, SHARDING] }); // without computations, which are skipped
export const MODULE = message({
  ...INTERFACE,
  computations: [3, [COMPUTATION]],
  entry: [6, 'int'],
  schedule: [7, message({ sequences: [1, ['map', 'int', message({ ids: [1, ['int']] })]] })],
  frames: [17, FRAMES],
  frontend: [19, FRONTEND],
  payloads: [22, ['bytes']],
});
export type Module = Decoded<typeof MODULE>;
// biome-ignore format: a table
export const CONFIG = message({
  replica_count: [4, 'int'], num_partitions: [5, 'int'], toParameters: [33, ['bool']], toOutput: [27, ['bool']],
});
export const WITH_CONFIG = message({ module: [1, 'bytes'], config: [2, CONFIG] });

export function open<T>(
  schema: Message<T>,
  bytes: Uint8Array,
  format: HloFormat,
): [T, Decoded<typeof CONFIG> | undefined] {
  try {
    if (format === 'hlo') return [decode(schema, bytes), undefined];
    const { module, config } = decode(WITH_CONFIG, bytes);
    return [decode(schema, module), config];
  } catch (e) {
    throw new ArgumentError(`these ${bytes.length} bytes are not an HLO module of format ${format}: ${messageOf(e)}`);
  }
}

/** XLA's names of the element types, by number. */
// biome-ignore format: a table
export const PRIMITIVES = [
  'invalid', 'pred', 's8', 's16', 's32', 's64', 'u8', 'u16', 'u32', 'u64', 'f16', 'f32', 'f64', 'tuple', 'opaque',
  'c64', 'bf16', 'token', 'c128', 'f8e5m2', 'f8e4m3fn', 's4', 'u4', 'f8e4m3b11fnuz', 'f8e5m2fnuz', 'f8e4m3fnuz',
  's2', 'u2', 'f8e4m3', 'f8e3m4', 's1', 'u1', 'f4e2m1fn', 'f8e8m0fnu', 'buffer', 'f6e3m2fn', 'f6e2m3fn',
];
export const primitive = (type: number): string => PRIMITIVES[type] ?? `type${type}`;
export const TUPLE = 13;
