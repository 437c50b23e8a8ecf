// The gradient mode: whether new operations are recorded for gradients.
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
