// Prints HLO as text in XLA's own format: for `tsxla hlo --hlo`, `optimizedHlo()` and XLA_SAVE_TENSORS_FMT=hlo. PJRT returns an
// optimized program only as a proto. XLA's own dump (XLA_FLAGS=--xla_dump_to) is no alternative: it must be set before the first
// client starts, writes files for every program, and none for programs from the cache.

import { DTYPES, dtypeFrom, sizeOf } from '../base/dtype.js';
import { decodeFloats } from '../base/float.js';
import { wire } from '../base/packages.js';
import {
  type AXIS,
  type CONVOLUTION,
  type Computation,
  type Decoded,
  type FRONTEND,
  type HloFormat,
  type Instruction,
  type Ints,
  type LITERAL,
  type MESH,
  METADATA,
  MODULE,
  type Module,
  type NAMED_SHARDING,
  open,
  PRIMITIVES,
  primitive,
  type Shape,
  type Sharding,
  TUPLE,
  type WINDOW,
} from './hlo-proto.js';

const set = (items: readonly unknown[]): string => `{${items.join(',')}}`;
/** Long lists have an index comment every five items, as in XLA. */
const counted = (items: readonly string[]): string =>
  items.map((x, i) => (i === 0 ? x : i % 5 ? `, ${x}` : `, /*index=${i}*/${x}`)).join('');
const ESCAPES: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '"': '\\"', "'": "\\'", '\\': '\\\\' };
/** Quotes as in C, with non-ASCII bytes in octal. */
function quote(s: string): string {
  const escaped = (c: string) => ESCAPES[c] ?? `\\${c.charCodeAt(0).toString(8).padStart(3, '0')}`;
  const bytes = Buffer.from(s).toString('latin1');
  return `"${bytes.replace(/["'\\]|[^ -~]/g, escaped)}"`;
}
/** Quotes text unless it is in matching braces (JSON or not). */
function quoteUnlessBraced(s: string): string {
  let depth = 0;
  const braces = s.replace(/"(?:[^"\\]|\\.)*"/g, '').matchAll(/[{}]/g);
  const closes = [...braces].filter(([b]) => (depth += b === '{' ? 1 : -1) === 0).length;
  return s.startsWith('{') && s.endsWith('}') && closes === 1 && depth === 0 ? s : quote(s);
}

function shapeText(s: Shape | undefined, withLayout = true): string {
  if (!s) return '()';
  if (s.type === TUPLE) return `(${counted(s.tuple.map((t) => shapeText(t, withLayout)))})`;
  const array = `${primitive(s.type)}[${s.dims.map((d, i) => (s.dynamic[i] ? (d < 0 ? '?' : `<=${d}`) : d))}]`;
  if (!withLayout || !s.layout) return array;
  const { minorToMajor, tiles, elementBits, memorySpace, tailAlignment } = s.layout;
  let more = tiles.length ? `T${tiles.map((t) => `(${t.dims})`).join('')}` : '';
  if (tailAlignment > 1) more += `L(${tailAlignment})`;
  if (elementBits) more += `E(${elementBits})`;
  if (memorySpace) more += `S(${memorySpace})`;
  return s.dims.length || more ? `${array}{${minorToMajor}${more && `:${more}`}}` : array;
}

/** C's %g: significant digits without trailing zeros; an exponent below -4 or beyond the digits. */
function general(x: number, digits: number): string {
  if (!Number.isFinite(x)) return String(x).replace('Infinity', 'inf').replace('NaN', 'nan');
  const [mantissa = '', exponent] = x.toExponential(digits - 1).split('e');
  const e = Number(exponent);
  const trim = (s: string) => (s.includes('.') ? s.replace(/\.?0+$/, '') : s);
  if (e >= -4 && e < digits) return (Object.is(x, -0) ? '-' : '') + trim(x.toFixed(digits - 1 - e));
  return `${trim(mantissa)}e${e < 0 ? '-' : '+'}${String(Math.abs(e)).padStart(2, '0')}`;
}

// The number of digits XLA prints: the second one if the first does not read back as the same value.
const DIGITS: Record<string, Ints> = { f64: [15, 17], f32: [6, 9], f16: [5], bf16: [4], f8e4m3fn: [3], f8e5m2: [2] };
function floatText(type: string, x: number): string {
  const [few = 6, all = few] = DIGITS[type] ?? [];
  const short = general(x, few);
  return (type === 'f32' ? Math.fround(Number(short)) : Number(short)) === x ? short : general(x, all);
}

