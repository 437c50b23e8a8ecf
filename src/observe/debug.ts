// PT_XLA_DEBUG: prints what is compiled and run, and why, in PyTorch/XLA's format, so that scripts for PyTorch/XLA's output can
// read it. Additions of ours are in places such scripts ignore: after the number of outputs, and below the computation's hash.
import { env, envFlag, envInteger, isFirstProcess } from '../base/env.js';
import { bytes, duration, seconds } from '../base/format.js';
import { appendTo, say } from '../base/log.js';
import type { Frame } from '../ir/source.js';
import type { MemoryStats } from '../pjrt/index.js';
import type { Cause } from '../runtime/program.js';
import { counter, report } from './metrics.js';
import { compiles, findMetric, type MetricName } from './registry.js';

/** Why a program is compiled or run. PyTorch/XLA guesses it from the stack; here the call itself reports it. */
export const CAUSES: Readonly<Record<Cause, string>> = {
  sync: 'user torch_xla.sync',
  step: "an optimizer's step(), which ends a step of a plain loop",
  compile: 'torch_xla.compile',
  pending: 'torch_xla.compile clear the pending graph prior calling the target function',
  loader: 'torch_xla.sync in parallel loader at step end',
  read: 'most likely user code trying to access tensor value before torch_xla.sync',
};

/** Lines beyond PyTorch/XLA's output, each printed if present. */
interface Additions {
  /** The cache that had the program. */
  readonly cache?: 'memory' | 'disk' | 'miss' | undefined;
  readonly compileSeconds?: number | undefined;
  /** Other lines, such as the differences from the nearest known program. */
  readonly notes?: readonly string[] | undefined;
}

export interface GraphAnalysis extends Additions {
  readonly cause: Cause;
  readonly name?: string | undefined;
  readonly hash: string;
  readonly inputs: number;
  readonly outputs: number;
  /** The user's stack frames, innermost first. */
  readonly frames: readonly Pick<Frame, 'function' | 'file' | 'line'>[];
}

export interface PostCompilationAnalysis extends Additions {
  /** The hash of the program's text. */
  readonly hash: string;
  /** Reported by the executable; a plugin may not know all of it. */
  readonly memory: Partial<MemoryStats>;
}

/** PT_XLA_DEBUG_LEVEL, or 100 if only PT_XLA_DEBUG=1 is set. Level 1 prints compiles, level 2 also executions. */
export function debugLevel(): number {
  const level = envInteger('PT_XLA_DEBUG_LEVEL', -1);
  return level === -1 && envFlag('PT_XLA_DEBUG') ? 100 : level;
}

const KINDS = {
  compilation: { prefix: 'Compilation Analysis: ', heading: 'Compilation Cause' },
  execution: { prefix: 'Execution Analysis: ', heading: 'Execution Cause' },
} as const;
export type AnalysisKind = keyof typeof KINDS;

const DOUBLE = '='.repeat(80);
const SINGLE = '-'.repeat(80);
const block = (prefix: string, lines: readonly string[]): string =>
  `\n${[DOUBLE, ...lines, SINGLE, DOUBLE].map((line) => `${prefix}${line}\n`).join('')}`;

function additions({ cache, compileSeconds, notes = [] }: Additions): string[] {
  return [
    ...(cache ? [`Cache: ${cache}`] : []),
    ...(compileSeconds === undefined ? [] : [`Compile Time: ${seconds(compileSeconds)}`]),
    ...notes.flatMap((note) => note.split('\n')),
  ];
}

/** A program that is about to be compiled or run. The trailing spaces are PyTorch/XLA's. */
export function describeGraph(kind: AnalysisKind, graph: GraphAnalysis): string {
  const { prefix, heading } = KINDS[kind];
  const { cause, name, hash, inputs, outputs, frames } = graph;
  const most = envInteger('PT_XLA_DEBUG_MAX_FRAME', 8, 0);
  return block(prefix, [
    heading,
    `  ${CAUSES[cause]}`,
    'Graph Info: ',
    ...(name ? [`  Graph Name: ${name}`] : []),
    `  Graph Hash: ${hash}`,
    `  Number of Graph Inputs: ${inputs}`,
    `  Number of Graph Outputs: ${outputs}`,
    ...additions(graph).map((line) => `  ${line}`),
    'Python Frame Triggered Execution: ',
    ...frames.slice(0, most).map((f) => `  ${f.function} (${f.file}:${f.line})`),
    ...(frames.length > most ? ['  ..........'] : []),
  ]);
}

