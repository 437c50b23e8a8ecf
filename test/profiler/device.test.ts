// Profiles of devices: what a plugin's profiler gives is taken as PJRT's header says (there is none on a CPU: its table is made
// here, of C functions), and tsxla profile names what kernels do.
import koffi from 'koffi';
import { Client } from 'tsxla/pjrt';
import { expect, test } from 'vitest';
import { type INSTRUCTION, MODULE } from '../../dist/pjrt/hlo-proto.js';
import { PluginProfiler } from '../../dist/pjrt/profiler.js';
import { encode, message } from '../../dist/pjrt/proto.js';
import { matchKernels } from '../../dist/profiler/graphs.js';
import { showProfile, summarize } from '../../dist/profiler/summary.js';
import { readable } from '../../dist/profiler/trace.js';
import { decodeSpace, encodeSpace, XSpace } from '../../dist/profiler/xplane.js';
import { cpuPlugin } from '../support.js';

test('the plugin of CPUs has no profiler', async () => {
  using client = await Client.create(cpuPlugin, { cpu_device_count: 1 });
  expect(PluginProfiler.create(client.api)).toBeUndefined();
});

/** A plugin's table with a profiler extension behind another one, and what its functions were called with. */
function pluginWith(result: Uint8Array, failing?: string) {
  const calls: string[] = [];
  const callback = koffi.proto('void* (void*)');
  const bytesAt = (address: unknown, size: number) => Buffer.from(koffi.view(address as bigint, size));
  const text = Buffer.from('no CUPTI');
  const keep: Buffer[] = [Buffer.from(result), text];
  const addressOf = (b: Buffer) => koffi.address(b) as bigint;
  const functions: Record<string, (args: Buffer) => void> = {
    errorDestroy: () => {},
    errorMessage: (a) => {
      a.writeBigUInt64LE(addressOf(text), 16);
      a.writeBigUInt64LE(BigInt(text.length), 24);
    },
    errorCode: (a) => void a.writeInt32LE(9, 16),
    create: (a) => {
      calls.push(`options ${bytesAt(a.readBigUInt64LE(8), Number(a.readBigUInt64LE(16))).toString('hex')}`);
      a.writeBigUInt64LE(77n, 24);
    },
    destroy: (a) => void expect(a.readBigUInt64LE(8)).toBe(77n),
    start: () => {},
    stop: () => {},
    collect: (a) => {
      expect([a.readBigUInt64LE(8), a.readBigUInt64LE(16)]).toEqual([77n, 0n]);
      a.writeBigUInt64LE(addressOf(keep[0]!), 16);
      a.writeBigUInt64LE(BigInt(result.length), 24);
    },
  };
  const table = Buffer.alloc(16 + 8 * 8);
  Object.entries(functions).forEach(([name, run], i) => {
    const called = koffi.register((args: unknown) => {
      const size = Number(bytesAt(args, 8).readBigUInt64LE(0));
      calls.push(`${name} ${size}`);
      run(bytesAt(args, size));
      return name === failing ? 5n : null;
    }, koffi.pointer(callback));
    table.writeBigUInt64LE(koffi.address(called) as bigint, 16 + 8 * i);
  });
  const [other, own, api] = [Buffer.alloc(32), Buffer.alloc(32), Buffer.alloc(40)];
  other.writeInt32LE(3, 8);
  other.writeBigUInt64LE(addressOf(own), 16);
  own.writeInt32LE(1, 8);
  own.writeBigUInt64LE(addressOf(table), 24);
  api.writeBigUInt64LE(addressOf(other), 8);
  return { api: { table: api } as never, calls, keep: [...keep, table, other, own] };
}

test('a profiler is found, started, stopped, read and destroyed', () => {
  const plugin = pluginWith(Buffer.from('what it saw'));
  const found = PluginProfiler.create(plugin.api)!;
  found.start();
  expect(Buffer.from(found.finish()).toString()).toBe('what it saw');
  expect(plugin.calls).toEqual([
    'create 32',
    'options 1002180128013801',
    'start 16',
    'stop 16',
    'collect 32',
    'destroy 16',
  ]);
  const broken = pluginWith(new Uint8Array(), 'start');
  const closed = PluginProfiler.create(broken.api)!;
  expect(() => closed.start()).toThrow('no CUPTI');
  closed.discard();
  expect(broken.calls.slice(2)).toEqual([
    'start 16',
    'errorMessage 32',
    'errorCode 24',
    'errorDestroy 16',
    'destroy 16',
  ]);
});

