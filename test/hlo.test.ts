// The HLO reader and printer, compile options, and the protobuf tables under them.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DTYPES, type DType } from '../dist/base/dtype.js';
import { readProgramShape } from '../dist/pjrt/hlo.js';
import { printHlo } from '../dist/pjrt/hlo-text.js';
import { encodeCompileOptions } from '../dist/pjrt/options.js';
import { decode, encode, type Message, message } from '../dist/pjrt/proto.js';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const golden = (name: string) => readFileSync(new URL(`golden/${name}`, import.meta.url));

describe('protobuf tables', () => {
  const POINT = message({ x: [1, 'int'], y: [2, 'int'] });
  const ALL = message({
    text: [1, 'string'],
    raw: [2, 'bytes'],
    flag: [3, 'bool'],
    int: [4, 'int'],
    big: [5, 'int64'],
    unsigned: [6, 'uint64'],
    single: [7, 'float'],
    double: [8, 'double'],
    point: [9, POINT],
    ints: [10, ['int']],
    texts: [11, ['string']],
    points: [12, [POINT]],
    byName: [13, ['map', 'string', POINT]],
    doubles: [200, ['double']],
  });

  it('writes and reads every kind of field', () => {
    const value = {
      text: 'grüße',
      raw: new Uint8Array([0, 255]),
      flag: true,
      int: -5,
      big: -(2n ** 63n),
      unsigned: 2n ** 64n - 1n,
      single: 0.5,
      double: 0.1,
      point: { x: 1, y: 2 ** 40 },
      ints: [1, -1, 300],
      texts: ['', 'a'],
      points: [{ x: 1 }, { y: 2 }],
      byName: new Map([['p', { x: 7, y: 8 }]]),
      doubles: [1.5, -2.5],
    };
    expect(decode(ALL, encode(ALL, value))).toEqual(value);
  });

  it('gives zero, empty or undefined for what is absent', () => {
    const nothing = decode(ALL, new Uint8Array());
    expect([nothing.text, nothing.flag, nothing.int, nothing.big, nothing.double]).toEqual(['', false, 0, 0n, 0]);
    expect([nothing.ints, nothing.raw.length, nothing.byName.size, nothing.point]).toEqual([[], 0, 0, undefined]);
  });

  it('writes the bytes the protobuf manual gives, and reads lists of numbers packed or not', () => {
    expect(hex(encode(message({ a: [1, 'int'] }), { a: 150 }))).toBe('089601');
    const list = message({ f: [6, ['int']] });
    expect(hex(encode(list, { f: [3, 270, 86942] }))).toBe('3206038e029ea705');
    expect(decode(list, Buffer.from('3003308e02309ea705', 'hex')).f).toEqual([3, 270, 86942]);
  });

  it('skips fields it was not asked for, and fields of another kind than expected', () => {
    const bytes = encode(ALL, { text: 'x', point: { x: 1 }, double: 3, int: 9 });
    expect(decode(message({ n: [4, 'int'] }), bytes).n).toBe(9);
    expect(decode(message({ text: [1, 'int'], double: [8, 'string'], n: [4, 'int'] }), bytes)).toEqual({ n: 9 });
  });

  it('reads messages that contain themselves', () => {
    interface Tree {
      readonly value: number;
      readonly children: readonly Tree[];
    }
    const TREE: Message<Tree> = message({ value: [1, 'int'], children: [2, [(): Message<Tree> => TREE]] });
    const tree = { value: 1, children: [{ value: 2, children: [{ value: 3 }] }, { value: 4 }] };
    expect(decode(TREE, encode(TREE, tree))).toEqual(tree);
  });

  it('refuses a message that is cut off', () => {
    const bytes = encode(ALL, { point: { x: 1, y: 2 }, texts: ['abc'] });
    expect(() => decode(ALL, bytes.subarray(0, -1))).toThrow(RangeError);
    expect(() => decode(ALL, Buffer.from('4a0a0801', 'hex'))).toThrow(
      'field 9 is longer than the message that contains it',
    );
  });
});

