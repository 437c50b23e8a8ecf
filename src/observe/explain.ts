// Explains why a program was compiled: finds the nearest known program, the first difference, and what to write instead.
import { env } from '../base/env.js';
import { plural } from '../base/format.js';
import { notice } from '../base/log.js';
import { isPlain } from '../base/tree.js';
import type { Aval } from '../ir/aval.js';
import { type Expr, nodeCount, type Signature } from '../ir/expr.js';
import { type Graph, type NodeFact, nodesOf } from '../ir/graph.js';
import type { Sharding } from '../ir/mesh.js';
import { placeOf } from '../ir/source.js';
import { Body } from '../ops/prim/body.js';
import { type Computation, keyOf, type Program, type ProgramKey, type Request } from '../runtime/program.js';
import type { Layout } from '../stablehlo/emitter.js';
import { CAUSES } from './debug.js';
import { ByGroup } from './groups.js';
import { compiles } from './registry.js';

/** Facts about a program, kept to compare others with. */
interface ProgramFacts {
  /** The line of the user's code that made each node. */
  readonly sources: readonly string[];
  /** Each given value in the user's words, in the order of the given nodes. */
  readonly labels: readonly string[];
  /** Makes these texts now, and releases their sources: call sites keep the user's models alive. */
  settle(): void;
  readonly roots: readonly number[];
  readonly aliases: readonly number[];
  readonly flags: Readonly<Record<string, string>>;
  /** The shardings of inputs and results. */
  readonly layout: Layout | undefined;
  readonly late: Late | undefined;
}

/** A value that a plain loop computes now, although it was described before its last program ran. */
interface Late {
  /** FILE:LINE where it was made. */
  readonly at: string;
  /** true: that program computed it but did not keep it (carried from step to step). false: it could have computed it. */
  readonly carried: boolean;
}

/** The facts of every program, as long as its key is kept. */
const facts = new WeakMap<ProgramKey, ProgramFacts>();
export const factsOf = (key: ProgramKey): ProgramFacts => facts.get(key)!;

/** Stores the facts of a program; returns its key. */
export function describeProgram(
  computation: Computation,
  request: Request,
  key = keyOf(computation, request),
): ProgramKey {
  facts.set(key, makeFacts(computation, request));
  return key;
}

/** The last new program of a plain loop: the nodes it computed, and the number of nodes described by then. */
let last: { readonly nodes: WeakSet<Expr>; readonly count: number; readonly request: Request } | undefined;
const isPlainLoop = ({ cause, name }: Request): boolean => name === undefined && (cause === 'read' || cause === 'sync');

function lateIn({ graph, isGiven }: Computation, request: Request): Late | undefined {
  if (!isPlainLoop(request)) return undefined;
  const before = last;
  const nodes = graph.nodes.filter((e) => !isGiven(e) && e.inputs.length > 0);
  last = { nodes: new WeakSet(nodes), count: nodeCount(), request };
  if (!before || before.request === request) return undefined; // another part of the same call
  const old = nodes.filter((e) => e.serial < before.count);
  const newest = old.reduce<Expr | undefined>((a, b) => (a && a.serial > b.serial ? a : b), undefined);
  if (!newest) return undefined;
  const carried = before.nodes.has(newest);
  return carried || old.length * 2 >= nodes.length ? { at: placeOf(newest.source), carried } : undefined;
}

function makeFacts(computation: Computation, request: Request): ProgramFacts {
  const { graph, labels, aliases, layout } = computation;
  const { compileOptions = {} } = request;
  const { xlaFlags = {}, ...others } = compileOptions;
  const flags = Object.entries({ ...xlaFlags, ...others });
  const places = graph.nodes.map((e) => e.source);
  const [sources, names] = [once(() => places.splice(0).map(placeOf)), once(labels)];
  return {
    // Made when needed: most programs are never explained.
    get sources() {
      return sources();
    },
    get labels() {
      return names();
    },
    settle: () => void [sources(), names()],
    roots: placesOfRoots(graph),
    aliases,
    flags: Object.fromEntries(flags.map(([k, v]) => [k, JSON.stringify(v)])),
    layout,
    late: lateIn(computation, request),
  };
}