const COMPLEX: Record<string, string> = { c64: 'f32', c128: 'f64' };
function elements(literal: Decoded<typeof LITERAL>, type: string): string[] {
  const bytes = literal[type as Exclude<keyof typeof literal, 'shape'>];
  if (!bytes) return [];
  const texts: string[] = [];
  if (['pred', 's32', 's64', 'u32', 'u64'].includes(type)) {
    const r = new (wire().BinaryReader)(bytes); // these are varints, the others are raw memory
    while (r.pos < bytes.length) texts.push(String(type[0] === 's' ? r.int64() : r.uint64()));
    return texts;
  }
  const part = COMPLEX[type] ?? type;
  const dtype = dtypeFrom('hlo', PRIMITIVES.indexOf(part));
  const { array, bytes: size } = DTYPES[dtype];
  // A copy, since a typed array must start at a multiple of its element size.
  const values = new array(new Uint8Array(bytes).buffer, 0, Math.floor(bytes.length / size));
  for (const x of decodeFloats(dtype, values)) texts.push(part in DIGITS ? floatText(part, Number(x)) : String(x));
  return part === type ? texts : texts.flatMap((re, i) => (i % 2 ? [] : `(${re}, ${texts[i + 1]})`));
}

function literalText(literal: Decoded<typeof LITERAL> | undefined): string {
  if (!literal?.shape || literal.shape.dims.some((d) => d > 10)) return '{...}';
  const { dims, layout, type } = literal.shape;
  const values = sizeOf(dims) > 10 ? [] : elements(literal, primitive(type));
  if (values.length !== sizeOf(dims)) return '{...}'; // too large, a tuple, or of a type smaller than a byte
  const rank = dims.length;
  if (rank === 0) return primitive(type) === 'pred' ? String(values[0] === '1') : values[0]!;
  const strides: number[] = [];
  (layout?.minorToMajor ?? dims.map((_, i) => rank - 1 - i)).reduce((stride, d) => {
    strides[d] = stride;
    return stride * (dims[d] ?? 1);
  }, 1);
  const print = (dim: number, offset: number, place: number): string => {
    if (dim === rank) return values[offset] ?? '?';
    const next = (i: number) => print(dim + 1, offset + i * (strides[dim] ?? 0), i);
    const items = Array.from({ length: dims[dim]! }, (_, i) => next(i)).join(', ');
    if (rank === 1 || (dim === rank - 1 && dims[dim]! <= 1)) return `{${items}}`;
    return `{ ${rank > 3 && dim > 0 && dim < rank - 1 ? `/*i${dim - 1}=${place}*/ ` : ''}${items} }`;
  };
  return print(0, 0, 0);
}

const iotaText = (dims: Ints, iota: Ints, permutation: Ints): string =>
  `[${dims}]<=[${iota}]${iota.length > 1 ? `T(${permutation})` : ''}`;
type Mesh = Decoded<typeof MESH>;
function meshText({ axes, devices, iota }: Mesh): string {
  if (!axes.length && devices.length) return `maximal_mesh[device_id=${devices[0]}]`;
  const ids = iota && iota.dims.length > 1 ? `[${iota.dims}]T(${iota.permutation})` : devices.join(',');
  return `mesh[${axes.map((a) => `'${a.name}'=${a.size}`)}]${ids && `, device_ids=(${ids})`}`;
}
const axisTexts = (mesh: Mesh, axes: readonly Decoded<typeof AXIS>[]): string[] =>
  axes.map(({ index, sub }) => `'${mesh.axes[index]?.name}'${sub ? `:(${sub.before})${sub.size}` : ''}`);