describe('compile options', () => {
  it('are the bytes XLA is known to take', () => {
    expect(hex(encodeCompileOptions({}))).toBe('1a0420012801');
    const four = '1a232001280430014a18080110041a030a01001a030a01011a030a01021a030a0103980101';
    expect(hex(encodeCompileOptions({ numPartitions: 4 }))).toBe(four);
    // With devices named, the ordinal is -1: "those of the assignment", not "the first".
    const named = four.replace('1a23', '1a2e08ffffffffffffffffff01');
    expect(hex(encodeCompileOptions({ numPartitions: 4, deviceIds: [0, 1, 2, 3] }))).toBe(named);
  });

  it('place replicas and partitions on devices', () => {
    const assignment = message({ computations: [3, [message({ replicas: [1, ['int']] })]] });
    const schema = message({
      build: [3, message({ assignment: [9, assignment], spmd: [6, 'bool'], shardy: [19, 'bool'] })],
    });
    const devices = (bytes: Uint8Array) =>
      decode(schema, bytes).build?.assignment?.computations.map((c) => c.replicas.join());
    expect(devices(encodeCompileOptions({ numReplicas: 2, numPartitions: 3 }))).toEqual(['0,3', '1,4', '2,5']);
    expect(devices(encodeCompileOptions({ deviceIds: [6] }))).toEqual(['6']);
    expect(devices(encodeCompileOptions())).toBeUndefined();
    expect(decode(schema, encodeCompileOptions({ numReplicas: 2 })).build).toMatchObject({ assignment: {} });
    expect(decode(schema, encodeCompileOptions({ numReplicas: 2 })).build?.spmd).toBe(false);
    const gspmd = decode(schema, encodeCompileOptions({ numPartitions: 2, useShardy: false })).build;
    expect([gspmd?.spmd, gspmd?.shardy]).toEqual([true, false]);
  });

  it('carry XLA flags in one order, whatever order they are given in', () => {
    const value = message({ string: [1, 'string'], bool: [2, 'bool'] });
    const schema = message({ flags: [7, ['map', 'string', value]], profile: [5, 'int'] });
    const bytes = encodeCompileOptions({ xlaFlags: { xla_b: 0.5, '--xla_a': false, xla_c: 'x' }, profileVersion: 3 });
    expect(decode(schema, bytes).profile).toBe(3);
    expect([...decode(schema, bytes).flags]).toEqual([
      ['xla_a', { bool: false }],
      ['xla_b', { string: '0.5' }],
      ['xla_c', { string: 'x' }],
    ]);
    expect(encodeCompileOptions({ xlaFlags: { b: 1, a: 2 } })).toEqual(
      encodeCompileOptions({ xlaFlags: { a: 2, b: 1 } }),
    );
  });

  it('say what is wrong with them', () => {
    expect(() => encodeCompileOptions({ numPartitions: 0 })).toThrow(
      'compile: numPartitions is 0: it must be a whole number, at least 1',
    );
    expect(() => encodeCompileOptions({ numPartitions: 2, deviceIds: [0, 0] })).toThrow(
      'compile: deviceIds is [0, 0]: give 1 x 2 different device ids (replicas x partitions)',
    );
  });

  it('refuse more devices than there are before they count them', () => {
    const four = { name: 'v6e:2x2', devices: [0, 1, 2, 3] };
    expect(encodeCompileOptions({ numPartitions: 4 }, four)).toEqual(encodeCompileOptions({ numPartitions: 4 }));
    for (const [numReplicas, numPartitions] of [
      [1, 5],
      [100_000, 1],
      [2 ** 31, 1],
      [2 ** 26, 2 ** 27],
    ] as const) {
      const said = `the program is split over ${numReplicas * numPartitions} devices`;
      expect(() => encodeCompileOptions({ numReplicas, numPartitions }, four)).toThrow(said);
      expect(() => encodeCompileOptions({ numReplicas, numPartitions }, four)).toThrow(
        'but v6e:2x2 has 4. Change mhlo.num_partitions and mhlo.num_replicas in the module',
      );
    }
    expect(() => encodeCompileOptions({ numPartitions: 2 ** 31 })).toThrow('2147483648 devices, but XLA has 1048576');
  });
});

