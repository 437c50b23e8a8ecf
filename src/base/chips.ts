// The table of accelerators: memory, speed, matrix unit, slices and names of each, with the source of each figure. The planner,
// the rules, the backend and the trainers all read it.
import { ArgumentError } from './errors.js';

/** Figures are for one device, as listed by the plugin, in bytes and seconds without multiples. */
export interface Chip {
  /** The name in tsxla and libtpu: 'v6e'. */
  readonly name: string;
  /** Other names people use for it. */
  readonly aliases: readonly string[];
  /** The plugin's name of the device: 'TPU v6 lite'. */
  readonly kind: string;
  /** Ray's accelerator type: 'TPU-V6E'. */
  readonly rayType: string;
  readonly platform: 'tpu' | 'cuda';
  /** What the number in v5p-16 counts. */
  readonly counts: 'chips' | 'TensorCores';
  readonly tensorCoresPerChip: number;
  /** The devices that libtpu lists for a chip: one, if its two cores work together ("megacore"). */
  readonly devicesPerChip: number;
  /** Chips per machine: the most in a single machine, and in each machine of a slice of several. */
  readonly chipsPerHost: { readonly one: number; readonly several: number };
  /** Shapes Google Cloud rents, from one host to the pod, in chips. */
  readonly slices: readonly string[];
  /** Options for Topology.create besides the name. */
  readonly options: Readonly<Record<string, string>>;
  readonly hbm: {
    /** As published by the vendor. */
    readonly bytes: number;
    /** The compiler's limit for a program: libtpu 0.0.51's device_memory_bytes_limit on one chip. */
    readonly available: number;
    /** Bytes per second. */
    readonly bandwidth: number;
  };
  /** TPUs only: rows and columns of the matrix unit. Sizes are rounded up to multiples of it. */
  readonly matrixUnit?: number;
  /** Peak operations per second, dense. */
  readonly peak: {
    readonly bf16: number;
    /** Products of f32 at the default precision: a TPU rounds to bf16, a GPU to TF32. */
    readonly tf32: number;
    /** Products of f32 that must be exact. */
    readonly f32: number;
    readonly int8: number;
    /** Operations other than matrix products. */
    readonly vector: number;
  };
  /** Chip to chip: bytes per second that a device sends over all its links, and the dimensions of the torus. */
  readonly ici: { readonly bandwidth: number; readonly dimensions: number };
  /** Bytes per second from one host to others outside the slice. */
  readonly dcnPerHost: number;
  /** Seconds between one kernel's end and the next one's work, on devices that launch them one by one. */
  readonly launch: number;
  readonly sources: readonly string[];
}

const BOOK = 'https://jax-ml.github.io/scaling-book/tpus'; // ICI per link, DCN per chip, int8, vector units
const docs = (page: string) => `https://docs.cloud.google.com/tpu/docs/${page}`;
/** Norrie and others, IEEE Micro 2021: links of 496 and 656 Gbit/s, clocks of 700 and 940 MHz. */
const TRAINING_CHIPS = "The Design Process for Google's Training Chips: TPUv2 and TPUv3";

const GiB = 2 ** 30;
const FLAT = ['1x1', '2x2', '2x4', '4x4', '4x8', '8x8', '8x16', '16x16'];
const CUBES = '2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16'.split(' ');
const OLD = ['2x2', '4x4', '4x8', '8x8', '8x16', '16x16'];
/** A TPU's registers and memory, in lanes of 32 bits. */
export const TPU_TILE = { rows: 8, columns: 128 } as const;
/** Peak of a tile of lanes with a number of arithmetic units each: one f32 operation per cycle. */
const lanes = (units: number, hertz: number) => TPU_TILE.rows * TPU_TILE.columns * units * hertz;

type Computed = 'platform' | 'tensorCoresPerChip' | 'devicesPerChip' | 'launch' | 'peak';
type Defaulted = 'counts' | 'options' | 'rayType';
interface Row<N extends string> extends Omit<Chip, Computed | Defaulted>, Partial<Pick<Chip, Defaulted>> {
  readonly name: N;
  readonly matrixUnit: number;
  readonly cores: number;
  /** 1 if both cores of a chip are one device. Default: `cores`. */
  readonly devices?: number;
  readonly peak: Omit<Chip['peak'], 'f32' | 'tf32'>;
}
/** A TPU multiplies f32 in full precision (HIGHEST) as six products of bf16. */
const tpu = <N extends string>({ cores, devices = cores, ...row }: Row<N>): Chip & { readonly name: N } => ({
  platform: 'tpu',
  rayType: `TPU-${row.name.toUpperCase()}`,
  tensorCoresPerChip: cores,
  devicesPerChip: devices,
  counts: 'TensorCores',
  options: {},
  launch: 0,
  ...row,
  peak: { ...row.peak, tf32: row.peak.bf16, f32: row.peak.bf16 / 6 },
});