// ---- a profile of a GPU, as the plugin writes it

const HLO = message({ module: [1, MODULE] });
type Part = Parameters<typeof encode<NonNullable<(typeof INSTRUCTION)['decoded']>>>[1];
const line = (op_name: string, source_line: number) => ({
  metadata: { op_name, source_file: 'model.ts', source_line },
});
const fused = (id: number, opcodes: readonly string[], lines = 0) => ({
  id,
  name: `fused_${id}`,
  instructions: opcodes.map(
    (opcode, i): Part => ({
      name: `p${id}.${i}`,
      opcode,
      id: 100 * id + i,
      ...(lines && i ? line('mlp/silu', lines) : {}),
    }),
  ),
});
const entry: readonly Part[] = [
  { name: 'gemm', opcode: 'custom-call', target: '__cublas$gemm', ...line('layers.0.mlp/matmul', 10) },
  { name: 'sdpa', opcode: 'custom-call', target: '__cudnn$fmhaSoftmax', ...line('attn/attention', 20) },
  { name: 'loop', opcode: 'fusion', called: [2] },
  { name: 'dotted', opcode: 'fusion', called: [3], ...line('head/matmul', 40) },
  { name: 'sum', opcode: 'all-reduce', ...line('backward/matmul', 50) },
  { name: 'flip', opcode: 'fusion', called: [4], ...line('transpose', 60) },
  { name: 'unplaced', opcode: 'multiply', metadata: { op_name: '', source_file: '-', source_line: 70 } },
];
const hlo = encode(HLO, {
  module: {
    name: 'jit_step',
    computations: [
      { id: 1, name: 'main', instructions: entry },
      fused(2, ['parameter', 'multiply', 'logistic'], 30),
      fused(3, ['parameter', 'dot']),
      fused(4, ['parameter', 'transpose', 'bitcast']),
    ],
  },
});

const KEYS = ['hlo_module', 'hlo_op', 'Hlo Proto'] as const;
const keys = new Map(KEYS.map((name, i) => [i + 1, { id: i + 1, name }]));
const US = 1_000_000; // picoseconds
const NOW = 1_700_000_000_000_000_000n;
/** Kernels one after the other: name, operation, start and duration in microseconds. */
function gpuProfile(kernels: readonly (readonly [string, string, number, number])[], timestamp = NOW): Uint8Array {
  const names = new Map(kernels.map(([name], i) => [i + 1, { id: i + 1, name }]));
  const stats = (op: string) =>
    op
      ? [
          { key: 1, text: 'jit_step' },
          { key: 2, text: op },
        ]
      : [];
  const events = kernels.map(([, op, start, duration], i) => ({
    metadata: i + 1,
    offset: start * US,
    duration: duration * US,
    stats: stats(op),
  }));
  const program = { id: 1, name: 'jit_step(1)', stats: [{ key: 3, bytes: hlo }] };
  return encode(XSpace, {
    planes: [
      { name: '/host:metadata', events: new Map([[1, program]]), keys },
      {
        name: '/device:GPU:0',
        lines: [{ id: 1, name: 'Stream #13(Compute)', timestamp, events }],
        events: names,
        keys,
      },
      {
        name: '/host:CUPTI',
        lines: [{ name: 'driver', timestamp, events: [{ metadata: 1, offset: 0, duration: US }] }],
      },
    ],
  });
}
const KERNELS = [
  ['nvjet_hsh_128', 'gemm', 0, 30],
  ['fmha_kernel', 'sdpa', 30, 20],
  ['loop_multiply_fusion', 'loop', 50, 10],
  ['dotted_kernel', 'dotted', 60, 10],
  ['ncclDevKernel_AllReduce', 'sum', 70, 10],
  ['flip_kernel', 'flip', 80, 5],
  ['MemcpyD2D', '', 85, 5],
  ['nvjet_hsh_128', 'gemm', 110, 90],
] as const;

