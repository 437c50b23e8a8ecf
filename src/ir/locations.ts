// Locations of operations in a program: the user's line, and the path of the module. XLA keeps both for its kernels (HLO
// metadata), and profiles show them. A program's key does not depend on them; only the disk cache stores programs compiled for
// profiles separately.
import { envFlag } from '../base/env.js';
import { CallSource, type Source } from './source.js';

let wanted = 0;
/** Whether a profile needs locations: a program compiled without them cannot be used then. */
export const mustNameOperations = (): boolean => wanted > 0;
/** Whether programs compiled from now on include locations. */
export const namesOperations = (): boolean => mustNameOperations() || envFlag('XLA_HLO_DEBUG');
/** Turns locations on until the result is disposed. */
export function nameOperations(): Disposable {
  wanted++;
  let isOn = true;
  return {
    [Symbol.dispose]() {
      if (isOn) wanted--;
      isOn = false;
    },
  };
}

type PathOf = (scope: readonly object[]) => string;
let pathOf: PathOf | undefined;
/** Sets the function that names modules, which are defined in a higher layer. */
export function setPathOf(fn: PathOf): void {
  pathOf = fn;
}

/** backward/layers.0.mlp/matmul; '' if no calls were recorded. */
function nameOf(source: Source | undefined): string {
  if (!(source instanceof CallSource)) return '';
  const path = source.scope.length ? pathOf?.(source.scope) : '';
  return [source.gradientOf.length ? 'backward' : '', path, source.call].filter(Boolean).join('/');
}

/** The location in MLIR, written after a type. */
export function locationOf(source: Source | undefined): string {
  const frame = source?.frames[0];
  const place = frame ? `${JSON.stringify(frame.file)}:${frame.line}:${frame.column}` : '';
  const name = JSON.stringify(nameOf(source));
  if (name === '""') return place && ` loc(${place})`;
  return place ? ` loc(${name}(${place}))` : ` loc(${name})`;
}