function namedShardingText({ mesh, dims, ...rest }: Decoded<typeof NAMED_SHARDING>): string {
  const others = Object.entries(rest).filter(([, axes]) => axes.length);
  if (!mesh || (!dims.length && !others.length && mesh.axes.length)) return '{replicated}';
  if (!mesh.axes.length) return `{${meshText(mesh)}}`;
  const split = dims.map((d) => `{${[...axisTexts(mesh, d.axes), ...(d.closed ? [] : ['?'])].join(', ')}}`);
  const more = others.map(([name, axes]) => `, ${name}={${axisTexts(mesh, axes).join(', ')}}`);
  return `{${meshText(mesh)}, [${split.join(', ')}]${more.join('')}}`;
}
const SHARDINGS = ['replicated', 'maximal', 'tuple', 'other', 'manual', 'unknown', 'unreduced'];
function shardingText(s: Sharding): string {
  if (s.named) return namedShardingText(s.named);
  const type = SHARDINGS[s.type] ?? 'unknown';
  if (type === 'tuple') return `{${counted(s.tuple.map(shardingText))}}`;
  if (type === 'maximal') return `{maximal device=${s.devices[0] ?? 0}}`;
  if (type !== 'other') return `{${type}}`;
  const devices = s.iota.length ? iotaText(s.dims, s.iota, s.permutation) : `[${s.dims}]${s.devices}`;
  const last = s.lastTileDims.length ? ` last_tile_dims={${s.lastTileDims.map((t) => SHARDINGS[t]).join(', ')}}` : '';
  return `{devices=${devices}${s.replicateLast ? ' last_tile_dim_replicate' : ''}${last}}`;
}

function windowText({ dims }: Decoded<typeof WINDOW>): string {
  const rows: [string, (d: (typeof dims)[number]) => unknown, unknown?][] = [
    ['size', (d) => d.size],
    ['stride', (d) => d.stride, 1],
    ['pad', (d) => `${d.low}_${d.high}`, '0_0'],
    ['lhs_dilate', (d) => d.lhsDilate, 1],
    ['rhs_dilate', (d) => d.rhsDilate, 1],
    ['rhs_reversal', (d) => Number(d.reversal), 0],
  ];
  const shown = rows.filter(([, value, plain]) => dims.some((d) => value(d) !== plain));
  return `{${shown.map(([name, value]) => `${name}=${dims.map(value).join('x')}`).join(' ')}}`;
}

/** b01f_01io->b01f: which dimension is the batch, the features, and each of the spatial ones. */
function convolutionText(c: Decoded<typeof CONVOLUTION>): string {
  const labels = (named: Record<string, number>, spatial: Ints) => {
    const at = new Map([...Object.entries(named), ...spatial.entries()].map(([label, d]) => [d, label]));
    return Array.from({ length: at.size }, (_, d) => at.get(d) ?? '?').join('');
  };
  const input = labels({ b: c.inputBatch, f: c.inputFeature }, c.inputSpatial);
  const kernel = labels({ i: c.kernelInput, o: c.kernelOutput }, c.kernelSpatial);
  return `${input}_${kernel}->${labels({ b: c.outputBatch, f: c.outputFeature }, c.outputSpatial)}`;
}

// --- Attributes ---

// biome-ignore format: a table
const ALGORITHMS = [
  undefined, 'any_f8_any_f8_f32', 'any_f8_any_f8_f32_fast_accum', 'f16_f16_f16', 'f16_f16_f32', 'bf16_bf16_bf16',
  'bf16_bf16_f32', 'bf16_bf16_f32_x3', 'bf16_bf16_f32_x6', 'tf32_tf32_f32', 'tf32_tf32_f32_x3', 'f32_f32_f32',
  'f64_f64_f64', 'bf16_bf16_f32_x9',
].map((name) => name && `dot_${name}`);
// biome-ignore format: a table
const ENUMS: Record<string, readonly (string | undefined)[]> = {
  is_associative: [undefined, 'true', 'false'],
  convolution_kind: [undefined, 'fprop', 'dgrad', 'wgrad'],
  padding_type: [undefined, 'PADDING_VALID', 'PADDING_SAME'],
  schedule: [undefined, 'SCHEDULE_LATEST', 'SCHEDULE_EARLIEST'],
  api_version: [undefined, undefined, 'STATUS_RETURNING', 'STATUS_RETURNING_UNIFIED', 'TYPED_FFI'].map((v) => v && `API_VERSION_${v}`),
  fft_type: ['FFT', 'IFFT', 'RFFT', 'IRFFT'],
  transpose_a: [undefined, 'NO_TRANSPOSE', 'TRANSPOSE', 'ADJOINT'],
  distribution: ['rng_invalid', 'rng_uniform', 'rng_normal'],
};

