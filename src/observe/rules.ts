// The development rules of XLA devices ("compile once, execute many"), watched while the program runs: what breaks one is a
// finding, with its place, what it costs, and what to write instead. docs/rules.md is the guide.
import { BoundedMap } from '../base/bounded.js';
import { env, isFirstProcess } from '../base/env.js';
import { ArgumentError, RuleError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { notice } from '../base/log.js';

/** Every rule, and what keeping it means. */
export const RULES = {
  shapes: 'an input has one shape, or one of a few',
  constants: 'what changes from step to step is a tensor or an argument, not a number in the code',
  reads: 'the loop does not wait for a value at every step',
  lanes: 'feature sizes fill the lanes of a TPU',
  precision: 'products are computed in bf16',
  dispatch: 'a step keeps the device busy for longer than it takes to start it',
} as const;
export type RuleName = keyof typeof RULES;

export interface Finding {
  readonly rule: RuleName;
  /** In the user's code, FILE:LINE; empty if it is not known. */
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
/** TSXLA_RULES says what they are at first. */
export const settings = (): Settings => (current ??= parse(env('TSXLA_RULES') ?? 'warn'));

function parse(text: string): Settings {
  const [mode, ...rest] = text.split(',');
  const ignored = rest.map((word) => word.replace(/^-/, ''));
  if (!isMode(mode!) || rest.some((word, i) => !word.startsWith('-') || !isRule(ignored[i]!))) {
    throw new ArgumentError(
      `TSXLA_RULES=${text} is not understood: ${MODES.join(', ')}, and after it rules to leave out: warn,-reads ` +
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

/** Whether anyone wants to know (0.01 us). */
export const isChecked = (rule?: RuleName): boolean => {
  const { mode, ignored } = settings();
  return mode !== 'off' && !(rule && ignored.has(rule));
};

/** How long something took depends on the machine: it is logged, and never thrown. */
const TIMED: ReadonlySet<RuleName> = new Set(['dispatch']);

const MOST_FINDINGS = 1000;
const found = new BoundedMap<string, Finding>(MOST_FINDINGS);
const said = new BoundedMap<string, true>(MOST_FINDINGS);

/**
 * A rule is broken: written down, and said once, or thrown if the mode is 'error'. `subject` is the function it is about: a
 * later finding about the same takes the place of the first. `quiet`: it has not cost enough yet to be said.
 * Gives back whether it was said now.
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

/** What was found so far. */
export const findings = (): Finding[] => [...found.values()];

/** The same as text. */
export function report(): string {
  if (!found.size) return `No rule was broken (${Object.keys(RULES).join(', ')}).\n`;
  const parts = findings().map(
    ({ rule, place, what, cost, fix }) =>
      `\n${rule}: ${RULES[rule]}\n  found: ${what}\n${place && `  at:    ${place}\n`}  cost:  ${cost}\n  fix:   ${fix}\n`,
  );
  return `${plural(found.size, 'finding')}\n${parts.join('')}`;
}

/** Forgets what was found; what was said is not said again. */
export const clear = (): void => found.clear();
