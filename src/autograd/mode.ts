// Whether what is computed now can be differentiated later.
import { checkDescribed } from '../base/described.js';

let enabled = true;
export const gradEnabled = (): boolean => enabled;

export function withGrad<T>(on: boolean, op: string, fn: () => T): T {
  const was = enabled;
  enabled = on;
  try {
    return checkDescribed(op, fn());
  } finally {
    enabled = was;
  }
}
