// Runs cases in child processes with limits on time and memory, and says which case a death, a hang or a failure belongs to.
import { type ChildProcess, fork } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { FailureKind, Outcome, Report } from './child.js';
import { Random } from './random.js';
import { type MutantFiles, mutantOf, type Target, writeFiles } from './target.js';

const LIMITS = { seconds: 10, bytes: 2 ** 30 };
const HEAP = 900; // MiB: beyond it V8 ends the process
const START_SECONDS = 120; // for a child to load and to read the valid files
const BATCH = 2000; // cases in one process: garbage is no failure
const POLL = 50; // ms between looks at a child's memory

export interface FuzzOptions {
  readonly target: string;
  readonly cases: number;
  readonly seed: number;
  /** The number of the first case. Default: 0. */
  readonly first?: number;
  /** The folder for files that made a reader fail. Default: a new folder in the system's temporary one. */
  readonly keep?: string | undefined;
  /** Child processes at a time. Default: 2, or 1 on a machine with one core. */
  readonly jobs?: number | undefined;
  /** The module whose TARGETS has the target. Default: those of this folder. */
  readonly module?: string;
  /** For each case: how long it may take, and how much memory the process may have then. Default: 10 s and 1 GiB. */
  readonly limits?: Partial<typeof LIMITS>;
  /** Called with each failure that is unlike those before it. */
  readonly onFailure?: (failure: Failure) => void;
}

export interface Failure {
  readonly target: string;
  readonly seed: number;
  readonly case: number;
  readonly why: FailureKind;
  /** What was done to the files. */
  readonly what: string;
  readonly message: string;
  /** The folder with the files. */
  readonly kept: string;
  /** All cases that failed alike. */
  readonly cases: number[];
}

export interface FuzzResult {
  readonly target: string;
  readonly cases: number;
  readonly same: number;
  readonly refused: number;
  readonly changed: number;
  /** Failures that are unlike each other; each has the numbers of its cases. */
  readonly failures: readonly Failure[];
  /** Valid files that the reader refused: then the target tests little. */
  readonly refusedSeeds: readonly string[];
  readonly seconds: number;
}

interface Ended {
  readonly case: number;
  readonly what: string;
  readonly outcome: Outcome;
}
const failed = (why: FailureKind, message: string): Outcome => ({ is: 'failure', why, message });

export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const { module = import.meta.resolve('./targets.ts'), limits } = options;
  const under = { module, ...LIMITS, ...limits };
  const { target, cases, seed, first = 0, jobs = Math.min(2, os.availableParallelism()), onFailure } = options;
  const begin = performance.now();
  const counts = { same: 0, refused: 0, changed: 0 };
  const failures = new Map<string, Failure>();
  const refusedSeeds = new Set<string>();
  let { keep } = options;
  const keepFolder = (number: number): string => {
    keep ??= fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-fuzz-kept-'));
    return path.join(keep, `${target}-${seed}-${number}`);
  };

  const take = async ({ case: number, what, outcome }: Ended): Promise<void> => {
    if (outcome.is !== 'failure') {
      counts[outcome.is]++;
      return;
    }
    const key = `${outcome.why} ${signatureOf(outcome.why, outcome.message)}`;
    const known = failures.get(key);
    if (known) return void known.cases.push(number);
    const { why, message } = outcome;
    const failure = { target, seed, case: number, why, what, message, kept: keepFolder(number), cases: [number] };
    failures.set(key, failure);
    writeFiles(failure.kept, (await mutant(under, target, seed, number)).files);
    onFailure?.(failure);
  };
  const onSeed = (message: string) => refusedSeeds.add(message);

  const size = Math.ceil(cases / jobs);
  const runRange = async (from: number, to: number): Promise<void> => {
    for (let next = from; next < to; ) {
      const until = Math.min(to, next + BATCH);
      const { ended, stopped } = await runCases(under, target, seed, next, until, onSeed);
      for (const e of ended) await take(e);
      next = stopped ? stopped.case + 1 : until;
      if (!stopped) continue;
      // Alone, in a process of its own: another case, or a busy machine, may have been the reason.
      const { why, message } = stopped.outcome as Outcome & { is: 'failure' };
      if (failures.has(`${why} ${signatureOf(why, message)}`)) {
        await take(stopped);
        continue;
      }
      const alone = await runCases(under, target, seed, stopped.case, stopped.case + 1);
      const again = alone.stopped ?? alone.ended[0]!;
      const isSlow = why === 'hang';
      if (again.outcome.is === 'failure' || isSlow) await take(again);
      else await take({ ...stopped, what: `${again.what} (only after the cases from ${next} on)` });
    }
  };
  const ranges = Array.from(
    { length: jobs },
    (_, i) => [first + i * size, first + Math.min(cases, (i + 1) * size)] as const,
  );
  await Promise.all(ranges.map(([from, to]) => runRange(from, to)));
  const seconds = (performance.now() - begin) / 1000;
  return { target, cases, ...counts, failures: [...failures.values()], refusedSeeds: [...refusedSeeds], seconds };
}