const gigabytes = (n: number | undefined): string => `${n === undefined ? 'Unknown ' : (n / 1024 ** 3).toFixed(6)} GB`;

/** A program that was compiled, and the memory it needs on one device. */
export function describePostCompilation(program: PostCompilationAnalysis): string {
  const { hash, memory } = program;
  const peak = memory.peak ? [`Peak Memory: ${bytes(memory.peak)}`] : [];
  const about = [`Computation hash: ${hash}`, ...additions(program), ...peak];
  const table = block('Post Compilation Analysis: ', [
    `Graph input size: ${gigabytes(memory.arguments)}`,
    `Graph output size: ${gigabytes(memory.outputs)}`,
    `Aliased Input size: ${gigabytes(memory.aliased)}`,
    `Intermediate tensor size: ${gigabytes(memory.temporaries)}`,
    `Compiled program size: ${gigabytes(memory.code)}`,
  ]);
  return `\n${about.join('\n')}\n${table}`;
}

function print(text: string): void {
  const file = env('PT_XLA_DEBUG_FILE');
  if (file) appendTo('PT_XLA_DEBUG_FILE', file, text);
  else say(text);
}

/** Whether this level is printed. Checked before the text is made; costs 0.5 us. */
const isWanted = (level: number): boolean => debugLevel() >= level && isFirstProcess();

/** Before a compile. */
export function printCompilation(graph: () => GraphAnalysis): void {
  if (isWanted(1)) print(describeGraph('compilation', graph()));
}
/** After a compile. */
export function printPostCompilation(program: () => PostCompilationAnalysis): void {
  if (isWanted(1)) print(describePostCompilation(program()));
}
/** Before a run. */
export function printExecution(graph: () => GraphAnalysis): void {
  if (isWanted(2)) print(describeGraph('execution', graph()));
}
/** After a step: problems found in its metrics. */
export function printAnalysis(steps?: number): void {
  if (isWanted(1)) for (const line of analyse(steps)) print(`${line}\n`);
}

// ---- analysis of metrics

const PROFILER = 'pt-xla-profiler: ';
/** More than one in two steps, once there have been more steps than `warmUp`. */
const TOO_FREQUENT: readonly { name: MetricName; warmUp: number }[] = [
  { name: 'CompileTime', warmUp: 10 },
  { name: 'TransferFromDeviceTime', warmUp: 0 },
];
const TOO_SLOW: readonly { name: MetricName; seconds: number; advice: string }[] = [
  {
    name: 'CompileTime',
    seconds: 300,
    advice: 'Write equal layers as one tx.scan, which compiles one of them; PT_XLA_DEBUG_LEVEL=1 names each program.',
  },
  {
    name: 'ExecuteTime',
    seconds: 30,
    advice: 'Check that it runs on the intended device (tsxla doctor); PT_XLA_DEBUG_LEVEL=2 names each program.',
  },
];

/** Problems found in the metrics after these steps, one line for each. */
export function analyse(steps: number = counter('MarkStep') ?? 0): string[] {
  const frequent = TOO_FREQUENT.flatMap(({ name, warmUp }) => {
    const total = (findMetric(name)?.total ?? 0) - (name === 'CompileTime' ? compiles.first : 0);
    if (steps <= warmUp || total / steps <= 0.5) return [];
    return [`${PROFILER}${name} too frequent: ${total} counts during ${steps} steps`];
  });
  const slow = TOO_SLOW.flatMap(({ name, seconds, advice }) => {
    const longest = findMetric(name)?.values.reduce((a, b) => Math.max(a, b)) ?? 0;
    if (longest <= seconds * 1e9) return [];
    return [`${PROFILER}${name} too slow: longest instance took ${duration(longest)}. ${advice}`];
  });
  return [...frequent, ...slow];
}

/** Appends the report of a step to XLA_METRICS_FILE (a path, STDERR or STDOUT), if set. */
export function saveMetrics(step: number = counter('MarkStep') ?? 0): void {
  const file = env('XLA_METRICS_FILE');
  if (!file || !isFirstProcess()) return;
  const text = `[MetricsData; step=${step}]\n${report()}\n`;
  if (file === 'STDERR') process.stderr.write(text);
  else if (file === 'STDOUT') process.stdout.write(text);
  else appendTo('XLA_METRICS_FILE', file, text);
}