test('kernels by what they do, with lines and paths, and what the device waited for', () => {
  const ms = Number(NOW) / 1e6;
  const host = encodeSpace(
    '/device:CUSTOM:tsxla',
    [
      { name: 'Steps', spans: [0, 0.11].map((at) => ({ name: 'train', start: ms + at, end: ms + at + 0.01 })) },
      { name: 'Loader wait', spans: [{ name: 'wait for a batch', start: ms + 0.09, end: ms + 0.105 }] },
    ],
    'host',
  );
  const summary = summarize(decodeSpace(Buffer.concat([gpuProfile(KERNELS), host])));
  expect(summary).toMatchObject({ device: '/device:GPU:0', devices: 1, steps: 2 });
  const near = (x: number) => expect.closeTo(x, 0); // the host's clock has quarters of microseconds
  const shares = Object.fromEntries(summary.categories.map((c) => [c.name, c.time]));
  expect(shares).toEqual({
    products: near(130),
    attention: near(20),
    collectives: near(10),
    elementwise: near(10),
    copies: near(10),
    idle: near(20),
  });
  expect(summary.window).toBeCloseTo(200, 0);
  const [first, second] = summary.kernels;
  expect(first).toMatchObject({
    name: 'nvjet_hsh_128',
    category: 'products',
    count: 2,
    time: 120,
    source: 'model.ts:10',
    path: 'layers.0.mlp/matmul',
  });
  expect(second).toMatchObject({ name: 'fmha_kernel', category: 'attention', source: 'model.ts:20' });
  expect(summary.kernels.find((k) => k.name.startsWith('loop'))).toMatchObject({
    source: 'model.ts:30',
    path: 'mlp/silu',
  }); // of what is in it
  expect(summary.known).toBeCloseTo(175 / 180, 5);
  expect(summary.waited.map((w) => [w.cause, Math.round(w.time)])).toEqual([
    ['loader', 15],
    ['code', 5],
  ]);
  expect(summary.advice).toBe(
    'The device waits 10% of the time, mostly for the next batch: give the DataLoader workers or a larger prefetch (train-recovery-lora: --preload).',
  );
  expect(showProfile(summary)).toContain('lines are known for 97.2% of kernels');
});

test('a line of the text that XLA was given is no line of the user', () => {
  const { kernels, known } = summarize(
    decodeSpace(
      gpuProfile([
        ['wrapped_multiply', 'unplaced', 0, 30],
        ['flip_kernel', 'flip', 30, 10],
      ]),
    ),
  );
  expect(kernels.map((k) => k.source)).toEqual([undefined, 'model.ts:60']);
  expect(known).toBeCloseTo(0.25, 5);
});

test('a busy device is told by what it does; a loop by what is in it', () => {
  const busy = summarize(decodeSpace(gpuProfile(KERNELS.slice(0, 6))));
  expect(busy.advice).toBe(
    'The device is busy, mostly with products (47%): use bf16 and larger batches, or a chip with more FLOP/s.',
  );
  const events = [
    ['while.1', 0, 100],
    ['fusion.1', 10, 30],
    ['fusion.2', 50, 40],
  ] as const;
  const tpu = encode(XSpace, {
    planes: [
      {
        name: '/device:TPU:0',
        lines: [
          {
            name: 'XLA Ops',
            timestamp: NOW,
            events: events.map(([, at, n], i) => ({ metadata: i + 1, offset: at * US, duration: n * US })),
          },
          { name: 'XLA Modules', timestamp: NOW, events: [{ metadata: 1, offset: 0, duration: 100 * US }] },
        ],
        events: new Map(
          events.map(([name], i) => [
            i + 1,
            {
              id: i + 1,
              name: `%${name} = f32[] ...`,
              displayName: name,
              stats: [{ key: 1, text: i ? 'convolution fusion' : 'while' }],
            },
          ]),
        ),
        keys: new Map([[1, { id: 1, name: 'hlo_category' }]]),
      },
    ],
  });
  const summary = summarize(decodeSpace(tpu));
  expect(summary.kernels.map((k) => [k.name, k.category, k.time])).toEqual([
    ['fusion.2', 'products', 40],
    ['while.1', 'elementwise', 30],
    ['fusion.1', 'products', 30],
  ]);
  expect(summarize([]).advice).toMatch(/^Nothing ran on the device/);
});

test('a byte too much, as one plugin gives it, and what is no profile', () => {
  const profile = gpuProfile(KERNELS);
  expect(Buffer.from(readable(Buffer.concat([profile, Buffer.alloc(1)]))!).equals(profile)).toBe(true);
  expect(readable(profile)!.length).toBe(profile.length);
  expect(readable(Buffer.from([0xff, 0xff, 0xff]))).toBeUndefined();
});

// ---- CUDA graphs: all kernels of a launch are said to be of one operation, the graph

