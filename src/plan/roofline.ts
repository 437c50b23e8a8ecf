// A roofline estimate: the time that a chip at its peak needs for a program.

import type { Chip } from '../base/chips.js';
import type { Slice } from '../base/slices.js';
import type { Collective, Cost, Kernel } from './hlo/cost.js';

/** Lower bounds of the time of one run. */
export interface Estimate {
  readonly seconds: number;
  /** The time for arithmetic alone; memorySeconds and interconnectSeconds are those for memory and links alone. */
  readonly computeSeconds: number;
  readonly memorySeconds: number;
  readonly interconnectSeconds: number;
  readonly flops: number;
  readonly bytes: number;
  readonly collectives: Cost['collectives'];
  /** Number of loops whose length depends on values; one iteration of each is counted. */
  readonly openLoops: number;
  /** Matrix products as a fraction of the chip's peak in that time (in bf16; int8 products in int8). */
  readonly utilisation: number;
  /** The ten kernels with the longest total time. */
  readonly heaviest: readonly HeavyKernel[];
}
export interface HeavyKernel extends Pick<Kernel, 'name' | 'opcode' | 'source' | 'times'> {
  readonly seconds: number;
}

/**
 * Estimates the time of one run. Kernels run one after the other; each takes the longest of its arithmetic, memory and launch
 * times. Overlapping kernels only add to the total times of memory and links.
 */
export function estimate(cost: Cost, chip: Chip, slice?: Slice): Estimate {
  const rows = cost.kernels.map((kernel) => ({ kernel, ...timesOf(kernel, chip, slice) }));
  const over = (f: (row: (typeof rows)[number]) => number) => rows.reduce((n, row) => n + row.kernel.times * f(row), 0);
  const computeSeconds = over((r) => r.compute);
  const memorySeconds = over((r) => r.memory);
  const interconnectSeconds = over((r) => r.links);
  const inTurn = over((r) => (r.kernel.overlaps ? 0 : r.alone));
  const seconds = Math.max(inTurn, memorySeconds, interconnectSeconds);
  const heaviest = rows
    .filter((r) => !r.kernel.overlaps)
    .map(({ kernel: { name, opcode, source, times }, alone }) => ({
      name,
      opcode,
      ...(source && { source }),
      times,
      seconds: times * alone,
    }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, 10);
  const { flops, bytes, collectives, openLoops } = cost;
  const utilisation = seconds > 0 ? Math.min(1, over((r) => r.products) / seconds) : 0;
  return {
    seconds,
    computeSeconds,
    memorySeconds,
    interconnectSeconds,
    flops,
    bytes,
    collectives,
    openLoops,
    utilisation,
    heaviest,
  };
}

function timesOf({ flops, bytes, collective }: Kernel, chip: Chip, slice?: Slice) {
  const { vector = 0, lookup = 0, ...work } = flops;
  const over = (peakOf: (unit: keyof typeof work) => number) =>
    Object.entries(work).reduce((s, [unit, n]) => s + n / peakOf(unit as keyof typeof work), 0);
  const matrix = over((unit) => chip.peak[unit]) + lookup / chip.peak.bf16;
  const products = over((unit) => Math.max(chip.peak[unit], chip.peak.bf16));
  const compute = Math.max(matrix, vector / chip.peak.vector); // two units that work in parallel
  const memory = bytes / chip.hbm.bandwidth;
  const links = collective ? linkSeconds(collective, chip, slice) : 0;
  return { compute, memory, links, products, alone: Math.max(compute, memory, links, chip.launch) };
}

/** In a ring of n, every device passes on all parts but one: once for all-gather or reduce-scatter, twice for all-reduce. */
function linkSeconds({ kind, bytes, group }: Collective, chip: Chip, slice?: Slice): number {
  if (group < 2) return 0;
  const link = chip.ici.bandwidth / (2 * chip.ici.dimensions);
  if (kind === 'collective-permute') return bytes / link;
  const passed = (bytes * (group - 1)) / group;
  return ((kind === 'all-reduce' ? 2 : 1) * passed) / (link * linksUsed(group, chip, slice));
}

/**
 * The number of a device's links that a group can use at once: those of all dimensions of the torus if it is the whole slice, else
 * those of one. A dimension has one usable link as a line, and two if it is long enough to be closed to a ring.
 */
function linksUsed(group: number, chip: Chip, slice?: Slice): number {
  const { dimensions } = chip.ici;
  if (!slice) return 2 * dimensions;
  const closes = (size: number) => (dimensions === 2 ? size === 16 : size % 4 === 0);
  const links = slice.shape.map((size) => (size < 2 ? 0 : closes(size) ? 2 : 1));
  const used = group >= slice.devices ? links.reduce<number>((a, b) => a + b, 0) : Math.max(...links);
  return Math.max(1, used);
}
