// Counts of a replay, what is not explained or no longer true in the table of reasons, and the page docs/opinfo.md.
import { type Entry, type Golden, type Sampled, titleOf } from './golden.js';
import { REASONS } from './reasons.js';
import type { Outcome, Part } from './replay.js';

export interface Tally {
  readonly passed: number;
  readonly all: number;
}
export const tally = (outcomes: readonly Outcome[]): Tally => ({
  passed: outcomes.filter((o) => o.wrong === undefined).length,
  all: outcomes.length,
});
const show = ({ passed, all }: Tally): string => (all ? (passed === all ? `${all}` : `${passed} of ${all}`) : '');
const percent = ({ passed, all }: Tally): string => `${((100 * passed) / all).toFixed(1)}%`;

/** What is said of an entry's part. */
export const reasonFor = (entry: string, part: Part): string | undefined =>
  REASONS.find((r) => r.parts.includes(part) && r.entries.includes(entry))?.why;

/** Failures without a reason, and reasons without a failure. `whole`: all samples were replayed, not a selection. */
export function judge(outcomes: readonly Outcome[], whole: boolean): { unexplained: string[]; stale: string[] } {
  const [seen, failing] = [new Set<string>(), new Map<string, Outcome>()];
  for (const o of outcomes) {
    const key = `${o.entry} ${o.part}`;
    seen.add(key);
    if (o.wrong !== undefined && !failing.has(key)) failing.set(key, o);
  }
  const unexplained = [...failing.values()]
    .filter((o) => reasonFor(o.entry, o.part) === undefined)
    .map((o) => `${o.entry} ${o.part} (${o.dtype} ${o.index}): ${o.wrong}`);
  const stale = REASONS.filter((r) => whole || !r.rare).flatMap((r) =>
    r.entries.flatMap((entry) =>
      r.parts
        .filter((part) => seen.has(`${entry} ${part}`) && !failing.has(`${entry} ${part}`))
        .map((part) => `${entry} ${part}: ${r.why}`),
    ),
  );
  return { unexplained, stale };
}

const SAMPLED: readonly Sampled[] = ['f32', 'i64', 'bool'];

/** docs/opinfo.md */
export function page(golden: Golden, outcomes: readonly Outcome[]): string {
  const of = (part: Part, dtype?: string) => outcomes.filter((o) => o.part === part && (!dtype || o.dtype === dtype));
  const line = (what: string, t: Tally) => `| ${what} | ${t.passed} | ${t.all} | ${percent(t)} |`;
  const absent = new Set(outcomes.filter((o) => o.absent && o.part === 'value').map((o) => o.entry));
  const present = outcomes.filter((o) => !absent.has(o.entry));
  const byEntry = new Map<string, Outcome[]>();
  for (const o of outcomes) byEntry.set(o.entry, [...(byEntry.get(o.entry) ?? []), o]);
  const most = Math.max(...golden.entries.flatMap((e) => Object.values(e.dtypes).map((s) => s.cases.length)));
  return `${[
    "# PyTorch's operator database",
    '',
    `torch ${golden.version} tests its operators with a database of sample inputs, OpInfo (\`op_db\`). This page replays it here:`,
    'values, dtypes, shapes, gradients, and the inputs that must be refused. It is generated:',
    '',
    '```sh',
    'python scripts/golden/opinfo.py test/golden/opinfo-all.gz   # torch answers',
    'npx tsx scripts/opinfo.ts test/golden/opinfo-all.gz --page  # this page',
    '```',
    '',
    `- ${golden.entries.length} entries are functions of PyTorch's documented API; ${golden.private.length} others (\`torch.ops\`, \`_name\`, undocumented ones) are left out.`,
    `- At most ${most} samples of an entry and dtype, spread over its list; tensors of at most 20,000 elements.`,
    "- A value may differ by the database's tolerance for it, else by that of `torch.testing.assert_close`, plus three times the",
    '  distance of torch in f32 from torch in f64. Random results are compared by dtype and shape.',
    '- Gradients are those of a sum of all results with fixed factors; second order is the gradient of such a sum of gradients,',
    '  where torch has it. An input without a gradient has zeros.',
    '- An input that torch refuses must be refused here by a `TsxlaError`.',
    '- `npm test` replays a selection: one or two samples of each entry and dtype.',
    '',
    '| all entries | pass | of | |',
    '| --- | --- | --- | --- |',
    line('samples: f32, i64, bool', tally(of('value'))),
    ...SAMPLED.map((d) => line(`samples: ${d}`, tally(of('value', d)))),
    line('gradients', tally(of('grad'))),
    line('second order', tally(of('grad2'))),
    line('error inputs', tally(of('error'))),
    line(
      `samples of the ${golden.entries.length - absent.size} functions that are here`,
      tally(present.filter((o) => o.part === 'value')),
    ),
    '',
    'A number alone: all pass. Samples that are skipped: torch itself fails on a copy of them, or they need sparse tensors, other',
    'devices or Python functions.',
    '',
    '| entry | f32 | i64 | bool | gradients | second | errors | what differs |',
    '| --- | --- | --- | --- | --- | --- | --- | --- |',
    ...golden.entries.map((entry) => row(entry, byEntry.get(titleOf(entry)) ?? [])),
  ].join('\n')}\n`;
}

function row(entry: Entry, outcomes: readonly Outcome[]): string {
  const title = titleOf(entry);
  const cell = (part: Part, dtype?: string) =>
    show(tally(outcomes.filter((o) => o.part === part && (!dtype || o.dtype === dtype))));
  const parts: readonly Part[] = ['value', 'grad', 'grad2', 'error'];
  const failing = parts.filter((part) => outcomes.some((o) => o.part === part && o.wrong !== undefined));
  const why = [...new Set(failing.map((part) => reasonFor(title, part) ?? 'not explained'))].join('; ');
  const cells = [...SAMPLED.map((d) => cell('value', d)), cell('grad'), cell('grad2'), cell('error')];
  return `| ${title} | ${cells.join(' | ')} | ${why} |`;
}