// The parts of HloModuleProto that the tests below write.
interface Shape {
  readonly type: number;
  readonly dims: readonly number[];
  readonly tuple: readonly Shape[];
  readonly layout: { readonly order: readonly number[]; readonly space: number } | undefined;
}
const LAYOUT = message({ order: [1, ['int']], space: [8, 'int'] });
const SHAPE: Message<Shape> = message({
  type: [2, 'int'],
  dims: [3, ['int']],
  tuple: [4, [(): Message<Shape> => SHAPE]],
  layout: [5, LAYOUT],
});
const ALIAS = message({ output: [1, ['int']], parameter: [2, 'int'], index: [3, ['int']], kind: [4, 'int'] });
const DONOR = message({ parameter: [1, 'int'], index: [2, ['int']] });
const LITERAL = message({
  shape: [1, SHAPE],
  s32: [4, ['int']],
  f32: [8, ['float']],
  bf16: [13, 'bytes'],
  pred: [2, ['bool']],
});
const INSTRUCTION = message({
  name: [1, 'string'],
  opcode: [2, 'string'],
  shape: [3, SHAPE],
  metadata: [7, message({ op: [2, 'string'], frame: [15, 'int'] })],
  literal: [8, LITERAL],
  parameter: [9, 'int'],
  channel: [26, 'int'],
  id: [35, 'int'],
  operands: [36, ['int']],
  called: [38, ['int']],
  sharding: [
    40,
    message({ type: [1, 'int'], dims: [3, ['int']], last: [6, 'bool'], iota: [9, ['int']], perm: [10, ['int']] }),
  ],
  backend: [43, 'bytes'],
  payload: [99, message({ id: [2, 'int'] })],
  iotaGroups: [92, message({ count: [1, 'int'], size: [2, 'int'], iota: [3, ['int']], perm: [4, ['int']] })],
});
const COMPUTATION = message({
  name: [1, 'string'],
  instructions: [2, [INSTRUCTION]],
  id: [5, 'int'],
  root: [6, 'int'],
});
const FRAMES = message({
  files: [1, ['string']],
  locations: [3, [message({ file: [1, 'int'], line: [3, 'int'] })]],
  frames: [4, [message({ location: [1, 'int'] })]],
});
const MODULE = message({
  name: [1, 'string'],
  computations: [3, [COMPUTATION]],
  shape: [4, message({ parameters: [1, [SHAPE]], result: [2, SHAPE] })],
  entry: [6, 'int'],
  aliases: [8, message({ entries: [1, [ALIAS]] })],
  frames: [17, FRAMES],
  donors: [18, message({ entries: [1, [DONOR]] })],
  payloads: [22, ['bytes']],
});
const TUPLE = 13;
const TOKEN = 17;
const array = (dtype: DType, ...dims: number[]) => ({ type: DTYPES[dtype].hlo, dims });
const shapeOf = (value: Parameters<typeof encode<typeof MODULE extends Message<infer T> ? T : never>>[1]) =>
  readProgramShape(encode(MODULE, { name: 'f', ...value }), 'hlo');

describe('readProgramShape', () => {
  it('knows every dtype', () => {
    for (const dtype of Object.keys(DTYPES) as DType[]) {
      const { inputs, outputs } = shapeOf({ shape: { parameters: [array(dtype, 2, 3)], result: array(dtype) } });
      expect({ inputs, outputs }).toEqual({ inputs: [{ dtype, shape: [2, 3] }], outputs: [{ dtype, shape: [] }] });
    }
  });

  it('flattens a tuple of results, also where aliases point into it', () => {
    const pair = { type: TUPLE, tuple: [array('f32', 1), array('bf16', 2)] };
    const shape = shapeOf({
      shape: {
        parameters: [array('i32'), array('f32', 1), array('bf16', 2)],
        result: { type: TUPLE, tuple: [array('f32', 9), pair, array('u8')] },
      },
      aliases: {
        entries: [
          { output: [1, 1], parameter: 2, kind: 1 },
          { output: [2], parameter: 0 },
        ],
      },
      donors: { entries: [{ parameter: 1 }] },
    });
    expect(shape.inputs.map((t) => t.dtype)).toEqual(['i32', 'f32', 'bf16']);
    expect(shape.outputs.map((t) => t.dtype)).toEqual(['f32', 'f32', 'bf16', 'u8']);
    expect(shape.aliases).toEqual([
      { output: 2, input: 2 },
      { output: 3, input: 0 },
    ]);
    expect(shape.donors).toEqual([1]);
  });

  it('reads what the CPU plugin gives for a step with donated parameters', () => {
    const { name, inputs, outputs, aliases, donors } = readProgramShape(golden('step.hlo.pb'), 'hlo_with_config');
    const text = (types: readonly { dtype: string; shape: readonly number[] }[]) =>
      types.map((t) => `${t.dtype}[${t.shape}]`).join(' ');
    expect([name, donors]).toEqual(['jit_step', []]);
    expect(text(inputs)).toBe('f32[11,4] f32[3,3,2,2] f32[3,4,4] i32[5] f32[1,8,8,2] bool[]');
    expect(text(outputs)).toBe('f32[11,4] f32[3,3,2,2] f32[3,4,4] bf16[1,2,2,2] i8[3] f32[2,2]');
    expect(aliases.map((a) => `${a.input}->${a.output}`).join(' ')).toBe('0->0 1->1 2->2');
  });

  it('names what it cannot pass', () => {
    expect(() => shapeOf({ shape: { parameters: [array('f32'), { type: TOKEN }], result: array('f32') } })).toThrow(
      'input 1 of f is a token, which cannot be passed: use an array of bool, i8,',
    );
    expect(() => shapeOf({ shape: { result: { type: 21 } } })).toThrow('output 0 of f is a s4');
    const tuple = { type: TUPLE, tuple: [array('f32')] };
    expect(() => shapeOf({ shape: { parameters: [tuple], result: array('f32') } })).toThrow(
      'input 0 of f is a tuple, which cannot be passed',
    );
    expect(() => readProgramShape(new Uint8Array(), 'hlo')).toThrow(
      'these 0 bytes of format hlo contain no HLO program',
    );
    expect(() => readProgramShape(Buffer.from('not HLO'), 'hlo_with_config')).toThrow(
      'these 7 bytes are not an HLO module of format hlo_with_config',
    );
  });
});

