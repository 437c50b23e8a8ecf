// Why a program was compiled: which known program is nearest to it, what differs first, and what to write instead.
import { env } from '../base/env.js';
import { plural } from '../base/format.js';
import { notice } from '../base/log.js';
import { Aval } from '../ir/aval.js';
import { type Graph, type NodeFact, nodesOf } from '../ir/graph.js';
import type { Sharding } from '../ir/mesh.js';
import { placeOf } from '../ir/source.js';
import { type Computation, keyOf, type Program, type ProgramKey, type Request } from '../runtime/program.js';
import type { Layout } from '../stablehlo/emitter.js';
import { CAUSES } from './debug.js';
import { ByGroup } from './groups.js';

/** What is kept of a program to compare others with. */
interface ProgramFacts {
  /** Where in the user's code each node was made. */
  readonly sources: readonly string[];
  /** What each given value is to the user, in the order of the given nodes. */
  readonly labels: readonly string[];
  /** Makes these texts now, and lets go of what they are made of: call sites hold on to the user's models. */
  settle(): void;
  readonly roots: readonly number[];
  readonly aliases: readonly number[];
  readonly flags: Readonly<Record<string, string>>;
  /** How inputs and results lie on several devices. */
  readonly layout: Layout | undefined;
}

/** Of every program that is or was needed, as long as its key is kept. */
const facts = new WeakMap<ProgramKey, ProgramFacts>();
export const factsOf = (key: ProgramKey): ProgramFacts => facts.get(key)!;

/** Keeps what programs are compared by; gives back the key. */
export function describeProgram(
  computation: Computation,
  request: Request,
  key = keyOf(computation, request),
): ProgramKey {
  facts.set(key, makeFacts(computation, request));
  return key;
}

function makeFacts({ graph, labels, aliases, layout }: Computation, { compileOptions = {} }: Request): ProgramFacts {
  const { xlaFlags = {}, ...others } = compileOptions;
  const flags = Object.entries({ ...xlaFlags, ...others });
  const places = graph.nodes.map((e) => e.source);
  const [sources, names] = [once(() => places.splice(0).map(placeOf)), once(labels)];
  return {
    // Made when they are asked for: most programs are never explained.
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
  };
}

/** By itself: a closure above would share its scope with those that stay, and keep the graph and all its values. */
const placesOfRoots = ({ roots, index }: Graph): number[] => roots.map((root) => index.get(root)!);

export type DifferenceKind = keyof typeof FIXES;
/** What to write instead. */
const FIXES = {
  shape:
    'every shape is a program of its own: pad the input to one of a few sizes (buckets), or leave the last short batch out',
  dtype: "bring it to one dtype before the call: x.to('f32')",
  constant:
    'a number in the code is part of the program: pass it as an argument of the compiled function, or keep it in a tensor and set that: lr.copy_(0.1)',
  option: 'the options of an operation are part of the program: keep them the same from step to step',
  op: 'the code went another way: choose with where() or cond() inside one program, or keep what the branch depends on',
  order: 'the same operations in another order are another program: make the order the same in every step',
  inputs: 'the step uses other tensors than before: create its state (moments, statistics) before the first step',
  outputs: 'the step leaves other results: return and change the same tensors in every step (gradients, too)',
  donation: 'the step changes other tensors in place than before: change the same ones in every step',
  growth:
    'what is computed hangs on all that was before: change tensors in place (w.sub_(...), under noGrad) instead of making new ones, and detach() what is kept',
  sharding:
    'how its inputs lie on devices is part of a program: split the same ones the same way in every step (markSharding, shardBatch)',
  flag: 'flags are part of a program: set them once, before the first step',
} as const;

export interface Difference {
  readonly kind: DifferenceKind;
  /** The input, operation, flag that differs. */
  readonly what: string;
  readonly was: string;
  readonly now: string;
  /** Where in the user's code: FILE:LINE, if it is known. */
  readonly at: string;
  readonly fix: string;
}