const op = (name: string, opcode = 'fusion', target = '', deduplicated_name = '') => ({
  ...{ name, opcode, target },
  ...{ metadata: { deduplicated_name, op_name: `layers.${name}/mul`, source_file: 'model.ts', source_line: 1 } },
});
const SCHEDULE = [
  op('p0', 'parameter'),
  op('wrapped_convert.3'),
  op('gemm_fusion_dot.7'),
  op('cublas', 'custom-call', '__cublas$lt$matmul'),
  op('loop_add_fusion'),
  op('fmha', 'custom-call', '__cudnn$fmhaSoftmaxBackward'),
  op('loop_add_fusion.1', 'fusion', '', 'loop_add_fusion'),
  op('input_reduce_fusion.9', 'fusion', '', 'input_reduce_fusion.2'),
];

test('kernels of a graph are matched with operations by order, though equal ones share a name', () => {
  const kernels = [
    'Memset 0', // nothing that copies
    'wrapped_convert_1', // the code of another one of its kind
    'gemm_fusion_dot_7',
    'nvjet_sm90_64x8',
    'splitKreduce_kernel', // a library may run several
    'loop_add_fusion',
    'cudnn_generated_sdpa_bprop',
    'void cudnn::fusion::convert_dq_to_16bits<true>',
    'loop_add_fusion',
    'input_reduce_fusion_2',
  ];
  expect([...matchKernels(kernels, SCHEDULE as never)]).toEqual([-1, 1, 2, 3, 3, 4, 5, 5, 6, 7]);
  expect([...matchKernels(['nvjet_sm90_64x8', 'loop_add_fusion'], SCHEDULE as never)]).toEqual([3, 4]);
  expect([...matchKernels(['unknown'], SCHEDULE as never)]).toEqual([-1]);
});

test('kernels of a graph get the lines and categories of their operations, and layers share a path', () => {
  const layer = (i: number) => [
    { ...op(`wrapped_multiply.${i}`), id: 2 * i + 1, called: [2] },
    { ...op(`cublas.${i}`, 'custom-call', '__cublas$lt$matmul'), id: 2 * i + 2 },
  ];
  const named = [0, 1].flatMap(layer).map((x, i): Part => {
    const path = `layers.${i >> 1}.postAttentionLayernorm/${i % 2 ? 'linear' : 'mul'}`;
    return { ...x, metadata: { ...x.metadata, op_name: path, source_line: 10 + (i % 2) } };
  });
  const module = encode(HLO, {
    module: {
      name: 'train',
      // Written in another order than they run.
      computations: [{ id: 1, name: 'main', instructions: [...named].reverse() }, fused(2, ['parameter', 'multiply'])],
      schedule: { sequences: new Map([[1, { ids: [1, 2, 3, 4] }]]) },
    },
  });
  const names = ['wrapped_multiply', 'nvjet_sm90', 'wrapped_multiply', 'nvjet_sm90'];
  const graphKeys = ['hlo_module', 'hlo_op', 'correlation_id'];
  const stats = (launch: number) => [
    { key: 1, text: 'train' },
    { key: 2, text: 'command_buffer_1' },
    { key: 3, int: BigInt(launch) },
  ];
  const table = new Map(['wrapped_multiply', 'nvjet_sm90'].map((name, i) => [i + 1, { id: i + 1, name }]));
  const events = [0, 1].flatMap((launch) =>
    names.map((_, i) => ({
      metadata: 1 + (i % 2),
      offset: (100 * launch + 10 * i) * US,
      duration: (i % 2 ? 10 : 5) * US,
      stats: stats(launch),
    })),
  );
  const space = encode(XSpace, {
    planes: [
      {
        name: '/host:metadata',
        events: new Map([[1, { id: 1, name: 'train', stats: [{ key: 3, bytes: module }] }]]),
        keys,
      },
      {
        name: '/device:GPU:0',
        lines: [{ id: 1, name: 'Stream #14(Compute)', timestamp: NOW, events }],
        events: table,
        keys: new Map(graphKeys.map((name, i) => [i + 1, { id: i + 1, name }])),
      },
    ],
  });
  const summary = summarize(decodeSpace(space));
  expect(
    summary.kernels.map(({ name, category, source, path, count }) => [name, category, source, path, count]),
  ).toEqual([
    ['nvjet_sm90', 'products', 'model.ts:11', 'layers.*.postAttentionLayernorm/linear', 4],
    ['wrapped_multiply', 'elementwise', 'model.ts:10', 'layers.*.postAttentionLayernorm/mul', 4],
  ]);
  expect(summary.known).toBe(1);
});
