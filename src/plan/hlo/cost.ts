// What a compiled program does in one run, kernel by kernel, counted in its optimized HLO.
import type { Instruction, Module } from '../../pjrt/hlo-proto.js';
import { type Flops, flopsOf } from './flops.js';
import { arrayBytes, type Body, leavesOf, OptimizedProgram } from './program.js';
import { trafficOf } from './traffic.js';

/** One instruction that runs by itself. Figures are for one run of it, on one device. */
export interface Kernel {
  readonly name: string;
  readonly opcode: string;
  /** The user's file and line, where the program was emitted with them. */
  readonly source?: string;
  /** Runs in one run of the program: the trips of the loops around it. */
  readonly times: number;
  readonly flops: Flops;
  /** To and from HBM. */
  readonly bytes: number;
  /** Other work goes on meanwhile. */
  readonly overlaps: boolean;
  readonly collective?: Collective;
}

const KINDS = ['all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute'] as const;
export interface Collective {
  readonly kind: (typeof KINDS)[number];
  /** What one device gives or gets, whichever is more. */
  readonly bytes: number;
  /** How many devices take part in one. */
  readonly group: number;
}

export interface Cost {
  readonly kernels: readonly Kernel[];
  /** Loops counted. */
  readonly flops: number;
  /** Of those, in products of matrices. */
  readonly productFlops: number;
  readonly bytes: number;
  readonly collectives: readonly {
    readonly kind: Collective['kind'];
    readonly count: number;
    readonly bytes: number;
  }[];
  /** Loops whose length depends on values, so that their bodies are counted once. */
  readonly openLoops: number;
}

const totalOf = (flops: Flops): number => Object.values(flops).reduce((a, b) => a + b, 0);
const productsOf = ({ vector: _, ...products }: Flops): number => totalOf(products);

/** What one device does in one run of the program. */
export function costOf(module: Module): Cost {
  const counter = new Counter(new OptimizedProgram(module));
  counter.count(counter.program.entry, 1, false);
  const { kernels, openLoops } = counter;
  const over = (f: (k: Kernel) => number) => kernels.reduce((n, k) => n + k.times * f(k), 0);
  return {
    kernels,
    flops: over((k) => totalOf(k.flops)),
    productFlops: over((k) => productsOf(k.flops)),
    bytes: over((k) => k.bytes),
    collectives: KINDS.map((kind) => {
      const of = (f: (c: Collective) => number) => over((k) => (k.collective?.kind === kind ? f(k.collective) : 0));
      return { kind, count: of(() => 1), bytes: of((c) => c.bytes) };
    }).filter((c) => c.count > 0),
    openLoops,
  };
}

/** No work: names for what is there, and the second half of what was begun before. */
// biome-ignore format: a list
const FREE = new Set([
  'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'after-all', 'partition-id', 'replica-id',
  'opt-barrier', 'optimization-barrier', 'add-dependency', 'domain', 'copy-done', 'async-update', 'async-done',
  ...KINDS.map((kind) => `${kind}-done`), 'send-done', 'recv-done',
]);
/** libtpu's custom calls that only name memory. */
const FREE_CALLS = new Set(['AllocateBuffer', 'ConcatBitcast', 'AssumeGatherIndicesInBound', 'SliceBitcast']);

class Counter {
  readonly kernels: Kernel[] = [];
  openLoops = 0;

  constructor(readonly program: OptimizedProgram) {}

  count(body: Body, times: number, overlaps: boolean): void {
    for (const i of body.order) {
      if (FREE.has(i.opcode) || (i.opcode === 'custom-call' && FREE_CALLS.has(i.target))) continue;
      const inner = (n: number) => this.program.body(i.called[n]!);
      if (i.opcode === 'while') {
        const trips = this.program.trips(i, body);
        if (trips === undefined) this.openLoops++;
        this.count(inner(0), times * (trips ?? 1), overlaps);
      } else if (i.opcode === 'call') this.count(inner(0), times, overlaps);
      else if (i.opcode === 'async-start') this.count(inner(0), times, true);
      else if (i.opcode === 'conditional') this.#costliest(i, times, overlaps);
      else this.kernels.push(this.#kernel(body, i, times, overlaps));
    }
  }

  /** One branch runs: the one with the most to do stands for all. */
  #costliest({ called }: Instruction, times: number, overlaps: boolean): void {
    const branches = called.map((id) => {
      const alone = new Counter(this.program);
      alone.count(this.program.body(id), times, overlaps);
      return alone;
    });
    const work = ({ kernels }: Counter) => kernels.reduce((n, k) => n + k.times * (totalOf(k.flops) + k.bytes), 0);
    const most = branches.sort((a, b) => work(b) - work(a))[0];
    this.kernels.push(...(most?.kernels ?? []));
    this.openLoops += most?.openLoops ?? 0;
  }

  #kernel(body: Body, i: Instruction, times: number, overlaps: boolean): Kernel {
    const source = this.program.source(i);
    const collective = this.#collective(body, i);
    return {
      name: i.name,
      opcode: i.opcode,
      ...(source && { source }),
      times,
      flops: flopsOf(this.program, body, i),
      bytes: trafficOf(this.program, body, i),
      overlaps: overlaps || i.opcode.endsWith('-start'),
      ...(collective && { collective }),
    };
  }

  /**
   * An instruction that is one, or what a TPU has around one: a fusion (an all-reduce of which only slices are kept), or a
   * custom call (a tpu7x's SparseCores exchange, while the TensorCores go on).
   */
  #collective(body: Body, i: Instruction): Collective | undefined {
    const kind = KINDS.find((k) => i.opcode === k || i.opcode === `${k}-start`);
    if (kind) {
      const all = [...i.operands.flatMap((id) => leavesOf(body.at(id).shape)), ...leavesOf(i.shape)];
      const given = i.operands.reduce((n, id) => n + sizeOfAll(leavesOf(body.at(id).shape)), 0);
      // A start's shape names operands and results; the largest array is the whole of what is exchanged.
      const bytes =
        i.opcode === kind ? Math.max(given, sizeOfAll(leavesOf(i.shape))) : Math.max(given, ...all.map(arrayBytes));
      return { kind, bytes, group: groupOf(i) };
    }
    if (!i.called.length || (i.opcode !== 'fusion' && i.opcode !== 'custom-call')) return undefined;
    const inner = this.program.body(i.called[0]!);
    for (const each of inner.order) {
      const found = this.#collective(inner, each);
      if (!found) continue;
      const { root } = inner;
      const kept = root.opcode === 'tuple' ? root.operands.map((id) => inner.at(id)) : [root];
      const scattered = found.kind === 'all-reduce' && kept.every((k) => k.opcode === 'dynamic-slice');
      return scattered ? { ...found, kind: 'reduce-scatter' } : found;
    }
    return undefined;
  }
}

const sizeOfAll = (leaves: ReturnType<typeof leavesOf>): number => leaves.reduce((n, s) => n + arrayBytes(s), 0);

function groupOf({ iotaGroups, groups, oldGroups, meshGroups, pairs }: Instruction): number {
  if (iotaGroups) return iotaGroups.size;
  if (meshGroups) {
    const sizes = meshGroups.axes.map((a) => a.sub?.size ?? meshGroups.mesh?.axes[a.index]?.size ?? 1);
    return sizes.reduce((a, b) => a * b, 1);
  }
  const listed = groups?.groups ?? oldGroups;
  return pairs.length ? 2 : Math.max(1, ...listed.map((g) => g.ids.length));
}
