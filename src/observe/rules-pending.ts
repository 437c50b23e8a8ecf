// The rule `pending`: finds loops that never end a step, whose operations become one program that takes XLA minutes to compile.
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { openScopes } from '../ir/scope.js';
import { placeOf, type Source } from '../ir/source.js';
import { describedSince } from '../runtime/evaluate.js';
import { broken, isChecked } from './rules.js';

/** The number of pending operations at the first check; the next ones are at each doubling. */
const FIRST = 2000;
/** This many operations without a gradient are a loop, if their lines ran often: a model with many layers has fewer. */
const MANY = 8000;
/** This many operations are too many in any case. */
const MOST = 50_000;
/** This many iterations are a loop. */
const ITERATIONS = 10;
let next = FIRST;

/** Called for each new node; checks pending operations from time to time. `losses`: the number of backward() calls since the last step. */
export function notePending(e: Expr, losses: () => number): void {
  const pending = describedSince();
  if (pending < next) {
    if (pending < FIRST) next = FIRST;
    return;
  }
  if (openScopes().length || !isChecked('pending')) return;
  next = pending * 2;
  const { runs, first } = look(e);
  const iterations = Math.max(losses(), pending < MANY ? 0 : runs);
  if (iterations < ITERATIONS && pending < MOST) return;
  const of = iterations >= ITERATIONS ? ` of about ${iterations} iterations` : '';
  const place = placeOf(e.source);
  const finding = {
    rule: 'pending',
    place,
    what: `${pending} operations${of} are described but not computed${first && `, since ${first}`}`,
    cost: 'they become one program, and XLA takes minutes to compile a program of many thousands',
    fix: 'end each iteration: optimizer.step(), `await tx.sync(x)` of what the next one uses, or a read; or make the body one program: tx.compile(fn)',
  } as const;
  broken(finding, place);
}

/** How often the lines of the latest operations ran, and the place of the first pending operation. */
function look(e: Expr): { readonly runs: number; readonly first: string } {
  const { nodes } = collect([e], (x) => x.isComputed);
  const calls = new Set<Source>();
  for (const { source } of nodes) if (source) calls.add(source);
  const places = [...calls].map(placeOf);
  const runs = new Map<string, number>();
  for (const place of places) runs.set(place, (runs.get(place) ?? 0) + 1);
  const last = places.slice(-places.length / 2).map((place) => runs.get(place)!);
  return { runs: Math.min(...last), first: places[0] ?? '' };
}
