// Learns which values outlive a step of a plain loop: JavaScript does not tell which tensors are still used when a step ends.
// When a later step uses a value that was not computed, the source line that made it is recorded, and from then on the
// program of a step also returns what that line makes. Losses (of backward()) are returned from the start.
import type { Aval } from '../ir/aval.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { openScopes } from '../ir/scope.js';
import { placeOf } from '../ir/source.js';
import { describedSince } from '../runtime/evaluate.js';
import { recordOf } from '../runtime/record.js';

/** Nodes with a smaller number were made before the last step ended. */
let ended = 0;
/** Values of earlier steps that were used and are not computed yet. */
let late = new Set<Expr>();
/** Losses, and the gradients of each, since the last step ended. */
let losses: { readonly loss: Expr; readonly grads: readonly Expr[] }[] = [];
/** Whether gradients are used after their step: read, accumulated, or used by another optimizer. */
let keepsGrads = false;

/** A source line with values that are used after their step. */
interface Line {
  /** How many of its last values to return. 1: state carried through a loop. An evaluation may make any number of them. */
  most: number;
}
const lines = new Map<string, Line>();
/** The operations and types of these values. The line of other nodes is not looked up, which would take microseconds. */
const kinds = new Map<string, Set<Aval>>();
/** What these lines made since the last step ended. */
let made = new Map<Line, Expr[]>();
const MOST_LINES = 256;
/** A limit for the size of the program. Values beyond it are computed when they are used. */
const MOST_MADE = 256;
/** Replaced whenever something was learned: steps compile again then, which is not reported as a recompilation by the user. */
let knowledge = {};

const keyOf = (e: Expr): string => `${e.op.name} ${e.aval} ${placeOf(e.source)}`;

/** A tensor was made outside of compiled functions. */
export function noteMade(e: Expr): void {
  if (!kinds.get(e.op.name)?.has(e.aval) || openScopes().length) return;
  const line = lines.get(keyOf(e));
  if (!line) return;
  const list = made.get(line);
  if (!list) made.set(line, [e]);
  else if (list.push(e) > line.most) list.shift();
}

/** Whether a node was made by an earlier step and is neither computed nor queued. */
export const isLate = (e: Expr): boolean => e.serial < ended && !e.isComputed && !recordOf(e).queued;

/** A tensor of an earlier step is used but has no value. `isPlace`: it is the initial value of a cell, which is computed once. */
export function noteLate(e: Expr, isPlace: boolean): void {
  if (openScopes().length || late.has(e)) return;
  late.add(e);
  knowledge = {};
  if (isPlace) return;
  if (gradsOf.has(e)) {
    keepsGrads = true;
    return;
  }
  const key = keyOf(e);
  const line = lines.get(key);
  if (line)
    line.most = Math.min(2 * line.most, MOST_MADE); // more of its last values are needed
  else if (lines.size < MOST_LINES) {
    lines.set(key, { most: 1 });
    const ids = kinds.get(e.op.name) ?? new Set();
    kinds.set(e.op.name, ids.add(e.aval));
  }
}

/** For a loss and each of its gradients: all of them, as they are computed together. */
const gradsOf = new WeakMap<Expr, Expr[]>();
/** In elements. Larger losses are not returned, to save memory. */
const LARGEST_LOSS = 4096;
/**
 * The most losses to keep from before the last program. A loop without an optimizer that reads other values leaves more, and
 * the next step would compute them all.
 */
const MOST_LEFT = 8;
/** backward() was called outside of compiled functions, and left these gradients. */
export function noteBackward(loss: Expr, grads: readonly Expr[]): void {
  if (openScopes().length) return;
  forgetComputed();
  forgetOld();
  const together = loss.aval.size <= LARGEST_LOSS ? [loss, ...grads] : [...grads];
  for (const e of together) gradsOf.set(e, together);
  if (loss.aval.size <= LARGEST_LOSS) losses.push({ loss, grads });
}
/** Drops losses that were read, as a loop without an optimizer ends no step. `read`: is no longer tied to its other gradients. */
export function forgetComputed(read?: Expr): void {
  if (read) release(read);
  if (losses.length) losses = losses.filter((l) => !l.loss.isComputed);
}
function forgetOld(): void {
  const started = nodeCount() - describedSince();
  const old = losses.filter(({ loss }) => loss.serial < started).slice(0, -MOST_LEFT);
  if (!old.length) return;
  for (const { loss } of old) release(loss);
  losses = losses.slice(old.length);
}
const release = (e: Expr): void => void gradsOf.get(e)?.splice(0);
/** The number of backward() calls since the last step ended, without those whose loss was read. */
export const pendingLosses = (): number => losses.length;
/** Operations that return the same loss in another form: `loss.detach()`. */
const FORMS: ReadonlySet<string> = new Set(['detach', 'alias', 'convert', 'reshape']);
/** The nodes computed together with one that is read: its loss, and the other gradients of that loss. */
export function readTogether(e: Expr): readonly Expr[] {
  let at = e;
  while (!gradsOf.has(at) && FORMS.has(at.op.name) && !at.isComputed) at = at.inputs[0]!;
  return gradsOf.get(at) ?? [];
}

/** What is to be computed at the end of a step. */
export interface Carried {
  /** Values of earlier steps: computed first, by a separate program. */
  readonly earlier: readonly Expr[];
  /** Values computed with the step. */
  readonly kept: readonly Expr[];
  /** The losses: no later gradient goes back through them. */
  readonly losses: readonly Expr[];
  /** Steps with the same object can share a program. */
  readonly knowledge: object;
}
/** A step ends here. */
export function takeCarried(): Carried {
  const isNew = (e: Expr) => !e.isComputed && !recordOf(e).queued;
  const carried: Carried = {
    earlier: [...late].filter(isNew),
    kept: [...[...made.values()].flat(), ...(keepsGrads ? losses.flatMap((l) => l.grads) : [])].filter(isNew),
    losses: losses.map((l) => l.loss),
    knowledge,
  };
  if (keepsGrads) for (const { loss } of losses) release(loss); // the program computes all of them
  for (const { loss } of losses) gradsOf.delete(loss); // otherwise a loss that is kept would keep its graph
  late = new Set();
  losses = [];
  made = new Map();
  ended = nodeCount();
  return carried;
}