/** At module level: a closure above would share its scope with those that are kept, and keep the graph and all its values. */
const placesOfRoots = ({ roots, index }: Graph): number[] => roots.map((root) => index.get(root)!);

const ARGUMENT = 'argument '; // step/trace.ts names them: argument [0], argument [1].x

export type DifferenceKind = keyof typeof FIXES;
/** What to write instead. */
const FIXES = {
  shape:
    'every shape needs another program: pad the input to one of a few sizes (buckets), or leave the last short batch out',
  dtype: "convert it to one dtype before the call: x.to('f32')",
  constant:
    'a number in the code is part of the program: pass it as an argument of the compiled function, or keep it in a tensor and set that: lr.copy_(0.1)',
  option: 'the options of an operation are part of the program: keep them the same from step to step',
  op: 'the code took another branch: choose with where() or cond() inside one program, or keep what the branch depends on',
  order: 'the same operations in another order are another program: make the order the same in every step',
  inputs:
    'the step uses other tensors than before: create its state (moments, statistics) before the first step, and keep a list that ' +
    'it reads at one length',
  outputs: 'the step has other results: return and change the same tensors in every step (including gradients)',
  donation: 'the step changes other tensors in place than before: change the same ones in every step',
  growth:
    'a value of the last step is computed again, with all earlier steps: compute it with the loss, `await tx.sync(h, loss)`, ' +
    'or write the step as a function for tx.compile; change parameters in place (w.sub_(...), under noGrad); keep a list that ' +
    'the step reads at one length',
  together:
    'read values together, in one program: `await tx.read(a, b, ...)`, or `await Promise.all([a.item(), b.item()])`',
  sharding:
    'the shardings of inputs are part of a program: split the same inputs the same way in every step (markSharding, shardBatch)',
  flag: 'flags are part of a program: set them once, before the first step',
} as const;

/** The same for a plain loop, where values not computed yet become part of the program that needs them. */
const otherStart =
  'this step starts from other tensors: a sum that is reset in each epoch, data that is not computed yet ' +
  '(`await tx.sync(data)` before the loop), other parameters, or another branch of your code. Similar steps use this program from now on';
const otherRead =
  'the value read here depends on other tensors than before: those of a first iteration, accumulated gradients, data that is ' +
  'not computed yet (`await tx.sync(data)` before the loop), or another branch of your code. Similar reads use this program from now on';
const PLAIN_FIXES: Partial<Record<Request['cause'], Partial<Record<DifferenceKind, string>>>> = {
  step: { op: otherStart, inputs: otherStart },
  read: {
    op: otherRead,
    inputs: otherRead,
    shape:
      'every shape needs another program: read several tensors together, in one program (`await tx.read(a, b, ...)`); ' +
      'pad an input whose size changes to one of a few sizes (buckets)',
  },
};
const inLoop = (d: Difference, { cause }: Request): Difference => ({
  ...d,
  fix: PLAIN_FIXES[cause]?.[d.kind] ?? d.fix,
});

export interface Difference {
  readonly kind: DifferenceKind;
  /** The input, operation, flag that differs. */
  readonly what: string;
  readonly was: string;
  readonly now: string;
  /** FILE:LINE in the user's code, if known. */
  readonly at: string;
  readonly fix: string;
}

/** One compile in the history. */
export interface CompileRecord {
  readonly name: string | undefined;
  readonly cause: string;
  readonly hash: string;
  readonly when: Date;
  /** FILE:LINE of the call in the user's code. */
  readonly at: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly operations: number;
  /** The number of earlier programs of the same function (or line). */
  readonly earlier: number;
  /** The nearest of them, and the first difference from it. */
  readonly nearest: string | undefined;
  readonly difference: Difference | undefined;
  /** Its time in seconds, and the cache that had it; undefined while it is compiled. */
  readonly seconds: number | undefined;
  readonly cache: 'disk' | 'miss' | undefined;
}