/** Attributes that are not simply a field's value; undefined leaves one out. */
const SPECIAL: Record<string, (i: Instruction) => unknown> = {
  iota_dimension: (i) => i.dimensions[0] ?? 0,
  inferred_dimension: (i) => i.dimensions[0],
  slice: ({ slices }) => {
    const strided = slices.some((s) => s.stride !== 1);
    return `{${slices.map((s) => `[${s.start}:${s.limit}${strided ? `:${s.stride}` : ''}]`).join(', ')}}`;
  },
  padding: ({ padding: { dims } = { dims: [] } }) => {
    const inside = dims.some((d) => d.interior !== 0);
    return dims.map((d) => `${d.low}_${d.high}${inside ? `_${d.interior}` : ''}`).join('x');
  },
  window: (i) => (i.window?.dims.length ? windowText(i.window) : undefined),
  dim_labels: (i) => i.convolution && convolutionText(i.convolution),
  feature_group_count: (i) => (i.featureGroups > 1 ? i.featureGroups : undefined),
  batch_group_count: (i) => (i.batchGroups > 1 ? i.batchGroups : undefined),
  operand_precision: ({ precision }) =>
    precision?.operands.some((p) => p > 0)
      ? set(precision.operands.map((p) => ['default', 'high', 'highest'][p]))
      : undefined,
  algorithm: (i) =>
    i.opcode === 'rng-bit-generator'
      ? ['rng_default', 'rng_three_fry', 'rng_philox'][i.rng]
      : ALGORITHMS[i.precision?.algorithm ?? 0],
  custom_call_target: (i) => quote(i.target),
  operand_layout_constraints: (i) =>
    i.constrain_layout ? `{${i.operandShapes.map((s) => shapeText(s)).join(', ')}}` : undefined,
  output_to_operand_aliasing: ({ aliasing }) =>
    aliasing.length
      ? `{${aliasing.map((a) => `${set(a.output)}: (${a.operand}, ${set(a.index)})`).join(', ')}}`
      : undefined,
  type: (i) => (i.comparison === 'TOTALORDER' ? i.comparison : undefined),
  replica_groups: ({ iotaGroups: iota, meshGroups, groups, oldGroups }) => {
    if (iota) return iotaText([iota.count, iota.size], iota.iota, iota.permutation);
    const mesh = meshGroups?.mesh;
    if (mesh) return `${meshText(mesh)} ${set(axisTexts(mesh, meshGroups.axes))}`;
    return set((groups?.groups ?? oldGroups).map((g) => set(g.ids)));
  },
  source_target_pairs: (i) => set(i.pairs.map((p) => set([p.source, p.target]))),
  parameter_replication: (i) => i.replication && set(i.replication.leaves),
  epsilon: (i) => general(i.epsilon, 6),
  outfeed_shape: (i) => shapeText(i.outfeedShape),
  async_execution_thread: (i) => (i.thread && i.thread !== 'main' ? quote(i.thread) : undefined),
  largest: (i) => String(i.largest),
};

/** The attributes of each instruction, in XLA's order. One with a ? is left out when it is zero or empty. */
const KERNEL = 'window dim_labels feature_group_count batch_group_count';
const DOTS = 'lhs_batch_dims? lhs_contracting_dims rhs_batch_dims? rhs_contracting_dims';
const COLLECTIVE = 'channel_id? replica_groups constrain_layout';
// biome-ignore format: a table
const ATTRIBUTES = new Map(Object.entries({
  'broadcast reduce transpose concatenate reverse map get-dimension-size set-dimension-size': 'dimensions',
  sort: 'dimensions is_stable',
  scan: 'dimensions num_carries is_reverse is_associative',
  reshape: 'inferred_dimension',
  iota: 'iota_dimension',
  slice: 'slice',
  pad: 'padding',
  'dynamic-slice': 'dynamic_slice_sizes',
  'reduce-window select-and-scatter': 'window',
  convolution: `${KERNEL} convolution_kind operand_precision algorithm`,
  'custom-call': `${KERNEL} operand_precision algorithm padding_type custom_call_target operand_layout_constraints custom_call_has_side_effect output_to_operand_aliasing schedule api_version`,
  gather: 'offset_dims collapsed_slice_dims start_index_map operand_batching_dims? start_indices_batching_dims? index_vector_dim slice_sizes indices_are_sorted',
  scatter: 'update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims? scatter_indices_batching_dims? index_vector_dim indices_are_sorted unique_indices',
  'dot scaled-dot': `${DOTS} operand_precision algorithm`,
  'ragged-dot': `${DOTS} lhs_ragged_dims? rhs_group_dims? operand_precision algorithm`,
  fft: 'fft_type fft_length',
  'batch-norm-training batch-norm-inference batch-norm-grad': 'epsilon feature_index',
  compare: 'direction type',
  'triangular-solve': 'left_side lower unit_diagonal transpose_a',
  cholesky: 'lower',
  'send recv send-done recv-done': 'channel_id? is_host_transfer',
  'all-gather all-gather-start': `${COLLECTIVE} dimensions use_global_device_ids`,
  'all-reduce all-reduce-start': `${COLLECTIVE} use_global_device_ids`,
  'reduce-scatter': `${COLLECTIVE} use_global_device_ids dimensions`,
  'all-to-all': `${COLLECTIVE} dimensions?`,
  'ragged-all-to-all collective-broadcast': COLLECTIVE,
  'collective-permute collective-permute-start': 'channel_id? source_target_pairs',
  fusion: 'kind output_to_operand_aliasing',
  rng: 'distribution',
  'rng-bit-generator': 'algorithm',
  'rng-get-and-update-state': 'delta',
  parameter: 'parameter_replication',
  'get-tuple-element': 'index',
  'reduce-precision': 'exponent_bits mantissa_bits',
  outfeed: 'outfeed_shape',
  'async-start': 'async_execution_thread output_to_operand_aliasing',
  topk: 'k largest is_stable',
}).flatMap(([opcodes, names]) => opcodes.split(' ').map((opcode) => [opcode, names.split(' ')] as const)));

