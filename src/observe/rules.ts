// The development rules of XLA devices ("compile once, execute many"), checked while the program runs: a violation is a finding
// with its place, its cost, and a fix. docs/rules.md is the guide.
import { BoundedMap } from '../base/bounded.js';
import { env, isFirstProcess } from '../base/env.js';
import { ArgumentError, RuleError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { notice } from '../base/log.js';

/** Every rule. */
export const RULES = {
  shapes: 'an input has one shape, or one of a few shapes',
  constants: 'values that change from step to step are tensors or arguments, not numbers in the code',
  reads: 'the loop does not wait for a value at every step',
  pending: 'each iteration of a loop is computed before the next one is described',
  lanes: 'feature sizes fill the lanes of a TPU',
  precision: 'products are computed in bf16',
  dispatch: 'a step keeps the device busy for longer than starting it takes',
  stale: 'a compiled function describes the same program at each call',
} as const;
export type RuleName = keyof typeof RULES;

export interface Finding {
  readonly rule: RuleName;
  /** FILE:LINE in the user's code; empty if not known. */
  readonly place: string;
  readonly what: string;
  readonly cost: string;
  readonly fix: string;
}

const MODES = ['warn', 'error', 'off'] as const;
export type RulesMode = (typeof MODES)[number];
interface Settings {
  mode: RulesMode;
  /** Rules that are not checked. */
  readonly ignored: Set<RuleName>;
}

let current: Settings | undefined;
/** The settings, initially from TSXLA_RULES. */
export const settings = (): Settings => (current ??= parse(env('TSXLA_RULES') ?? 'warn'));

function parse(text: string): Settings {
  const [mode, ...rest] = text.split(',');
  const ignored = rest.map((word) => word.replace(/^-/, ''));
  if (!isMode(mode!) || rest.some((word, i) => !word.startsWith('-') || !isRule(ignored[i]!))) {
    throw new ArgumentError(
      `TSXLA_RULES=${text} is not valid: write ${MODES.join(', ')}, and after it rules to leave out: warn,-reads ` +
        `(${Object.keys(RULES).join(', ')})`,
    );
  }
  return { mode, ignored: new Set(ignored as RuleName[]) };
}
const isMode = (x: string): x is RulesMode => (MODES as readonly string[]).includes(x);
const isRule = (x: string): x is RuleName => Object.hasOwn(RULES, x);

export function setMode(mode: RulesMode): void {
  if (!isMode(mode)) throw new ArgumentError(`rules.mode: ${mode} is not a mode: use ${MODES.join(', ')}`);
  settings().mode = mode;
}

/** Whether a rule, or any, is checked (0.01 us). */
export const isChecked = (rule?: RuleName): boolean => {
  const { mode, ignored } = settings();
  return mode !== 'off' && !(rule && ignored.has(rule));
};

/** Rules that depend on timings, and so on the machine: they are logged, and never thrown. */
const TIMED: ReadonlySet<RuleName> = new Set(['dispatch']);

const MOST_FINDINGS = 1000;
const found = new BoundedMap<string, Finding>(MOST_FINDINGS);
const said = new BoundedMap<string, true>(MOST_FINDINGS);

/**
 * Records a violation, and logs it once, or throws in mode 'error'. `subject` is the function concerned: a later finding for
 * the same one replaces the first. `quiet`: it has not cost enough yet to be logged. Returns whether it was logged now.
 */
export function broken(finding: Finding, subject: string, quiet = false): boolean {
  if (!isChecked(finding.rule)) return false;
  const key = `${finding.rule} ${subject}`;
  found.set(key, finding);
  if (settings().mode === 'error' && !TIMED.has(finding.rule)) throw new RuleError(describe(finding), finding.rule);
  if (quiet || said.has(key) || !isFirstProcess()) return false;
  said.set(key, true);
  notice(describe(finding));
  return true;
}

const describe = ({ rule, place, what, cost, fix }: Finding): string =>
  `rule ${rule}: ${what}: ${cost}${place && `\n    at ${place}`}\n    ${fix}`;

/** The findings so far. */
export const findings = (): Finding[] => [...found.values()];

/** The same as text. */
export function report(): string {
  if (!found.size) return `No findings (${Object.keys(RULES).join(', ')}).\n`;
  const parts = findings().map(
    ({ rule, place, what, cost, fix }) =>
      `\n${rule}: ${RULES[rule]}\n  found: ${what}\n${place && `  at:    ${place}\n`}  cost:  ${cost}\n  fix:   ${fix}\n`,
  );
  return `${plural(found.size, 'finding')}\n${parts.join('')}`;
}

/** Clears the findings; what was logged is not logged again. */
export const clear = (): void => found.clear();