const TPUS = [
  tpu({
    name: 'v2',
    aliases: [],
    kind: 'TPU v2',
    cores: 2,
    chipsPerHost: { one: 4, several: 4 },
    slices: OLD,
    hbm: { bytes: 8 * GiB, available: 8_034_172_928, bandwidth: 700e9 / 2 },
    matrixUnit: 128,
    peak: { bf16: 46e12 / 2, int8: 46e12 / 2, vector: lanes(2, 0.7e9) },
    ici: { bandwidth: (4 * 496e9) / 8 / 2, dimensions: 2 },
    dcnPerHost: 4 * 6.25e9,
    sources: [docs('v2'), TRAINING_CHIPS, BOOK],
  }),
  tpu({
    name: 'v3',
    aliases: [],
    kind: 'TPU v3',
    cores: 2,
    chipsPerHost: { one: 4, several: 4 },
    slices: [...OLD, '16x32', '32x32'],
    hbm: { bytes: 16 * GiB, available: 16_624_107_520, bandwidth: 900e9 / 2 },
    matrixUnit: 128,
    peak: { bf16: 123e12 / 2, int8: 123e12 / 2, vector: lanes(2, 0.94e9) },
    ici: { bandwidth: (4 * 656e9) / 8 / 2, dimensions: 2 },
    dcnPerHost: 4 * 6.25e9,
    sources: [docs('v3'), TRAINING_CHIPS, BOOK],
  }),
  tpu({
    name: 'v4',
    aliases: ['v4p'],
    kind: 'TPU v4',
    cores: 2,
    devices: 1,
    // Without it, libtpu lists two devices per chip and gives each the memory of both.
    options: { chip_config_name: 'megacore' },
    chipsPerHost: { one: 4, several: 4 },
    slices: CUBES,
    hbm: { bytes: 32 * GiB, available: 33_014_413_312, bandwidth: 1200e9 },
    matrixUnit: 128,
    peak: { bf16: 275e12, int8: 275e12, vector: 2 * lanes(2, 1.05e9) },
    ici: { bandwidth: 6 * 45e9, dimensions: 3 },
    dcnPerHost: 4 * 6.25e9,
    sources: [docs('v4'), BOOK],
  }),
  tpu({
    name: 'v5e',
    aliases: ['v5litepod', 'v5lite'],
    kind: 'TPU v5 lite',
    rayType: 'TPU-V5LITEPOD',
    cores: 1,
    counts: 'chips',
    chipsPerHost: { one: 8, several: 4 },
    slices: FLAT,
    hbm: { bytes: 16 * GiB, available: 16_909_336_064, bandwidth: 819e9 },
    matrixUnit: 128,
    peak: { bf16: 197e12, int8: 393e12, vector: lanes(4, 1.5e9) },
    ici: { bandwidth: 4 * 45e9, dimensions: 2 },
    dcnPerHost: 8 * 3.125e9,
    sources: [docs('v5e'), BOOK],
  }),
  tpu({
    name: 'v5p',
    aliases: ['v5'],
    kind: 'TPU v5',
    cores: 2,
    devices: 1,
    chipsPerHost: { one: 4, several: 4 },
    slices: ['1x1x1', ...CUBES, '16x16x16', '16x16x24'],
    hbm: { bytes: 95 * GiB, available: 102_786_661_888, bandwidth: 2765e9 },
    matrixUnit: 128,
    peak: { bf16: 459e12, int8: 918e12, vector: 2 * lanes(4, 1.75e9) },
    ici: { bandwidth: 6 * 90e9, dimensions: 3 },
    dcnPerHost: 4 * 6.25e9,
    sources: [docs('v5p'), BOOK],
  }),
  tpu({
    name: 'v6e',
    aliases: ['trillium', 'v6'],
    kind: 'TPU v6 lite',
    cores: 1,
    counts: 'chips',
    chipsPerHost: { one: 8, several: 4 },
    slices: FLAT,
    hbm: { bytes: 32 * GiB, available: 33_546_042_880, bandwidth: 1640e9 },
    matrixUnit: 256,
    peak: { bf16: 918e12, int8: 1836e12, vector: lanes(4, 1.75e9) }, // clock of v5p: its own is not published
    ici: { bandwidth: 4 * 90e9, dimensions: 2 },
    dcnPerHost: 4 * 12.5e9,
    sources: [docs('v6e'), BOOK],
  }),
  tpu({
    name: 'tpu7x',
    aliases: ['v7x', 'v7', 'ironwood'],
    kind: 'TPU7x',
    rayType: 'TPU-V7X',
    cores: 2, // tpu7x-8 is one host of four chips
    chipsPerHost: { one: 4, several: 4 },
    slices: ['1x1x1', ...CUBES, '16x16x16'],
    hbm: { bytes: 96 * GiB, available: 101_724_453_888, bandwidth: 7380e9 / 2 },
    matrixUnit: 256,
    peak: { bf16: 2307e12 / 2, int8: 4614e12 / 2, vector: lanes(4, 1.75e9) }, // clock of v5p: its own is not published
    ici: { bandwidth: (6 * 90e9) / 2, dimensions: 3 },
    dcnPerHost: 4 * 12.5e9,
    sources: [docs('tpu7x'), BOOK],
  }),
] as const;
/** A TPU of the table, by its name: 'v6e'. */
export type TpuName = (typeof TPUS)[number]['name'];