function attribute(i: Instruction, entry: string): string[] {
  const name = entry.replace('?', '');
  const holders = [i, i.dot, i.ragged, i.ragged?.dot, i.gather, i.scatter, i.triangular, i.cholesky];
  const holder = holders.find((h) => h && name in h) as Readonly<Record<string, unknown>> | undefined;
  const value = SPECIAL[name] ? SPECIAL[name](i) : holder?.[name];
  const text = ENUMS[name] ? ENUMS[name][Number(value)] : Array.isArray(value) ? set(value) : value;
  const empty = text === undefined || text === false || (name !== entry && (text === 0 || text === '{}'));
  return empty ? [] : [`${name}=${text}`];
}

const TO_APPLY = new Set(
  'call map reduce-window reduce all-reduce all-reduce-start reduce-scatter collective-reduce scatter sort scan'.split(
    ' ',
  ),
);
function callsText(i: Instruction, names: readonly string[], predicated: boolean): string[] {
  const [a, b] = names;
  if (!a || i.opcode === 'async-update' || i.opcode === 'async-done') return [];
  if (i.opcode === 'while') return [`condition=${b}`, `body=${a}`];
  if (i.opcode === 'select-and-scatter') return [`select=${a}`, `scatter=${b}`];
  if (i.opcode === 'conditional' && predicated) return [`true_computation=${a}`, `false_computation=${b}`];
  if (i.opcode === 'conditional') return [`branch_computations={${names.join(', ')}}`];
  if (i.opcode === 'custom-call') return [`called_computations={${names.join(', ')}}`];
  if (TO_APPLY.has(i.opcode)) return [`to_apply=${a}`, ...(i.composite ? ['is_composite=true'] : [])];
  return [`calls=${names.join(', ')}`];
}

