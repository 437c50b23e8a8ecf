// `tsxla hlo`: runs a StableHLO module, or compiles it for devices this machine lacks.
import fs from 'node:fs/promises';
import { Command, Option } from 'commander';
import { type ArrayType, DTYPES, show, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError, CompileError, OutOfMemoryError } from '../base/errors.js';
import { decodeFloats, encodeNumbers } from '../base/float.js';
import { bytes, columns, flops, plural, seconds } from '../base/format.js';
import { messageOf } from '../base/thrown.js';
import { type HostArray, readSafetensors, writeSafetensors } from '../io/index.js';
import { type Buffer, devicesOf, type LoadedExecutable, type MemoryStats } from '../pjrt/index.js';
import { type AheadOfTime, compileAhead, memoryShortage } from '../plan/index.js';
import { DEVICE_TYPES, type DeviceType } from '../plugins/index.js';
import { chooseDevice, MOST_CPU_DEVICES, openClient } from '../runtime/device.js';
import { count, duration, whole } from './numbers.js';
import { progress } from './progress.js';

export function hloCommand(): Command {
  const hlo = new Command('hlo');
  hlo
    .command('run')
    .description('compile a module and run it')
    .argument('<file>', 'StableHLO, as text (.mlir) or bytecode')
    .addOption(new Option('--device <device>', 'where to run it').choices(['auto', ...DEVICE_TYPES]).default('auto'))
    .option('--repeat <n>', 'run it n times and report the times; results replace the inputs they alias', count, 1)
    .option('--random-inputs', 'random inputs: floats from a normal distribution, integers from 0 to 15')
    .option('--seed <n>', 'seed of the random inputs', whole, 0)
    .addOption(new Option('--inputs <file>', 'a safetensors file with arg0, arg1, ...').conflicts('randomInputs'))
    .option(
      '--outputs <file>',
      'write out0, out1, ... to this safetensors file (out0.device1, ... with several devices)',
    )
    .option('--hlo <file>', 'write the program as optimized by XLA to this file')
    .option('--json', 'print the report as JSON')
    .action(run);
  hlo
    .command('compile')
    .description('compile a module for a TPU without having one: memory, cost, device kinds')
    .argument('<file>', 'StableHLO, as text (.mlir) or bytecode')
    .requiredOption('--topology <name>', 'such as v6e:2x2, v5e:1x1, v5p:2x2x1, v4:2x2x1, tpu7x:2x2x1')
    .option('--timeout <seconds>', 'give up after this time', duration)
    .option('--json', 'print the report as JSON')
    .action(compile);
  return hlo;
}

interface RunFlags {
  device: DeviceType | 'auto';
  repeat: number;
  randomInputs?: true;
  seed: number;
  inputs?: string;
  outputs?: string;
  hlo?: string;
  json?: true;
}

async function run(file: string, flags: RunFlags): Promise<void> {
  const program = await readProgram(file);
  const device = flags.device === 'auto' ? chooseDevice().device : flags.device;
  const { client, plugin } = await openClient(device, {
    onProgress: progress('fetching the plugin'),
    ...(device === 'cpu' && { cpuDevices: cpuDevices(program, file) }),
  });
  let start = performance.now();
  const executable = await client.compile(program).catch((e) => inFile(e, file));
  const compileSeconds = (performance.now() - start) / 1000;
  if (flags.hlo) await writeText(flags.hlo, await executable.optimizedHlo());

  const inputs = await readInputs(executable, flags, file);
  let rows = inputs.map((row, d) => row.map((a) => client.bufferFromHost(a.data, a, executable.devices[d]!)));
  let outputs: readonly (readonly Buffer[])[] = [];
  const times: number[] = [];
  const dispatches: number[] = [];
  for (let i = 0; i < flags.repeat; i++) {
    start = performance.now();
    const execution = executable.executeSharded(rows);
    dispatches.push((performance.now() - start) / 1000);
    await execution.done;
    times.push((performance.now() - start) / 1000);
    if (i === flags.repeat - 1) outputs = execution.outputs;
    else rows = executable.feedBack(rows, execution.outputs);
  }
  const fetch = async (b: Buffer): Promise<HostArray> => ({ ...b.type, data: await b.toHost() });
  const results = await Promise.all(outputs.map((row) => Promise.all(row.map(fetch))));
  if (flags.outputs) {
    const name = (i: number, d: number) => `out${i}${results.length > 1 ? `.device${d}` : ''}`;
    await writeSafetensors(
      flags.outputs,
      new Map(results.flatMap((row, d) => row.map((r, i) => [name(i, d), r] as const))),
    );
  }
  const report = {
    file,
    device: String(executable.devices[0]),
    devices: executable.devices.length,
    plugin: plugin.package ? `${plugin.package} ${plugin.version}` : plugin.path,
    inputs: executable.inputs.length,
    outputs: executable.outputs.length,
    donated: executable.aliases.length,
    compileSeconds,
    runs: { count: times.length, median: median(times), min: Math.min(...times), dispatch: median(dispatches) },
    memory: executable.memory(),
    cost: executable.cost(),
  };
  console.log(flags.json ? JSON.stringify(report, null, 2) : showRun(report, results[0]!));
  client.dispose();
}

