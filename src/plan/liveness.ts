// What fills a device's memory when a compiled program needs most of it.

export type BufferClass = 'argument' | 'activation' | 'temporary';

export interface LiveBuffer {
  readonly bytes: number;
  readonly class: BufferClass;
  /** 'argument 3', or the operation that made it. */
  readonly what: string;
  /** The user's file and line, where the program was emitted with them. */
  readonly source?: string;
  /** 'bf16[28,4,1024,1024]' */
  readonly shape: string;
}

export interface Liveness {
  /** The sum of all that is alive then, in HBM. */
  readonly peak: number;
  readonly arguments: number;
  /** Made by the forward pass and kept for the backward pass. */
  readonly activations: number;
  readonly temporaries: number;
  readonly tenLargest: readonly LiveBuffer[];
}