function frontendText(attributes: Decoded<typeof FRONTEND> | undefined): string[] {
  const entries = [...(attributes?.map ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
  const texts = entries.map(([name, value]) => `${name}=${quoteUnlessBraced(value)}`);
  return texts.length ? [`frontend_attributes=${set(texts)}`] : [];
}

/** The source of an instruction. A stack frame is printed as its file and line, not as its index in a table. */
function metadataText(metadata: Decoded<typeof METADATA>, stack: Module['frames']): string[] {
  const at = stack?.locations[(stack.frames[metadata.frame - 1]?.location ?? 0) - 1];
  const found = at && { source_file: stack.files[at.file - 1], source_line: at.line, source_column: at.column };
  const all: Readonly<Record<string, unknown>> = { ...metadata, ...found, frame: undefined };
  const names = [...METADATA.fields.values()].map((f) => f.name).filter((name) => all[name]);
  const texts = names.map((name) => `${name}=${typeof all[name] === 'string' ? quote(all[name]) : all[name]}`);
  return texts.length ? [`metadata={${texts.join(' ')}}`] : [];
}

// --- The module ---

function computationText(c: Computation, module: Module, nameOf: (id: number) => string): string {
  const byId = new Map(c.instructions.map((i) => [i.id, i]));
  const operand = (id: number) => `%${byId.get(id)?.name ?? id}`;
  const inside = (i: Instruction) =>
    i.opcode === 'constant'
      ? literalText(i.literal)
      : i.opcode === 'parameter'
        ? i.parameter
        : counted(i.operands.map(operand));
  const config = ({ payload, backendConfig }: Instruction) =>
    !payload ? backendConfig : payload.value.length ? payload.value : module.payloads[payload.id];
  const line = (i: Instruction): string => {
    const backend = Buffer.from(config(i) ?? []).toString();
    const predicated = primitive(byId.get(i.operands[0] ?? -1)?.shape?.type ?? 0) === 'pred';
    return [
      `${i.id === c.root ? 'ROOT ' : ''}%${i.name} = ${shapeText(i.shape)} ${i.opcode}(${inside(i)})`,
      ...(ATTRIBUTES.get(i.opcode) ?? []).flatMap((name) => attribute(i, name)),
      ...callsText(i, i.called.map(nameOf), predicated),
      ...(i.sharding ? [`sharding=${shardingText(i.sharding)}`] : []),
      ...frontendText(i.frontend),
      ...(i.predecessors.length ? [`control-predecessors={${i.predecessors.map(operand).join(', ')}}`] : []),
      ...(i.metadata ? metadataText(i.metadata, module.frames) : []),
      ...(backend ? [`backend_config=${quoteUnlessBraced(backend)}`] : []),
    ].join(', ');
  };
  const scheduled = module.schedule?.sequences.get(c.id)?.ids.flatMap((id) => byId.get(id) ?? []);
  const parameters = (c.shape?.parameters ?? []).map((s, n) => `${c.shape?.names[n]}: ${shapeText(s, false)}`);
  const signature = `%${c.name} (${parameters.join(', ')}) -> ${shapeText(c.shape?.result, false)}`;
  const thread = c.thread && c.thread !== 'main' ? `, execution_thread=${quote(c.thread)}` : '';
  const lines = (scheduled ?? c.instructions).map((i) => `  ${line(i)}\n`);
  return `${c.id === module.entry ? 'ENTRY ' : ''}${signature} {\n${lines.join('')}}${thread}\n`;
}

/** Computations in XLA's order: callees before callers, those called by the earliest instruction first. */
function inCallOrder(computations: readonly Computation[]): Computation[] {
  const byId = new Map(computations.map((c) => [c.id, c]));
  const calls = ({ instructions }: Computation) =>
    [...instructions].sort((a, b) => a.id - b.id).flatMap((i) => i.called.flatMap((id) => byId.get(id) ?? []));
  const called = new Set(computations.flatMap(calls));
  const seen = new Set<Computation>();
  const order: Computation[] = [];
  const visit = (c: Computation) => {
    if (seen.has(c)) return;
    seen.add(c);
    calls(c).forEach(visit);
    order.push(c);
  };
  computations.filter((c) => !called.has(c)).forEach(visit);
  return order;
}

/** The program as text, in the form XLA itself prints and parses. */
export function printHlo(bytes: Uint8Array, format: HloFormat): string {
  const [module, config] = open(MODULE, bytes, format);
  const { name, shape, aliases, donors, schedule, computations, frontend } = module;
  const names = new Map(computations.map((c) => [c.id, `%${c.name}`]));
  const aliasing = (aliases?.entries ?? []).map(
    (a) => `${set(a.output)}: (${a.parameter}, ${set(a.index)}, ${a.kind === 2 ? 'must' : 'may'}-alias)`,
  );
  const donated = (donors?.entries ?? []).map((d) => `(${d.parameter}, ${set(d.index)})`);
  const inputs = counted((shape?.parameters ?? []).map((s) => shapeText(s)));
  const head = [
    `HloModule ${name}`,
    schedule && 'is_scheduled=true',
    aliasing.length && `input_output_alias={ ${aliasing.join(', ')} }`,
    donated.length && `buffer_donor={ ${donated.join(', ')} }`,
    `entry_computation_layout={(${inputs})->${shapeText(shape?.result)}}`,
    config?.toParameters.some(Boolean) && `allow_spmd_sharding_propagation_to_parameters=${set(config.toParameters)}`,
    config?.toOutput.some(Boolean) && `allow_spmd_sharding_propagation_to_output=${set(config.toOutput)}`,
    config && config.replica_count > 1 && `replica_count=${config.replica_count}`,
    config && config.num_partitions > 1 && `num_partitions=${config.num_partitions}`,
    ...frontendText(frontend),
  ];
  const texts = inCallOrder(computations).map((c) => computationText(c, module, (id) => names.get(id) ?? `%${id}`));
  return [`${head.filter(Boolean).join(', ')}\n`, ...texts, ''].join('\n');
}