/** The number of virtual CPU devices: as many as the module is split over. */
function cpuDevices(program: string | Uint8Array, file: string): number {
  const { numPartitions = 1, numReplicas = 1 } = devicesOf(program);
  const devices = numPartitions * numReplicas;
  if (devices <= MOST_CPU_DEVICES) return devices;
  throw new ArgumentError(
    `${file} needs ${devices} devices (mhlo.num_replicas ${numReplicas} x mhlo.num_partitions ${numPartitions}), but the \
CPU has at most ${MOST_CPU_DEVICES} virtual ones: change these attributes of the module`,
  );
}

async function readInputs(exe: LoadedExecutable, flags: RunFlags, file: string): Promise<HostArray[][]> {
  const { inputs } = exe;
  if (!inputs.length) return exe.devices.map(() => []);
  if (flags.inputs && exe.devices.length > 1) {
    throw new ArgumentError(
      `${file} is split over ${exe.devices.length} devices, and --inputs cannot be split: use --random-inputs`,
    );
  }
  if (flags.inputs) {
    const arrays = await readSafetensors(flags.inputs);
    const path = flags.inputs;
    return [
      inputs.map((_, i) => {
        const array = arrays.get(`arg${i}`);
        if (array) return array;
        throw new ArgumentError(
          `${path} has no arg${i}: ${file} takes ${inputs.length} inputs, named arg0 to arg${inputs.length - 1}`,
        );
      }),
    ];
  }
  if (!flags.randomInputs) {
    throw new ArgumentError(
      `${file} takes ${plural(inputs.length, 'input')}: pass --inputs FILE.safetensors or --random-inputs`,
    );
  }
  const random = generator(flags.seed);
  return exe.devices.map(() => inputs.map((type) => ({ ...type, data: randomArray(type, random) })));
}

const isFloat = (t: ArrayType) => DTYPES[t.dtype].mlir.includes('f');
function randomArray(type: ArrayType, random: () => number): TypedArray {
  const draw = isFloat(type)
    ? () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    : () => Math.floor(random() * (type.dtype === 'bool' ? 2 : 16));
  return encodeNumbers(type.dtype, Float64Array.from({ length: sizeOf(type.shape) }, draw));
}