/** Facts about a compiled program; not the program itself, which would keep its executable alive. */
export interface KnownProgram {
  readonly key: ProgramKey;
  executions: number;
  seconds: number;
  /** The cache that had it; undefined while it is compiled. */
  cache: Program['tier'] | undefined;
}
interface Group {
  readonly latest: readonly KnownProgram[];
  readonly count: number;
}

const MOST_RECORDS = 1000;
const history: CompileRecord[] = [];
const MOST_LATEST = 32;
const NONE: Group = { latest: [], count: 0 };
/** The programs of each function or line: the latest ones, and their total number. */
const groups = new ByGroup<Group>();

/** Every compile so far, oldest first, with the difference from the nearest program known at that time. */
export const explain = (): readonly CompileRecord[] => history.map((r) => ({ ...r }));
/** The latest compile of this program. */
export const compileOf = ({ hash }: ProgramKey): CompileRecord | undefined => history.findLast((r) => r.hash === hash);

/** The latest programs of the same function, or line. */
export const programsOf = (request: Request): readonly KnownProgram[] => (groups.get(request) ?? NONE).latest;

/** Why a program is compiled. */
interface Explanation {
  /** For the debug output. */
  lines(): string[];
  /** Logs it once, after warm-up. */
  log(): void;
}
const EXPLAINED: Explanation = { lines: () => [], log() {} };
const known = new WeakMap<Program, KnownProgram>();
const explanations = new WeakMap<Program, Explanation>();
/** Programs whose compile was already explained by a rule. */
const logged = new WeakSet<ProgramKey>();
export const markLogged = (key: ProgramKey): void => void logged.add(key);

/** Records the compile and its explanation. */
export function explainCompile(program: Program, request: Request): Explanation {
  const earlier = explanations.get(program);
  if (earlier) return earlier; // it is compiled twice
  const explanation = explainNew(program, request);
  explanations.set(program, explanation);
  setImmediate(() => factsOf(program.key).settle()); // while XLA compiles
  return explanation;
}

/** Logs the explanation: XLA compiles the program, which is in no cache. */
export const logExplanation = (program: Program): void => explanations.get(program)?.log();

/** The first programs of functions or lines. */
const firsts = new WeakSet<Program>();

export function noteCompiled(program: Program): void {
  if (firsts.has(program) && program.tier === 'miss') compiles.first++;
  explanations.set(program, EXPLAINED); // the explanation would keep the request alive
  const own = known.get(program);
  if (own) [own.seconds, own.cache] = [program.seconds, program.tier];
}
export function noteStarted(program: Program): void {
  const own = known.get(program);
  if (own) own.executions++;
}

function explainNew(program: Program, request: Request): Explanation {
  const { key } = program;
  const { latest, count } = groups.get(request) ?? NONE;
  const own: KnownProgram = { key, executions: 0, seconds: 0, cache: undefined };
  known.set(program, own);
  groups.set(request, { latest: [...latest, own].slice(-MOST_LATEST), count: count + 1 });
  if (request.internal || (count === 0 && groups.get(request))) firsts.add(program); // a request without a group may be a loop
  const keys = latest.map((p) => p.key);
  const found = once(() => {
    const nearest = nearestOf(key, keys);
    const difference = lateOf(key, keys) ?? growthOf(key, keys) ?? (nearest && differenceOf(nearest, key));
    return { nearest, difference: difference && inLoop(difference, request) };
  });
  history.push(recordOf(program, own, request, count, found));
  if (history.length > MOST_RECORDS) history.shift();
  const what = ({ what, was, now }: Difference) => (was || now ? `${what}: was ${was}, now ${now}` : what);
  return {
    lines() {
      const { nearest, difference } = found();
      if (!difference) return [];
      const at = difference.at ? [`Differs At: ${difference.at}`] : [];
      return [`Differs From ${nearest?.hash}: ${what(difference)}`, ...at];
    },
    log() {
      if (!latest.length || request.internal || logged.has(key) || env('TSXLA_LOG') === 'quiet') return;
      if (request.name === undefined && count > MOST_LOGGED) return;
      const { difference } = found();
      if (!difference || !(isWarm(latest, request) || isLoop(count, difference.kind, request))) return;
      logged.add(key);
      const place = difference.at && `\n    at ${difference.at}`;
      const way = count < MOST_ADVICE ? `${place}\n    ${difference.fix}` : '';
      const total = plural(count + 1, 'program');
      notice(`${who(request, placeOf(request.source))} is compiled again (${total} now): ${what(difference)}${way}`);
    },
  };
}
/** The most programs of a line that reads that are logged: more are taken as intended. */
export const MOST_LOGGED = 16;

