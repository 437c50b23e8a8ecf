// A plan as a table and as a page. The plan is one that was asked for, kept (tsxla plan --model tiny --workload full
// --tpu v6e-4,v5e-1 --batch 12000 --seq 128 --no-remat --json): two rows fit, one does not.
import {
  guideHead,
  guideLine,
  guideReport,
  pageOf,
  recommendation,
  reportOf,
  type WorkloadPlan,
} from 'tsxla/workloads';
import { expect, test } from 'vitest';
import { golden } from '../../support.js';

const plan = JSON.parse(golden('plan/workload.json')) as WorkloadPlan;
const short = plan.rows.find((row) => !row.fits)!;

test('the table: what fits first, by tokens a second and chip; by how much it does not fit', () => {
  const [title, , head, ...lines] = reportOf(plan).split('\n');
  expect(title).toBe('tiny, full: every weight learns, sequences of 128 tokens, remat none, bf16');
  expect(head).toMatch(
    /^TPU +mesh +batch +peak GiB +fits +step +tokens\/s +per chip +used +work +traffic +collectives +compile$/,
  );
  expect(lines.slice(0, 3).map((line) => line.split(/ {2,}/)[0])).toEqual(['v6e-4', 'v6e-4', 'v5e-1']);
  const [first, second] = plan.rows;
  expect(first!.tokensPerSecondPerChip!).toBeGreaterThanOrEqual(second!.tokensPerSecondPerChip!);
  expect(lines[2]).toMatch(/no, by [\d.]+ GiB/);
});

test('why it does not fit: the ten largest buffers by line, and remedies that were tried', () => {
  const text = reportOf(plan);
  expect(short.programs[0]!.plan.largest).toHaveLength(10);
  expect(text).toMatch(/GiB +bf16\[2,12000,128,256\] .*models\/qwen3\.js:\d+/);
  for (const { what, fits } of short.remedies!)
    expect(text).toMatch(new RegExp(`${what} +[\\d.]+ GiB, ${fits ? 'fits' : 'does not fit'} +--`));
});

test('the recommended one in a sentence; if none fits, what would', () => {
  expect(recommendation(plan)).toMatch(
    /^Of 3 combinations, take v6e-4, \w+=4, batch 12000 x 4: it takes [\d.]+ GiB of 31.2 GiB on each device, at least [\d.]+ m?s a step: at most [\d,]+ tokens\/s, \d+% of what its matrix units can do\.$/,
  );
  expect(recommendation({ ...plan, rows: [short] })).toMatch(
    /^tiny full does not fit any of these; v5e-1, batch 12000 with --\S+.* fits\.$/,
  );
  const helpless = { ...short, remedies: [] };
  expect(recommendation({ ...plan, rows: [helpless] })).toContain('more chips, a shorter --seq or a smaller model may');
});

test('a compile that took too long says so, and not that nothing fits', () => {
  const error = 'libtpu compiling for v5e:1x1: no answer within 60 s';
  const late = { ...short, fits: false, programs: [], peak: 0, remedies: [], error, timedOut: true };
  const text = reportOf({ ...plan, rows: [late] });
  expect(text).toMatch(/^v5e-1 +12000 +timed out/m);
  expect(text).toContain(`v5e-1, batch 12000: ${error}`);
  expect(text).toMatch(
    /tiny full: 1 combination could not be compiled, and may fit: allow more time with --timeout\.$/,
  );
  expect(recommendation({ ...plan, rows: [short, { ...late, timedOut: false }] })).toBe(
    'tiny full: 1 combination could not be compiled, and may fit, the others do not fit: see the errors above.',
  );
  expect(text).not.toContain('fits none');
});

test("the guide's rows have the columns of its head, so that each is printed as it comes", () => {
  const [ours] = plan.rows;
  const kept = { ...short, remedies: [] };
  const row = { rank: 16, batch: 4, accumulation: 8, said: '~24GB', ours: ours!, kept };
  const [head] = guideHead().split('\n').slice(-1);
  const line = guideLine(row);
  for (const [title, cell] of [
    ['batch', '4 '],
    ['ours', `${(ours!.peak / 2 ** 30).toFixed(2)} GiB`],
    ['without remat', `${(kept.peak / 2 ** 30).toFixed(2)} GiB, too much`],
  ])
    expect(line.slice(head!.indexOf(title!)).startsWith(cell!), title).toBe(true);
  expect(guideReport([row, row]).split('\n').slice(-3)).toEqual([head, line, line]);
  expect(guideLine({ ...row, kept: { ...kept, error: 'x', timedOut: true } })).toContain('timed out');
});

test('the page stands alone: no script runs, nothing is fetched, and its data is the plan', () => {
  const page = pageOf(plan);
  const data = /<script type="application\/json" id="plan">(.*?)<\/script>/s.exec(page)![1]!;
  expect(JSON.parse(data)).toEqual(plan);
  const shown = page.replace(data, '');
  expect(shown).not.toMatch(/https?:|src=|@import|url\(/);
  expect(shown.match(/<script/g)).toHaveLength(1);
  for (const part of ['prefers-color-scheme:dark', 'name="viewport"', 'Roofline', 'What does not fit', 'class="mark"'])
    expect(shown).toContain(part);
  expect(shown.match(/<g class="roof/g)).toHaveLength(2); // of two generations, in three rows
});

test('bars are as long as what they show, and names are no markup', () => {
  const page = pageOf({ ...plan, model: { ...plan.model, name: '<b>&' } });
  expect(page).toContain('<h1>&lt;b&gt;&amp; <span>full</span></h1>');
  const [bar] = page.match(/<div class="bar bad">.*?<\/svg>/s)!;
  const widths = [...bar!.matchAll(/class="(\w+)" x="[\d.]+%" width="([\d.]+)%"/g)];
  const of = (kind: string) => Number(widths.find(([, k]) => k === kind)![2]);
  const { parts, available } = short.programs[0]!.plan;
  const mark = Number(/class="mark" x1="([\d.]+)%"/.exec(bar!)![1]);
  expect(of('activations') / mark).toBeCloseTo(parts.activations / available, 2);
});
