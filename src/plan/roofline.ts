// How long a chip at its peak would take for what a program does.

import type { Chip } from '../base/chips.js';
import type { Slice } from '../base/slices.js';
import type { Collective, Cost, Kernel } from './hlo/cost.js';
import type { Unit } from './hlo/flops.js';

/** A lower bound: nothing reaches its peak. */
export interface Estimate {
  readonly seconds: number;
  /** Each alone, as if the others took no time. */
  readonly computeSeconds: number;
  readonly memorySeconds: number;
  readonly interconnectSeconds: number;
  readonly flops: number;
  readonly bytes: number;
  readonly collectives: Cost['collectives'];
  /** Loops that values end: what they do is counted once. */
  readonly openLoops: number;
  /** Products of matrices, as a part of what the chip could do of them (in bf16) in that time. */
  readonly utilisation: number;
  /** The ten kernels that take longest, all their runs together. */
  readonly heaviest: readonly HeavyKernel[];
}
export interface HeavyKernel extends Pick<Kernel, 'name' | 'opcode' | 'source' | 'times'> {
  readonly seconds: number;
}

/**
 * The time of one run. Kernels run one after the other, each as long as its arithmetic, its memory or its launch takes,
 * whichever is longest; what overlaps costs nothing but its share of the memory's or the links' whole time.
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
  const { flops, bytes, collectives, openLoops, productFlops } = cost;
  const utilisation = seconds > 0 ? productFlops / chip.peak.bf16 / seconds : 0;
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
  const { vector = 0, ...products } = flops;
  const matrix = Object.entries(products).reduce((s, [unit, n]) => s + n / chip.peak[unit as Unit], 0);
  const compute = Math.max(matrix, vector / chip.peak.vector); // two units, side by side
  const memory = bytes / chip.hbm.bandwidth;
  const links = collective ? linkSeconds(collective, chip, slice) : 0;
  return { compute, memory, links, alone: Math.max(compute, memory, links, chip.launch) };
}

/** Around a ring of n, every device passes on all but its own part: once to gather or to scatter sums, twice for both. */
function linkSeconds({ kind, bytes, group }: Collective, chip: Chip, slice?: Slice): number {
  if (group < 2) return 0;
  const link = chip.ici.bandwidth / (2 * chip.ici.dimensions);
  if (kind === 'collective-permute') return bytes / link;
  const passed = (bytes * (group - 1)) / group;
  return ((kind === 'all-reduce' ? 2 : 1) * passed) / (link * linksUsed(group, chip, slice));
}

/**
 * How many links of a device a group can use at once: those of all dimensions of the torus if it is the whole slice, else
 * those of one. A dimension is a line, with one link that counts, until it is long enough to be closed to a ring.
 */
function linksUsed(group: number, chip: Chip, slice?: Slice): number {
  const { dimensions } = chip.ici;
  if (!slice) return 2 * dimensions;
  const closes = (size: number) => (dimensions === 2 ? size === 16 : size % 4 === 0);
  const links = slice.shape.map((size) => (size < 2 ? 0 : closes(size) ? 2 : 1));
  const used = group >= slice.devices ? links.reduce<number>((a, b) => a + b, 0) : Math.max(...links);
  return Math.max(1, used);
}