type Found = () => { readonly nearest: ProgramKey | undefined; readonly difference: Difference | undefined };
function recordOf(
  { key, inputs, outputs }: Program,
  own: KnownProgram,
  { name, cause, source }: Request,
  earlier: number,
  found: Found,
): CompileRecord {
  return {
    name,
    cause: CAUSES[cause],
    hash: key.hash,
    when: new Date(),
    at: placeOf(source),
    inputs,
    outputs,
    operations: key.nodeCount,
    earlier,
    get nearest() {
      return found().nearest?.hash;
    },
    get difference() {
      return found().difference;
    },
    get seconds() {
      return own.cache && own.seconds;
    },
    get cache() {
      return own.cache;
    },
  };
}
/** Calls `make` when the value is first needed, and then releases it. */
function once<T>(make: () => T): () => T {
  let [maker, value]: [(() => T) | undefined, T | undefined] = [make, undefined];
  return () => {
    if (maker) [value, maker] = [maker(), undefined];
    return value as T;
  };
}

export const who = ({ name, unnamed }: Request, at: string): string =>
  name && !unnamed ? name : `${name ? 'the step' : 'the read'} at ${at || 'an unknown place'}`;

const MOST_ADVICE = 4; // advice is printed for the first programs only
/** Whether a line is in a loop: it reads and compiles for the third time from the same calls. Another operation may be another tensor. */
const isLoop = (earlier: number, kind: DifferenceKind, { name }: Request): boolean =>
  name === undefined && earlier >= 2 && kind !== 'op' && kind !== 'inputs';

/** Whether warm-up is over: a function has run at least twice; for a line that only reads, one program has run three times. */
export function isWarm(known: readonly KnownProgram[], { name, cause }: Request): boolean {
  if (cause === 'pending') return false; // the function itself is explained
  if (name === undefined) return known.some((p) => p.executions >= 3);
  return known.reduce((n, p) => n + p.executions, 0) >= 2;
}

// ---- comparing

const nodes = ({ words, nodeCount, symbols }: ProgramKey): NodeFact[] => nodesOf(words, nodeCount, symbols);
/** The public name of an operation. */
const nameOf = (op: string): string => (op === 'case' ? 'cond' : op);
const opName = (n: NodeFact): string => ('op' in n ? nameOf(n.op.op) : 'input');
const typeOf = (n: NodeFact): string => ('op' in n ? n.op.types.join(', ') : String(n.given));

interface Given {
  readonly aval: Aval;
  /** Its index among the nodes. */
  readonly place: number;
}
const givenOf = (all: readonly NodeFact[]): Given[] =>
  all.flatMap((n, place) => ('given' in n ? [{ aval: n.given, place }] : []));
/** The arguments of a call by their names. Other inputs have names that change: where they were made. */
const argumentsOf = (all: readonly NodeFact[], { labels }: ProgramFacts): Map<string, Given> =>
  new Map(
    givenOf(all)
      .map((given, i) => [labels[i] ?? '', given] as const)
      .filter(([label]) => label.startsWith(ARGUMENT)),
  );