export const CHIPS: readonly Chip[] = [
  ...TPUS,
  {
    name: 'h200',
    aliases: [],
    kind: 'NVIDIA H200',
    rayType: 'H200',
    platform: 'cuda',
    counts: 'chips',
    tensorCoresPerChip: 1,
    devicesPerChip: 1,
    chipsPerHost: { one: 8, several: 8 },
    slices: ['1', '2', '4', '8'],
    options: {},
    hbm: { bytes: 141e9, available: 141e9, bandwidth: 4.8e12 },
    peak: { bf16: 989.4e12, tf32: 494.7e12, f32: 67e12, int8: 1979e12, vector: 67e12 },
    ici: { bandwidth: 450e9, dimensions: 1 }, // NVLink 4: 900 GB/s in both directions
    dcnPerHost: 8 * 50e9,
    launch: 2e-6,
    sources: ['https://www.nvidia.com/en-us/data-center/h200/', 'NVIDIA H100 Tensor Core GPU Architecture'],
  },
];

/**
 * The tile [rows, columns] for elements of a size in bytes. On a TPU, smaller types are packed on top of each other in the lanes,
 * and 64 bits take two tiles. A GPU's tensor cores take rows and columns of 16 bytes.
 */
export function tileOf({ platform }: Pick<Chip, 'platform'>, bytes: number): readonly [rows: number, columns: number] {
  if (platform === 'cuda') return [16 / bytes, 16 / bytes];
  return [TPU_TILE.rows * Math.max(1, 4 / bytes), TPU_TILE.columns];
}

const byName = new Map(
  CHIPS.flatMap((chip) => [chip.name, ...chip.aliases, chip.kind.toLowerCase()].map((name) => [name, chip])),
);

/** Finds a chip by any of its names, or the plugin's name of the device; undefined if it is not in the table. */
export const findChip = (name: string): Chip | undefined => byName.get(name.toLowerCase());

export interface BatchGuidance {
  /** The rows (batch times sequence) from which bf16 products are bound by compute, no longer by loading weights. */
  readonly rows: number;
  /** The next power of two: a good minimum size. */
  readonly least: number;
  /** Sizes that waste no part of a tile. */
  readonly multipleOf: number;
}
/** A 2-byte weight is read once and takes two operations per row: peak / bandwidth rows keep both busy. */
export function batchGuidance({ peak, hbm }: Chip): BatchGuidance {
  const rows = peak.bf16 / hbm.bandwidth;
  return { rows: Math.round(rows), least: 2 ** Math.ceil(Math.log2(rows)), multipleOf: 8 };
}

/** Checks a TPU's name; the error lists those of the table. */
export function checkTpu(name: string): TpuName {
  const found = TPUS.find((chip) => chip.name === name);
  if (found) return found.name;
  throw new ArgumentError(`${name} is not a TPU: use one of ${TPUS.map((chip) => chip.name).join(', ')}`);
}
