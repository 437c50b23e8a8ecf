// The cost of a compiled program, kernel by kernel, counted in its optimized HLO.
import type { Instruction, Module } from '../../pjrt/hlo-proto.js';
import { type Flops, flopsOf } from './flops.js';
import { arrayBytes, type Body, leavesOf, OptimizedProgram } from './program.js';
import { trafficOf } from './traffic.js';

/** An instruction that runs as a kernel. Figures are for one run of it, on one device. */
export interface Kernel {
  readonly name: string;
  readonly opcode: string;
  /** The user's file and line, if the program has source locations. */
  readonly source?: string;
  /** Number of runs in one run of the program: the iterations of the loops around it. */
  readonly times: number;
  readonly flops: Flops;
  /** Bytes to and from HBM. */
  readonly bytes: number;
  /** Whether it overlaps with other kernels. */
  readonly overlaps: boolean;
  readonly collective?: Collective;
}

const KINDS = ['all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute'] as const;
export interface Collective {
  readonly kind: (typeof KINDS)[number];
  /** Bytes that one device sends or receives, whichever is more. */
  readonly bytes: number;
  /** The number of devices in a group. */
  readonly group: number;
}

export interface Cost {
  readonly kernels: readonly Kernel[];
  /** Total FLOPs, including all iterations of loops. */
  readonly flops: number;
  /** The FLOPs of matrix products. */
  readonly productFlops: number;
  readonly bytes: number;
  readonly collectives: readonly {
    readonly kind: Collective['kind'];
    readonly count: number;
    readonly bytes: number;
  }[];
  /** Number of loops whose length depends on values; their bodies are counted once. */
  readonly openLoops: number;
}

const totalOf = ({ lookup: _, ...work }: Flops): number => Object.values(work).reduce((a, b) => a + b, 0);
const productsOf = ({ vector: _, ...products }: Flops): number => totalOf(products);

/** The work of one device in one run of the program. */
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

/** Instructions without work: views, and the second half of asynchronous operations. */
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

  /** Only one branch runs: the most expensive one is counted. */
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
   * A collective, or an instruction that contains one on a TPU: a fusion (an all-reduce of which only slices are kept), or a
   * custom call (on a tpu7x the SparseCores communicate while the TensorCores compute).
   */
  #collective(body: Body, i: Instruction): Collective | undefined {
    const kind = KINDS.find((k) => i.opcode === k || i.opcode === `${k}-start`);
    if (kind) {
      const all = [...i.operands.flatMap((id) => leavesOf(body.at(id).shape)), ...leavesOf(i.shape)];
      const given = i.operands.reduce((n, id) => n + sizeOfAll(leavesOf(body.at(id).shape)), 0);
      // The shape of a start has operands and results; the largest array is all the data that is exchanged.
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