/** The known program with the most nodes in common, compared by position; the latest one among equals. */
export function nearestOf(key: ProgramKey, known: readonly ProgramKey[]): ProgramKey | undefined {
  const [mine, own] = [nodes(key), factsOf(key)];
  const given = argumentsOf(mine, own);
  let best: { key: ProgramKey; score: number } | undefined;
  for (const other of known) {
    const [theirs, facts] = [nodes(other), factsOf(other)];
    let score = -Math.abs(mine.length - theirs.length);
    mine.forEach((n, i) => {
      const m = theirs[i];
      if (m && opName(m) === opName(n)) score += typeOf(m) === typeOf(n) ? 2 : 1;
    });
    for (const part of ['roots', 'aliases', 'labels'] as const) if (String(facts[part]) === String(own[part])) score++;
    const others = argumentsOf(theirs, facts); // first: they are what the caller chose
    for (const [label, { aval }] of given) if (others.get(label)?.aval === aval) score += 3 * mine.length;
    if (!best || score >= best.score) best = { key: other, score };
  }
  return best?.key;
}

/** A value that was read after others, but could have been computed with them. */
function lateOf(key: ProgramKey, known: readonly ProgramKey[]): Difference | undefined {
  const { late } = factsOf(key);
  if (!known.length || !late || late.carried) return undefined;
  const what = 'it was described before the last program ran, which could have computed it';
  return { kind: 'together', what, was: '', now: '', at: late.at, fix: FIXES.together };
}

/** A graph that grows from program to program by the same number of operations. */
function growthOf(key: ProgramKey, known: readonly ProgramKey[]): Difference | undefined {
  const [a, b, c] = [...known.slice(-2), key].map((p) => p.nodeCount);
  if (c === undefined || c - b! !== b! - a! || c <= b!) return undefined;
  const [was, now] = [b, c].map((n) => plural(n!, 'operation'));
  const at = factsOf(key).late?.at ?? '';
  return { kind: 'growth', what: 'the graph grows', was: was!, now: now!, at, fix: FIXES.growth };
}

export function differenceOf(before: ProgramKey, after: ProgramKey): Difference | undefined {
  const found = flagDifference(factsOf(before), factsOf(after)) ?? graphDifference(before, after);
  return found && { ...found, fix: FIXES[found.kind] };
}
type Fixless = Omit<Difference, 'fix'>;

function flagDifference(a: ProgramFacts, b: ProgramFacts): Fixless | undefined {
  const name = Object.keys({ ...a.flags, ...b.flags }).find((k) => a.flags[k] !== b.flags[k]);
  if (!name) return undefined;
  const show = (x: ProgramFacts) => x.flags[name] ?? 'not set';
  return { kind: 'flag', what: `the flag ${name}`, was: show(a), now: show(b), at: '' };
}

function graphDifference(before: ProgramKey, after: ProgramKey): Fixless | undefined {
  const [a, b] = [nodes(before), nodes(after)];
  const [was, now] = [factsOf(before), factsOf(after)];
  return (
    argumentDifference(was, now, a, b) ??
    inputDifference(was, now, a, b) ??
    opDifference(now, a, b) ??
    resultDifference(was, now) ??
    shardingDifference(was, now)
  );
}

const kindOf = (was: Aval, now: Aval): DifferenceKind => (was.dtype === now.dtype ? 'shape' : 'dtype');
/** An argument of another type, wherever other inputs come and go. */
function argumentDifference(
  before: ProgramFacts,
  after: ProgramFacts,
  a: NodeFact[],
  b: NodeFact[],
): Fixless | undefined {
  const were = argumentsOf(a, before);
  for (const [what, { aval: now, place }] of argumentsOf(b, after)) {
    const was = were.get(what)?.aval;
    if (!was || was === now) continue;
    return { kind: kindOf(was, now), what, was: String(was), now: String(now), at: after.sources[place] ?? '' };
  }
  return undefined;
}