/** A small seeded generator (mulberry32): the same inputs for the same seed, on every machine. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function compile(file: string, flags: { topology: string; timeout?: number; json?: true }): Promise<void> {
  const program = await readProgram(file);
  try {
    const {
      work: _work,
      live: _live,
      ...report
    } = await compileAhead(program, {
      topology: flags.topology,
      ...(flags.timeout && { timeoutSeconds: flags.timeout }),
    }).catch((e) => inFile(e, file));
    console.log(flags.json ? JSON.stringify({ file, fits: true, ...report }, null, 2) : showAhead(file, report));
  } catch (e) {
    const shortage = e instanceof OutOfMemoryError ? memoryShortage(e) : undefined;
    if (!shortage) throw e;
    const { needed, available } = shortage;
    process.exitCode = 1;
    if (flags.json) {
      console.log(JSON.stringify({ file, fits: false, topology: flags.topology, needed, available }, null, 2));
    } else {
      console.log(
        `${file} does not fit ${flags.topology}: it needs ${bytes(needed)} of HBM, a device has ${bytes(available)}\n\n${messageOf(e)}`,
      );
    }
  }
}

async function writeText(file: string, text: string): Promise<void> {
  await fs.writeFile(file, text).catch((e) => {
    throw new ArgumentError(`cannot write ${file}: ${messageOf(e)}`, { cause: e });
  });
}

async function readProgram(file: string): Promise<string | Uint8Array> {
  const data = await fs.readFile(file).catch((e) => {
    throw new ArgumentError(`cannot read ${file}: ${messageOf(e)}`, { cause: e });
  });
  if (!data.length) throw new ArgumentError(`${file} is empty: it must contain a StableHLO module`);
  const isBytecode = data.subarray(0, 4).equals(globalThis.Buffer.from([0x4d, 0x4c, 0xef, 0x52])); // "MLïR"
  return isBytecode ? data : data.toString('utf8');
}

/** XLA calls the given program "-": "-:4:27" is line 4 of the file. */
function inFile(e: unknown, file: string): never {
  if (e instanceof CompileError) e.message = e.message.replaceAll(/^-:(?=\d)/gm, `${file}:`);
  throw e;
}

const median = (xs: readonly number[]): number => [...xs].sort((a, b) => a - b)[xs.length >> 1] ?? Number.NaN;

const memoryLine = (m: MemoryStats): string =>
  `arguments ${bytes(m.arguments)}, outputs ${bytes(m.outputs)} (${bytes(m.aliased)} in donated arguments), temporaries ${bytes(m.temporaries)}, peak ${bytes(m.peak)}`;
const costLine = (c: Readonly<Record<string, number>>): string =>
  `${flops(c['flops'] ?? 0)}, ${bytes(c['bytes accessed'] ?? 0)} accessed`;

function showRun(
  r: {
    file: string;
    device: string;
    devices: number;
    plugin: string;
    inputs: number;
    outputs: number;
    donated: number;
    compileSeconds: number;
    runs: { count: number; median: number; min: number; dispatch: number };
    memory: MemoryStats;
    cost: Readonly<Record<string, number>>;
  },
  results: readonly HostArray[],
): string {
  const shown = results.slice(0, 8).map((a, i) => [`out${i}`, show(a), preview(a)]);
  const where = r.devices > 1 ? `${r.devices} devices (results shown: the first's)` : r.device;
  return [
    `${r.file} on ${where}, ${r.plugin}`,
    columns([
      ['program', `${plural(r.inputs, 'input')}, ${plural(r.outputs, 'output')}, ${r.donated} donated`],
      ['compile', seconds(r.compileSeconds)],
      [
        'run',
        r.runs.count === 1
          ? `${seconds(r.runs.median)} (the first)`
          : `${seconds(r.runs.median)} median, ${seconds(r.runs.min)} best of ${r.runs.count}`,
      ],
      ['dispatch', seconds(r.runs.dispatch)],
      ['memory', memoryLine(r.memory)],
      ['cost', costLine(r.cost)],
    ]),
    columns(shown),
    ...(results.length > shown.length ? [`  ... and ${results.length - shown.length} more`] : []),
  ]
    .filter(Boolean)
    .join('\n');
}

function preview(a: HostArray): string {
  const values = decodeFloats(a.dtype, a.data);
  const shown = Array.from(values.slice(0, 6) as ArrayLike<number | bigint>, (v) =>
    typeof v === 'number' && !Number.isInteger(v) ? v.toPrecision(6) : String(v),
  );
  return shown.join(' ') + (values.length > 6 ? ' ...' : '');
}

function showAhead(file: string, r: Omit<AheadOfTime, 'work' | 'live'>): string {
  return [
    `${file} for ${r.topology}: ${r.used} of ${plural(r.devices, 'device')}, ${r.kind}`,
    columns([
      ['compile', seconds(r.seconds)],
      ['memory', `${memoryLine(r.memory)} (per device)`],
      ['cost', costLine(r.cost)],
    ]),
  ].join('\n');
}