/** What is alike in messages of the same failure: of errors, their name and where they come from; of others, no values. */
function signatureOf(why: FailureKind, message: string): string {
  const [first = '', ...rest] = message.split('\n');
  const frames = rest
    .filter((line) => /^\s+at .*\/(src|dist|scripts)\//.test(line))
    .map((line) => line.replace(/.*\//, ''));
  if (why === 'nameless error') return frames.slice(0, 2).join();
  if (frames.length) return `${/\w*Error/.exec(first)?.[0]} ${frames[0]}`;
  return first
    .replace(/ is .*/, ' is')
    .replace(/(['"`]).*?\1|\S*\/\S*|-?\d[\w.+-]*/g, '#')
    .slice(0, 60);
}

type Under = { readonly module: string } & typeof LIMITS;

/** The files of a case, made again. */
async function mutant({ module }: Under, target: string, seed: number, number: number): Promise<MutantFiles> {
  const { TARGETS } = (await import(module)) as { readonly TARGETS: readonly Target[] };
  const found = TARGETS.find((t) => t.name === target)!;
  return mutantOf(found, await found.make(), new Random(`${target} ${seed} ${number}`));
}

/** Runs cases in one child, up to the first that ends it. */
function runCases(
  { module, seconds, bytes: most }: Under,
  target: string,
  seed: number,
  from: number,
  to: number,
  onSeed?: (message: string) => void,
): Promise<{ readonly ended: Ended[]; readonly stopped?: Ended }> {
  return new Promise((resolve, reject) => {
    const child = fork(path.join(import.meta.dirname, 'child.ts'), [target, seed, from, to, module].map(String), {
      execArgv: ['--import', import.meta.resolve('tsx'), `--max-old-space-size=${HEAP}`],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, TSXLA_CACHE: 'off', NO_COLOR: '1' },
    });
    const ended: Ended[] = [];
    let current: { readonly case: number; readonly what: string } | undefined;
    let stopped: Ended | undefined;
    let output = '';
    let isDone = false;
    child.stderr!.on('data', (text) => {
      output = (output + text).slice(-8000);
    });
    const stop = (outcome: Outcome) => {
      if (current) stopped ??= { ...current, outcome };
      child.kill('SIGKILL');
    };
    const late = () => stop(failed('hang', `no answer within ${seconds} s`));
    let timer = setTimeout(late, START_SECONDS * 1000);
    const watch = setInterval(() => {
      const bytes = residentOf(child);
      if (bytes > most) stop(failed('memory', `${Math.round(bytes / 2 ** 20)} MiB are resident`));
    }, POLL);
    child.on('message', (report: Report) => {
      if (stopped) return;
      clearTimeout(timer);
      if (report.kind === 'seed refused') onSeed?.(report.message);
      else if (report.kind === 'begin') current = report;
      else if (report.kind === 'done') isDone = true;
      else {
        const { resident, reserved } = report.memory;
        const { case: number, what, outcome } = report;
        const told = { case: number, what, outcome };
        const much =
          resident > most ? `${resident >> 20} MiB were resident` : `${reserved / 2 ** 20} MiB were reserved`;
        if (Math.max(resident, reserved) <= most) ended.push(told);
        else {
          stopped = { ...told, outcome: failed('memory', much) };
          child.kill('SIGKILL');
        }
      }
      timer = setTimeout(late, (isDone || report.kind === 'begin' ? seconds : START_SECONDS) * 1000);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      clearInterval(watch);
      if (!isDone && current === undefined)
        return reject(new Error(`${target}: the valid files were not read (${signal ?? code}): ${lastLines(output)}`));
      const isMemory = /heap out of memory|Array buffer allocation failed/.test(output);
      if (!isDone && !stopped)
        stopped = {
          ...current!,
          outcome: failed(isMemory ? 'memory' : 'crash', `the process ended (${signal ?? code}): ${lastLines(output)}`),
        };
      return resolve({ ended, ...(stopped && { stopped }) });
    });
  });
}

/** What an uncaught error printed: the error and its stack. */
const lastLines = (output: string): string => {
  const at = output.search(/^\w*Error\b|FATAL/m);
  return output.slice(Math.max(0, at)).trim().slice(0, 3000);
};

/** Bytes; 0 where the system does not tell. */
function residentOf({ pid }: ChildProcess): number {
  try {
    return 4096 * Number(fs.readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  } catch {
    return 0;
  }
}