/** Inputs of other types, if their number is the same. */
function inputDifference(before: ProgramFacts, after: ProgramFacts, a: NodeFact[], b: NodeFact[]): Fixless | undefined {
  const [was, now] = [givenOf(a), givenOf(b)];
  if (was.length !== now.length) return undefined;
  const i = was.findIndex((x, k) => x.aval !== now[k]!.aval || before.labels[k] !== after.labels[k]);
  if (i < 0 || was[i]!.aval === now[i]!.aval) return undefined;
  const kind = kindOf(was[i]!.aval, now[i]!.aval);
  const what = after.labels[i] ?? `input ${i}`;
  const at = after.sources[now[i]!.place] ?? '';
  return { kind, what, was: String(was[i]!.aval), now: String(now[i]!.aval), at };
}

type Places = Pick<ProgramFacts, 'sources'> & Partial<Pick<ProgramFacts, 'labels'>>;
function opDifference({ sources, labels = [] }: Places, a: NodeFact[], b: NodeFact[]): Fixless | undefined {
  const length = Math.max(a.length, b.length);
  let number: Fixless | undefined; // reported if nothing else differs
  for (let i = 0; i < length; i++) {
    const [m, n] = [a[i], b[i]];
    if (m && n && same(m, n)) continue;
    const at = sources[Math.min(i, b.length - 1)] ?? '';
    if (m && n && 'op' in m && 'op' in n && m.op.op === n.op.op) {
      const what = opName(n);
      if (typeOf(m) !== typeOf(n)) {
        const kind = m.op.types[0]!.dtype === n.op.types[0]!.dtype ? 'shape' : 'dtype';
        const result = what === 'parameter' ? 'an input' : `the result of ${what}`;
        return { kind, what: result, was: typeOf(m), now: typeOf(n), at };
      }
      if (JSON.stringify(m.op.attrs) !== JSON.stringify(n.op.attrs)) {
        const inner = bodyDifference(m.op, n.op);
        if (inner) return inner;
        const [was, now] = showOptions(m.op, n.op);
        if (n.op.op !== 'constant') return { kind: 'option', what, was, now, at };
        number ??= { kind: 'constant', what: `a constant ${typeOf(n)}`, was, now, at };
        continue;
      }
    }
    if (sorted(a) === sorted(b))
      return { kind: 'order', what: 'the order of operations', was: show(m), now: show(n), at };
    const inputs = (all: readonly NodeFact[]) => givenOf(all).length;
    const [mGiven, nGiven] = [m, n].map((x) => x && 'given' in x);
    const kind = (mGiven || nGiven) && !(mGiven && nGiven) && inputs(a) !== inputs(b) ? 'inputs' : 'op';
    if (kind === 'inputs' && nGiven && inputs(b) > inputs(a)) {
      const label = labels[inputs(b.slice(0, i))];
      const [was, now] = [a, b].map((all) => plural(inputs(all), 'tensor'));
      return { kind, what: `the inputs (new: ${show(n).slice('input '.length)}, ${label})`, was: was!, now: now!, at };
    }
    return { kind, what: `operation ${i + 1}`, was: show(useOf(a, i)), now: show(useOf(b, i)), at };
  }
  return number;
}
/** The operation that uses a number in the code, whose name the number gets in messages. */
function useOf(all: NodeFact[], i: number): NodeFact | undefined {
  const n = all[i];
  if (!n || opName(n) !== 'constant') return n;
  return all.find((x) => 'op' in x && x.inputs.includes(i)) ?? n;
}
const same = (m: NodeFact, n: NodeFact): boolean =>
  'op' in m ? 'op' in n && m.op === n.op && String(m.inputs) === String(n.inputs) : 'given' in n && m.given === n.given;
const show = (n: NodeFact | undefined): string => (n ? `${opName(n)} ${typeOf(n)}` : 'nothing');

type Options = Readonly<Record<string, unknown>>;
const optionsOf = ({ attrs }: Signature): Options => (attrs ?? {}) as Options;
/** The names of the options that differ. */
const otherOptions = (a: Options, b: Options): string[] =>
  Object.keys({ ...a, ...b }).filter((k) => JSON.stringify(a[k]) !== JSON.stringify(b[k]));

