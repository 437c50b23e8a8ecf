// Observers of the runtime that report to the user: metrics, explanations of compiles, rules, debug output, dumps, progress, the
// search for NaNs. Side effect of importing this folder: connects them. The runtime only knows the events in runtime/events.ts.
import { checkTpu, type TpuName } from '../base/chips.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { addSink } from '../runtime/events.js';
import type { Program, Request } from '../runtime/program.js';
import { hasValue } from '../runtime/value.js';
import { printAnalysis, printCompilation, printExecution, printPostCompilation, saveMetrics } from './debug.js';
import { dumpCompiled, dumpCompiling, dumpRunning } from './dump.js';
import { describeProgram, explainCompile, logExplanation, noteCompiled, noteStarted } from './explain.js';
import { beginProgress, endProgress } from './progress.js';
import { recordEvents } from './registry.js';
import * as findings from './rules.js';
import { checkProgram } from './rules-compile.js';
import { beginWindows, noteEnd, noteRead, noteRun, noteTrace } from './rules-loop.js';
import { checkGraph } from './rules-products.js';
import { logClient, logLayout, logPlugin } from './setup.js';

export { type CompileRecord, type Difference, explain } from './explain.js';
export * as metrics from './metrics.js';
export * as debug from './nans.js';
export type { Finding, RuleName, RulesMode } from './rules.js';
/** The name of a TPU in the table of chips: 'v6e'. */
export type Chip = TpuName;

const analysisOf = ({ hash, inputs, outputs }: Program, { cause, name, source }: Request) => ({
  cause,
  name,
  hash,
  inputs,
  outputs,
  frames: source?.frames ?? [],
});

addSink(recordEvents);
addSink({
  span(kind, start, end, _bytes, request) {
    if (kind === 'trace') noteTrace(end - start);
    else if (kind === 'read') noteRead(request?.source, end - start);
  },
  clientStarting: logPlugin,
  clientStarted: logClient,
  stepStarted() {
    saveMetrics();
    printAnalysis();
  },
  programMissing(key, computation, client, request) {
    describeProgram(computation, request, key);
    checkProgram(key, computation, client, request);
  },
  compiling(program, computation, text, request) {
    const explanation = explainCompile(program, request);
    printCompilation(() => ({ ...analysisOf(program, request), notes: explanation.lines() }));
    dumpCompiling(program, computation, text, request);
    logLayout(computation, request);
    beginProgress(program, text, request);
  },
  compilerStarted: logExplanation,
  compiled(program, executable, request) {
    endProgress(program);
    noteCompiled(program);
    const { hash, tier, seconds } = program;
    printPostCompilation(() => ({ hash, memory: executable.memory(), cache: tier, compileSeconds: seconds }));
    return dumpCompiled(program, executable, request);
  },
  compileFailed: endProgress,
  running(program, request) {
    printExecution(() => analysisOf(program, request));
    dumpRunning(program, request);
    noteRun(program, request);
  },
  started: noteStarted,
  ran: (_program, request, start, end) => noteEnd(request, start, end),
});

/** tx.rules: the development rules, and the findings. docs/rules.md is the guide. */
export const rules = {
  /** 'warn' logs each finding once, 'error' throws a RuleError, 'off' disables the rules. Default: 'warn'. */
  get mode(): findings.RulesMode {
    return findings.settings().mode;
  },
  set mode(mode: findings.RulesMode) {
    findings.setMode(mode);
  },
  /** Rules that are not checked: `rules.ignored.add('reads')`. */
  get ignored(): Set<findings.RuleName> {
    return findings.settings().ignored;
  },
  findings: findings.findings,
  report: findings.report,
  /** Clears the findings, for a new start, such as after warm-up. */
  clear(): void {
    findings.clear();
    beginWindows();
  },
  /** Findings for computing these tensors on a TPU, which this machine need not have. Nothing is computed. */
  check(tensors: HasExpr | readonly HasExpr[], { chip }: { readonly chip: Chip }): findings.Finding[] {
    const roots = (Array.isArray(tensors) ? tensors : [tensors]).map((t: HasExpr) => t.expr);
    return checkGraph(collect(roots, hasValue), hasValue, checkTpu(chip));
  },
};
/** A tensor. */
interface HasExpr {
  readonly expr: Expr;
}
