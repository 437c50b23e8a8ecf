// tx.rules: the development rules, and what broke them. docs/rules.md is the guide.
import { checkTpu, type TpuName } from './base/chips.js';
import { collect } from './ir/graph.js';
import * as runtime from './observe/rules.js';
import { beginWindows } from './observe/rules-loop.js';
import { checkGraph } from './observe/rules-products.js';
import { hasValue } from './runtime/value.js';
import { Tensor } from './tensor/index.js';

export type { Finding, RuleName, RulesMode } from './observe/rules.js';
/** A TPU of the table, by its name: 'v6e'. */
export type Chip = TpuName;

export const rules = {
  /** What a finding does: 'warn' says it once, 'error' throws a RuleError, 'off' looks for none. */
  get mode(): runtime.RulesMode {
    return runtime.settings().mode;
  },
  set mode(mode: runtime.RulesMode) {
    runtime.setMode(mode);
  },
  /** Rules that are not checked: `rules.ignored.add('reads')`. */
  get ignored(): Set<runtime.RuleName> {
    return runtime.settings().ignored;
  },
  findings: runtime.findings,
  report: runtime.report,
  /** Forgets what was found, to begin anew, as after warm-up. */
  clear(): void {
    runtime.clear();
    beginWindows();
  },
  /** What the computation of these tensors would waste on a TPU that is not here. Nothing is computed. */
  check(tensors: Tensor | readonly Tensor[], { chip }: { readonly chip: Chip }): runtime.Finding[] {
    const roots = (tensors instanceof Tensor ? [tensors] : tensors).map((t) => t.expr);
    return checkGraph(collect(roots, hasValue), hasValue, checkTpu(chip));
  },
};