/** One compile, as the history keeps it. */
export interface CompileRecord {
  readonly name: string | undefined;
  readonly cause: string;
  readonly hash: string;
  readonly when: Date;
  /** Where the user's code called, FILE:LINE. */
  readonly at: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly operations: number;
  /** How many other programs the same function (or the same line) had. */
  readonly earlier: number;
  /** The nearest of them, and what differs from it first. */
  readonly nearest: string | undefined;
  readonly difference: Difference | undefined;
  /** Seconds it took, and which cache had it; undefined while it is compiled. */
  readonly seconds: number | undefined;
  readonly cache: 'disk' | 'miss' | undefined;
}

/** What is kept of a compiled program; not the program itself, whose executable would be kept with it. */
export interface Known {
  readonly key: ProgramKey;
  executions: number;
  seconds: number;
  /** Which cache had it; undefined while it is compiled. */
  cache: Program['tier'] | undefined;
}
interface Group {
  readonly latest: readonly Known[];
  readonly count: number;
}

const MOST_RECORDS = 1000;
const history: CompileRecord[] = [];
const MOST_LATEST = 32;
const NONE: Group = { latest: [], count: 0 };
/** The programs of each function, or line: the latest, and how many there were. */
const groups = new ByGroup<Group>();

/** Every compile so far, oldest first, with what differed from the nearest program that was known then. */
export const explain = (): readonly CompileRecord[] => history.map((r) => ({ ...r }));

/** The latest programs of the same function, or line. */
export const programsOf = (request: Request): readonly Known[] => (groups.get(request) ?? NONE).latest;

/** Why a program is compiled. */
interface Explanation {
  /** For the debug output. */
  lines(): string[];
  /** Logs it, once and after warm-up. */
  log(): void;
}
const EXPLAINED: Explanation = { lines: () => [], log() {} };
const known = new WeakMap<Program, Known>();
const explanations = new WeakMap<Program, Explanation>();
/** A rule has said already why it is compiled. */
const logged = new WeakSet<ProgramKey>();
export const markLogged = (key: ProgramKey): void => void logged.add(key);

/** Writes the compile down, and why it happens. */
export function explainCompile(program: Program, request: Request): Explanation {
  const earlier = explanations.get(program);
  if (earlier) return earlier; // it is compiled twice
  const explanation = explainNew(program, request);
  explanations.set(program, explanation);
  setImmediate(() => factsOf(program.key).settle()); // while XLA compiles
  return explanation;
}

/** XLA compiles it: no cache had it. */
export const logExplanation = (program: Program): void => explanations.get(program)?.log();

