// What a compiled program does, counted in its optimized HLO, and how long a chip at its peak would take for it.

/** What a kernel computes with: the matrix unit at one of its precisions, or the vector unit. */
export type Unit = 'bf16' | 'f32' | 'int8' | 'vector';

/** One instruction that runs by itself. Figures are for one run of it, on one device. */
export interface Kernel {
  readonly name: string;
  readonly opcode: string;
  /** The user's file and line, where the program was emitted with them. */
  readonly source?: string;
  /** Runs in one run of the program: the trips of the loops around it. */
  readonly times: number;
  readonly flops: Readonly<Partial<Record<Unit, number>>>;
  /** To and from HBM. */
  readonly bytes: number;
  readonly collective?: Collective;
}

export interface Collective {
  readonly kind: 'all-reduce' | 'all-gather' | 'reduce-scatter' | 'all-to-all' | 'collective-permute';
  /** What one device gives or gets, whichever is more. */
  readonly bytes: number;
  /** How many devices take part in one. */
  readonly group: number;
  /** Other work goes on meanwhile. */
  readonly overlaps: boolean;
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
}

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
  /** Products of matrices, as a part of what the chip could do of them in that time. */
  readonly utilisation: number;
  /** The ten kernels that take longest, all their runs together. */
  readonly heaviest: readonly {
    readonly name: string;
    readonly source?: string;
    readonly seconds: number;
    readonly times: number;
  }[];
}
