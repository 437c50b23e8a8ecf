// Cases of PyTorch's ModuleInfo database that do not pass, and why. moduleinfo.test.ts fails on a reason that is out of date.
export interface Known {
  /** Keys of the cases: MODULE/NUMBER/DTYPE. */
  readonly cases: RegExp;
  readonly kind: 'differs' | 'absent';
  readonly why: string;
}
export const KNOWN: readonly Known[] = [];