export function noteCompiled(program: Program): void {
  explanations.set(program, EXPLAINED); // the explanation holds on to the request
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
  const own: Known = { key, executions: 0, seconds: 0, cache: undefined };
  known.set(program, own);
  groups.set(request, { latest: [...latest, own].slice(-MOST_LATEST), count: count + 1 });
  const keys = latest.map((p) => p.key);
  const found = once(() => {
    const nearest = nearestOf(key, keys);
    return { nearest, difference: growthOf(key, keys) ?? (nearest && differenceOf(nearest, key)) };
  });
  history.push(recordOf(program, own, request, count, found));
  if (history.length > MOST_RECORDS) history.shift();
  const what = ({ what, was, now }: Difference) => `${what}: was ${was}, now ${now}`;
  return {
    lines() {
      const { nearest, difference } = found();
      if (!difference) return [];
      const at = difference.at ? [`Differs At: ${difference.at}`] : [];
      return [`Differs From ${nearest?.hash}: ${what(difference)}`, ...at];
    },
    log() {
      if (!latest.length || logged.has(key) || env('TSXLA_LOG') === 'quiet') return;
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
/** Programs of a line that reads, after which they are known, or meant. */
export const MOST_LOGGED = 16;

type Found = () => { readonly nearest: ProgramKey | undefined; readonly difference: Difference | undefined };
function recordOf(
  { key, inputs, outputs }: Program,
  own: Known,
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
/** Makes it when it is first needed, and releases `make`. */
function once<T>(make: () => T): () => T {
  let [maker, value]: [(() => T) | undefined, T | undefined] = [make, undefined];
  return () => {
    if (maker) [value, maker] = [maker(), undefined];
    return value as T;
  };
}

export const who = ({ name, unnamed }: Request, at: string): string =>
  name && !unnamed ? name : `${name ? 'the step' : 'what is read'} at ${at || 'an unknown place'}`;

const MOST_ADVICE = 4; // after so many programs the advice is known
/** A line that reads, and compiles for the third time from the same calls, is a loop; another operation may be another tensor. */
const isLoop = (earlier: number, kind: DifferenceKind, { name }: Request): boolean =>
  name === undefined && earlier >= 2 && kind !== 'op' && kind !== 'inputs';

/** A function has run at least twice; a line that only reads is a loop once one program ran three times. */
export function isWarm(known: readonly Known[], { name, cause }: Request): boolean {
  if (cause === 'pending') return false; // the function itself explains
  if (name === undefined) return known.some((p) => p.executions >= 3);
  return known.reduce((n, p) => n + p.executions, 0) >= 2;
}

// ---- comparing

const nodes = ({ words, nodeCount, symbols }: ProgramKey): NodeFact[] => nodesOf(words, nodeCount, symbols);
const opName = (n: NodeFact): string => ('op' in n ? n.op.op : 'input');
const typeOf = (n: NodeFact): string => ('op' in n ? n.op.types.join(', ') : String(n.given));

/** The one with the most nodes in common, place by place; of equals the latest. */
export function nearestOf(key: ProgramKey, known: readonly ProgramKey[]): ProgramKey | undefined {
  const [mine, own] = [nodes(key), factsOf(key)];
  let best: { key: ProgramKey; score: number } | undefined;
  for (const other of known) {
    const [theirs, facts] = [nodes(other), factsOf(other)];
    let score = -Math.abs(mine.length - theirs.length);
    mine.forEach((n, i) => {
      const m = theirs[i];
      if (m && opName(m) === opName(n)) score += typeOf(m) === typeOf(n) ? 2 : 1;
    });
    for (const part of ['roots', 'aliases', 'labels'] as const) if (String(facts[part]) === String(own[part])) score++;
    if (!best || score >= best.score) best = { key: other, score };
  }
  return best?.key;
}

/** A graph that gets longer from program to program, by the same number of operations. */
function growthOf(key: ProgramKey, known: readonly ProgramKey[]): Difference | undefined {
  const [a, b, c] = [...known.slice(-2), key].map((p) => p.nodeCount);
  if (c === undefined || c - b! !== b! - a! || c <= b!) return undefined;
  const [was, now] = [b, c].map((n) => plural(n!, 'operation'));
  return { kind: 'growth', what: 'the graph grows', was: was!, now: now!, at: '', fix: FIXES.growth };
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
    inputDifference(was, now, a, b) ??
    opDifference(now, a, b) ??
    resultDifference(was, now) ??
    shardingDifference(was, now)
  );
}

/** Inputs of other types, where their number is the same. */
function inputDifference(before: ProgramFacts, after: ProgramFacts, a: NodeFact[], b: NodeFact[]): Fixless | undefined {
  const given = (all: NodeFact[]) => all.flatMap((n, i) => ('given' in n ? [{ aval: n.given, place: i }] : []));
  const [was, now] = [given(a), given(b)];
  if (was.length !== now.length) return undefined;
  const i = was.findIndex((x, k) => x.aval !== now[k]!.aval || before.labels[k] !== after.labels[k]);
  if (i < 0 || was[i]!.aval === now[i]!.aval) return undefined;
  const kind = was[i]!.aval.dtype === now[i]!.aval.dtype ? 'shape' : 'dtype';
  const what = after.labels[i] ?? `input ${i}`;
  const at = after.sources[now[i]!.place] ?? '';
  return { kind, what, was: String(was[i]!.aval), now: String(now[i]!.aval), at };
}

function opDifference({ sources }: ProgramFacts, a: NodeFact[], b: NodeFact[]): Fixless | undefined {
  const length = Math.max(a.length, b.length);
  let number: Fixless | undefined; // if nothing else differs
  for (let i = 0; i < length; i++) {
    const [m, n] = [a[i], b[i]];
    if (m && n && same(m, n)) continue;
    const at = sources[Math.min(i, b.length - 1)] ?? '';
    if (m && n && 'op' in m && 'op' in n && m.op.op === n.op.op) {
      const what = `${n.op.op}`;
      if (typeOf(m) !== typeOf(n)) {
        const kind = m.op.types[0]!.dtype === n.op.types[0]!.dtype ? 'shape' : 'dtype';
        return { kind, what: `the result of ${what}`, was: typeOf(m), now: typeOf(n), at };
      }
      if (JSON.stringify(m.op.attrs) !== JSON.stringify(n.op.attrs)) {
        const constant = n.op.op === 'constant';
        const [was, now] = [showAttrs(m.op.attrs), showAttrs(n.op.attrs)];
        if (!constant) return { kind: 'option', what, was, now, at };
        number ??= { kind: 'constant', what: `a constant ${typeOf(n)}`, was, now, at };
        continue;
      }
    }
    if (sorted(a) === sorted(b))
      return { kind: 'order', what: 'the order of operations', was: show(m), now: show(n), at };
    const inputs = (all: NodeFact[]) => all.filter((x) => 'given' in x).length;
    const kind = m && n && 'op' in m !== 'op' in n && inputs(a) !== inputs(b) ? 'inputs' : 'op';
    return { kind, what: `operation ${i + 1}`, was: show(useOf(a, i)), now: show(useOf(b, i)), at };
  }
  return number;
}
/** A number in the code is named after the operation that uses it. */
function useOf(all: NodeFact[], i: number): NodeFact | undefined {
  const n = all[i];
  if (!n || opName(n) !== 'constant') return n;
  return all.find((x) => 'op' in x && x.inputs.includes(i)) ?? n;
}
const same = (m: NodeFact, n: NodeFact): boolean =>
  'op' in m ? 'op' in n && m.op === n.op && String(m.inputs) === String(n.inputs) : 'given' in n && m.given === n.given;
const show = (n: NodeFact | undefined): string => (n ? `${opName(n)} ${typeOf(n)}` : 'nothing');
const showAttrs = (attrs: unknown): string => {
  const fields = Object.entries((attrs ?? {}) as object).filter(([, value]) => !(value instanceof Aval));
  return fields.length === 1 ? String(fields[0]![1]) : JSON.stringify(Object.fromEntries(fields));
};
const sorted = (all: NodeFact[]): string => all.map(show).sort().join();

/** What lies elsewhere, where all else is the same. */
function shardingDifference({ layout: a }: ProgramFacts, { layout: b, labels }: ProgramFacts): Fixless | undefined {
  const show = (sharding: Sharding | undefined) => (sharding ? String(sharding) : 'on one device');
  const difference = (what: string, was: Sharding | undefined, now: Sharding | undefined): Fixless | undefined =>
    was === now ? undefined : { kind: 'sharding', what, was: show(was), now: show(now), at: '' };
  for (const i of labels.keys()) {
    const found = difference(`where ${labels[i]} lies`, a?.parameters[i], b?.parameters[i]);
    if (found) return found;
  }
  for (const i of (b ?? a)?.results.keys() ?? []) {
    const found = difference(`where result ${i} lies`, a?.results[i], b?.results[i]);
    if (found) return found;
  }
  return undefined;
}

function resultDifference(a: ProgramFacts, b: ProgramFacts): Fixless | undefined {
  const results = (f: ProgramFacts) => plural(f.roots.length, 'result');
  if (String(a.roots) !== String(b.roots)) {
    const same = a.roots.length === b.roots.length;
    const text = (f: ProgramFacts) => (same ? `the operations ${f.roots}` : results(f));
    return { kind: 'outputs', what: 'what the program leaves', was: text(a), now: text(b), at: '' };
  }
  const donated = (f: ProgramFacts) => plural(f.aliases.filter((x) => x >= 0).length, 'input');
  if (String(a.aliases) !== String(b.aliases))
    return { kind: 'donation', what: 'what is given up for its successor', was: donated(a), now: donated(b), at: '' };
  return undefined;
}