/** The difference inside a loop, a branch or a checkpoint. */
function bodyDifference(a: Signature, b: Signature): Fixless | undefined {
  const bodies = (x: Signature) =>
    Object.values(optionsOf(x))
      .flat()
      .filter((part) => part instanceof Body);
  const [before, after] = [bodies(a), bodies(b)];
  for (const [i, body] of after.entries()) {
    const was = before[i];
    if (!was || was.toJSON() === body.toJSON()) continue;
    const [m, n] = [was, body].map(({ graph: { nodes, index } }) =>
      nodes.map((e): NodeFact => ({ op: e.signature, inputs: e.inputs.map((x) => index.get(x)!) })),
    );
    const found = opDifference({ sources: body.graph.nodes.map((e) => placeOf(e.source)) }, m!, n!);
    const place = `in the body of ${nameOf(b.op)}`;
    return found ? { ...found, what: `${found.what} ${place}` } : other(place);
  }
  return undefined;
}
const other = (place: string): Fixless => ({
  kind: 'outputs',
  what: `the results ${place} differ`,
  was: '',
  now: '',
  at: '',
});

/** The options that differ, as the user writes them. */
function showOptions(a: Signature, b: Signature): [was: string, now: string] {
  const [was, now] = [optionsOf(a), optionsOf(b)];
  if (b.op === 'slice') return [showSlice(was), showSlice(now)];
  const names = otherOptions(was, now);
  const isValue = b.op === 'constant' || names.length === 1;
  const show = (options: Options) =>
    names.map((name) => (isValue ? showOption(options[name]) : `${name} ${showOption(options[name])}`)).join(', ');
  return [show(was), show(now)];
}
/** [0:8, 4:16:2] */
const showSlice = (options: Options): string => {
  const { start, limit, step } = options as Readonly<Record<'start' | 'limit' | 'step', readonly number[]>>;
  return `[${start.map((from, d) => `${from}:${limit[d]}${step[d] === 1 ? '' : `:${step[d]}`}`).join(', ')}]`;
};
function showOption(x: unknown): string {
  if (Array.isArray(x)) return `[${x.map(showOption).join(', ')}]`;
  if (isPlain(x))
    return `{ ${Object.entries(x)
      .map(([k, v]) => `${k}: ${showOption(v)}`)
      .join(', ')} }`;
  return String(x);
}
const sorted = (all: NodeFact[]): string => all.map(show).sort().join();

/** The difference in shardings, if everything else is the same. */
function shardingDifference({ layout: a }: ProgramFacts, { layout: b, labels }: ProgramFacts): Fixless | undefined {
  const show = (sharding: Sharding | undefined) => (sharding ? String(sharding) : 'on one device');
  const difference = (what: string, was: Sharding | undefined, now: Sharding | undefined): Fixless | undefined =>
    was === now ? undefined : { kind: 'sharding', what, was: show(was), now: show(now), at: '' };
  for (const i of labels.keys()) {
    const found = difference(`the sharding of ${labels[i]}`, a?.parameters[i], b?.parameters[i]);
    if (found) return found;
  }
  for (const i of (b ?? a)?.results.keys() ?? []) {
    const found = difference(`the sharding of result ${i}`, a?.results[i], b?.results[i]);
    if (found) return found;
  }
  return undefined;
}

function resultDifference(a: ProgramFacts, b: ProgramFacts): Fixless | undefined {
  const results = (f: ProgramFacts) => plural(f.roots.length, 'result');
  if (String(a.roots) !== String(b.roots)) {
    const same = a.roots.length === b.roots.length;
    const text = (f: ProgramFacts) => (same ? `the operations ${f.roots}` : results(f));
    return { kind: 'outputs', what: 'the results of the program', was: text(a), now: text(b), at: '' };
  }
  const donated = (f: ProgramFacts) => plural(f.aliases.filter((x) => x >= 0).length, 'input');
  if (String(a.aliases) !== String(b.aliases))
    return { kind: 'donation', what: 'the donated inputs', was: donated(a), now: donated(b), at: '' };
  return undefined;
}