describe('printHlo', () => {
  // The text is XLA's own for these bytes: HloModule.to_string() of jaxlib.
  it('prints a program of the CPU plugin as XLA does', () => {
    expect(printHlo(golden('step.hlo.pb'), 'hlo_with_config').split('\n')).toEqual(
      golden('step.hlo.txt').toString().split('\n'),
    );
  });

  const ordered = (order: readonly number[], dtype: DType, ...dims: number[]) => ({
    ...array(dtype, ...dims),
    layout: { order },
  });
  type Instruction = Parameters<typeof encode<typeof INSTRUCTION extends Message<infer T> ? T : never>>[1];
  const line = (instruction: Instruction) => {
    const text = printHlo(
      encode(MODULE, {
        name: 'f',
        entry: 1,
        computations: [
          {
            name: 'main',
            id: 1,
            instructions: [
              { name: 'p', opcode: 'parameter', id: 1 },
              { name: 'x', id: 2, ...instruction },
            ],
          },
          { name: 'g', id: 2 },
        ],
        frames: { files: ['train.ts'], locations: [{ file: 1, line: 31 }], frames: [{ location: 1 }] },
        payloads: [Buffer.from('{"a":1}')],
      }),
      'hlo',
    );
    return text
      .split('\n')
      .find((l) => l.startsWith('  %x = '))
      ?.slice(7);
  };

  it('prints small literals in their logical order and hides large ones', () => {
    const constant = (literal: Instruction['literal']) => line({ opcode: 'constant', shape: literal?.shape, literal });
    const square = { shape: ordered([0, 1], 'i32', 2, 2), s32: [1, 3, 2, -4] };
    expect(constant(square)).toBe('s32[2,2]{0,1} constant({ { 1, 2 }, { 3, -4 } })');
    const floats = {
      shape: ordered([0], 'f32', 7),
      f32: [0.1, 1e-5, 123456, 1234567, 1e6, -0, Number.NEGATIVE_INFINITY],
    };
    expect(constant(floats)).toBe('f32[7]{0} constant({0.1, 1e-05, 123456, 1234567, 1e+06, -0, -inf})');
    expect(constant({ shape: array('bf16'), bf16: new Uint8Array([0xcd, 0x3d]) })).toBe('bf16[] constant(0.1001)');
    expect(constant({ shape: array('bool'), pred: [true] })).toBe('pred[] constant(true)');
    expect(constant({ shape: array('f32', 11), f32: new Array<number>(11).fill(1) })).toBe('f32[11] constant({...})');
  });

  it('prints calls, shardings, groups, locations and backend settings', () => {
    const sharding = { type: 3, dims: [2, 1, 2], last: true, iota: [2, 2], perm: [1, 0] };
    expect(line({ opcode: 'copy', shape: array('f32', 4), operands: [1], sharding })).toBe(
      'f32[4] copy(%p), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}',
    );
    const iotaGroups = { count: 2, size: 4, iota: [4, 2], perm: [1, 0] };
    expect(
      line({ opcode: 'all-reduce', shape: array('f32'), operands: [1], called: [2], channel: 7, iotaGroups }),
    ).toBe('f32[] all-reduce(%p), channel_id=7, replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%g');
    const here = { opcode: 'tanh', shape: { ...array('f32', 2), layout: { order: [0], space: 1 } }, operands: [1] };
    expect(line({ ...here, metadata: { op: 'a "b"\n', frame: 1 }, payload: { id: 0 } })).toBe(
      'f32[2]{0:S(1)} tanh(%p), metadata={op_name="a \\"b\\"\\n" source_file="train.ts" source_line=31}, backend_config={"a":1}',
    );
    expect(line({ ...here, backend: Buffer.from('{"}"} {') })).toMatch(/backend_config="\{\\"\}\\"\} \{"$/);
  });

  it('prints what it does not know without failing', () => {
    expect(line({ opcode: 'new-op', shape: { type: 99 }, operands: [77], called: [55] })).toBe(
      'type99[] new-op(%77), calls=%55',
    );
    for (const opcode of [
      'conditional',
      'while',
      'convolution',
      'gather',
      'pad',
      'constant',
      'custom-call',
      'fft',
      'topk',
    ]) {
      expect(line({ opcode })).toContain(`() ${opcode}(`);
    }
  });
});
