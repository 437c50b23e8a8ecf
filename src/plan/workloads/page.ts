// A plan as a self-contained HTML page, without scripts or network. Charts are SVG in percent of the width, so that text keeps its
// size on a phone; the data is also in the page, as JSON.
import { bytes, flops, seconds } from '../../base/format.js';
import { escaped, jsonIn, pageWith } from '../../board/html.js';
import { PALETTE } from '../../board/style.js';
import { type Chip, PARTS, type Plan } from '../index.js';
import type { WorkloadPlan, WorkloadRow } from './plan.js';
import { fitOf, nameOf, recommendation, shortSource, tableOf, titleOf } from './report.js';
import { WORKLOADS } from './table.js';

/** A program of a row, as the charts show it. */
interface Shown {
  readonly label: string;
  readonly row: WorkloadRow;
  readonly plan: Plan;
}

const percent = (x: number): string => `${Math.max(0, Math.min(100, 100 * x)).toFixed(3)}%`;
const section = (title: string, note: string, body: string): string =>
  body && `<section><h2>${title}</h2><p class="note">${note}</p>${body}</section>`;

/** The HTML of the page. */
export function pageOf(plan: WorkloadPlan): string {
  const shown = plan.rows.flatMap((row) =>
    row.programs.map(
      (p): Shown => ({ label: nameOf(row) + (row.programs.length > 1 ? `, ${p.name}` : ''), row, plan: p.plan }),
    ),
  );
  const [best] = plan.rows;
  const body = `<main>
<header>
<p class="kicker">tsxla plan</p>
<h1>${escaped(plan.model.name)} <span>${escaped(plan.workload)}</span></h1>
<p class="note">${escaped(titleOf(plan))}</p>
<p class="advice${best?.fits ? '' : ' bad'}">${escaped(recommendation(plan))}</p>
</header>
${section('Combinations', 'Best first: those that fit, by tokens per second and chip. Times are lower bounds.', table(plan.rows))}
${section('Memory of one device at the peak', 'As allocated by XLA’s TPU compiler. The line is the memory that a program may use.', memory(shown, WORKLOADS[plan.workload].trains))}
${section('Time of one run', 'The time that arithmetic, memory and links would each take alone at their peaks; the full bar is the least time of the step.', times(shown))}
${section('Roofline', 'FLOPs per byte moved against FLOPs per second. A point under the slope is limited by memory, one under the flat part by arithmetic.', roofline(shown))}
${section('What does not fit', 'The largest buffers at the peak, and remedies: each was tried by compiling it.', shortages(plan.rows))}
${section('Where the time goes', `The heaviest kernels of ${best ? escaped(nameOf(best)) : ''}.`, heaviest(plan.rows))}
<footer>Figures come from ahead-of-time compiles by libtpu, without a TPU, and from a roofline over the optimized program with each chip’s published peaks.</footer>
</main>
<script type="application/json" id="plan">${jsonIn(plan)}</script>`;
  return pageWith({ title: `${plan.model.name} ${plan.workload}: plan`, body, style: STYLE }).html;
}

// ---- the table

function table(rows: readonly WorkloadRow[]): string {
  const [titles = [], ...lines] = tableOf(rows);
  return listed(titles, lines, (i) => ` class="${rows[i]!.fits ? 'fits' : 'not'}"`);
}

// ---- bars

interface Bar {
  readonly label: string;
  readonly value: string;
  readonly bad?: boolean;
  readonly pieces: readonly { readonly kind: string; readonly size: number; readonly title: string }[];
  /** The position of a line across the bar. */
  readonly mark?: { readonly at: number; readonly title: string };
}

const legend = (kinds: Readonly<Record<string, string>>): string =>
  `<ul class="legend">${Object.entries(kinds)
    .map(([kind, name]) => `<li><i class="${kind}"></i>${name}</li>`)
    .join('')}</ul>`;

/** Horizontal bars on a common scale from 0. */
function bars(list: readonly Bar[], names: Readonly<Record<string, string>>, unit: (n: number) => string): string {
  const most = 1.02 * Math.max(...list.map((b) => Math.max(b.mark?.at ?? 0, sum(b.pieces.map((p) => p.size)))));
  const drawn = list.map(({ label, value, pieces, mark, bad }) => {
    let from = 0;
    const rects = pieces.map(({ kind, size, title }) => {
      const rect = `<rect class="${kind}" x="${percent(from / most)}" width="${percent(size / most)}" y="3" height="20"><title>${escaped(title)}</title></rect>`;
      from += size;
      return rect;
    });
    const at = mark && percent(mark.at / most);
    const line = mark
      ? `<line class="mark" x1="${at}" x2="${at}" y1="0" y2="26"><title>${escaped(mark.title)}</title></line>`
      : '';
    return `<div class="bar${bad ? ' bad' : ''}"><div class="label"><b>${escaped(label)}</b><span>${escaped(value)}</span></div>
<svg role="img" aria-label="${escaped(`${label}: ${value}`)}" width="100%" height="26"><rect class="ground" width="100%" y="3" height="20" rx="2"/>${rects.join('')}${line}</svg></div>`;
  });
  const ends = `<div class="ends"><span>0</span><span>${escaped(unit(most / 2))}</span><span>${escaped(unit(most))}</span></div>`;
  const kinds = Object.entries(names).filter(([kind]) =>
    list.some((b) => b.pieces.some((p) => p.kind === kind && p.size)),
  );
  return legend(Object.fromEntries(kinds)) + drawn.join('\n') + ends;
}
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);

function memory(shown: readonly Shown[], trains: boolean): string {
  if (!shown.length) return '';
  const names = {
    weights: 'weights',
    state: trains ? 'optimizer' : 'keys and values',
    batch: 'batch',
    activations: 'kept for the backward pass',
    temporaries: 'temporaries',
    code: 'code',
  };
  const list = shown.map(
    ({ label, plan }): Bar => ({
      label,
      value: `${bytes(plan.peak)} of ${bytes(plan.available)}${plan.fits ? '' : `, ${bytes(plan.shortage!)} too much`}`,
      bad: !plan.fits,
      pieces: PARTS.map((kind) => ({
        kind,
        size: plan.parts[kind],
        title: `${names[kind]}: ${bytes(plan.parts[kind])}`,
      })),
      mark: { at: plan.available, title: `available: ${bytes(plan.available)}` },
    }),
  );
  return bars(list, names, bytes);
}

function times(all: readonly Shown[]): string {
  const shown = all.filter((s) => s.plan.estimate.seconds > 0);
  if (!shown.length) return '';
  const names = { compute: 'arithmetic', traffic: 'memory', links: 'links between chips' };
  const most = 1.02 * Math.max(...shown.map((s) => s.plan.estimate.seconds));
  const drawn = shown.map(({ label, plan: { estimate: e } }) => {
    const pieces = [
      ['compute', e.computeSeconds],
      ['traffic', e.memorySeconds],
      ['links', e.interconnectSeconds],
    ] as const;
    const rects = pieces.map(
      ([kind, s], i) =>
        `<rect class="${kind}" width="${percent(s / most)}" y="${2 + 8 * i}" height="7"><title>${names[kind]}: ${seconds(s)}</title></rect>`,
    );
    const value = `${seconds(e.seconds)}, ${(100 * e.utilisation).toFixed(0)}% used`;
    return `<div class="bar"><div class="label"><b>${escaped(label)}</b><span>${value}</span></div>
<svg role="img" aria-label="${escaped(`${label}: ${value}`)}" width="100%" height="27"><rect class="ground" width="${percent(e.seconds / most)}" y="0" height="27" rx="2"/>${rects.join('')}</svg></div>`;
  });
  const ends = `<div class="ends"><span>0</span><span>${seconds(most / 2)}</span><span>${seconds(most)}</span></div>`;
  return legend({ ...names, ground: 'the step' }) + drawn.join('\n') + ends;
}

// ---- the roofline

const HEIGHT = 300; // pixels
function roofline(shown: readonly Shown[]): string {
  const points = shown
    .map(({ label, row, plan: { estimate: e } }) => ({
      label,
      chip: row.topology.chip,
      x: e.flops / Math.max(1, e.bytes),
      y: e.flops / e.seconds,
    }))
    .filter((p) => p.x > 0 && p.y > 0);
  if (!points.length) return '';
  const chips = [...new Map(points.map((p) => [p.chip.name, p.chip])).values()];
  const colour = (chip: Chip) => `c${chips.findIndex((c) => c.name === chip.name) % 6}`;
  const ridge = (c: Chip) => c.peak.bf16 / c.hbm.bandwidth;
  const decade = (x: number, up: boolean) => (up ? Math.ceil(Math.log10(x)) : Math.floor(Math.log10(x)));
  const xs = [...points.map((p) => p.x), ...chips.map(ridge)];
  const ys = [...points.map((p) => p.y), ...chips.map((c) => c.peak.bf16)];
  const [left, right] = [decade(Math.min(...xs) * 0.7, false), decade(Math.max(...xs) * 1.4, true)];
  const [bottom, top] = [decade(Math.min(...ys) * 0.7, false), decade(Math.max(...ys) * 1.2, true)];
  const X = (x: number) => percent(0.02 + (0.96 * (Math.log10(x) - left)) / (right - left));
  const Y = (y: number) => (HEIGHT - 24 - ((HEIGHT - 44) * (Math.log10(y) - bottom)) / (top - bottom)).toFixed(1);
  const range = (a: number, b: number) => Array.from({ length: b - a + 1 }, (_, i) => 10 ** (a + i));
  const grid = [
    ...range(left, right).map(
      (x) =>
        `<line class="grid" x1="${X(x)}" x2="${X(x)}" y1="${Y(10 ** top)}" y2="${Y(10 ** bottom)}"/><text x="${X(x)}" y="${HEIGHT - 6}" text-anchor="${x === 10 ** right ? 'end' : x === 10 ** left ? 'start' : 'middle'}">${x >= 1 ? x.toLocaleString('en-US') : x}</text>`,
    ),
    ...range(bottom, top).map(
      (y) =>
        `<line class="grid" x1="2%" x2="98%" y1="${Y(y)}" y2="${Y(y)}"/><text class="y" x="2.4%" y="${Number(Y(y)) - 4}">${flops(y)}/s</text>`,
    ),
  ];
  const roofs = chips.map((chip, i) => {
    const low = Math.max(10 ** left, 10 ** bottom / chip.hbm.bandwidth);
    const title = `<title>${chip.name}: ${flops(chip.peak.bf16)}/s in bf16, ${bytes(chip.hbm.bandwidth)}/s</title>`;
    return `<g class="roof c${i % 6}"><line x1="${X(low)}" y1="${Y(low * chip.hbm.bandwidth)}" x2="${X(ridge(chip))}" y2="${Y(chip.peak.bf16)}">${title}</line>
<line x1="${X(ridge(chip))}" y1="${Y(chip.peak.bf16)}" x2="98%" y2="${Y(chip.peak.bf16)}">${title}</line></g>`;
  });
  const dots = points.map(
    ({ label, chip, x, y }, i) =>
      `<circle class="dot ${colour(chip)}" cx="${X(x)}" cy="${Y(y)}" r="9"><title>${escaped(`${label}: ${flops(y)}/s, ${x.toFixed(0)} FLOP a byte`)}</title></circle><text class="number" x="${X(x)}" y="${Number(Y(y)) + 4}">${i + 1}</text>`,
  );
  const names = chips.map((c, i) => `<li><i class="c${i % 6}"></i>${c.name}</li>`).join('');
  return `<ul class="legend">${names}</ul>
<svg class="plot" role="img" aria-label="roofline" width="100%" height="${HEIGHT}">${grid.join('')}${roofs.join('')}${dots.join('')}</svg>
<p class="axis">FLOP for each byte of HBM</p>
<ol class="points">${points.map((p) => `<li>${escaped(p.label)}</li>`).join('')}</ol>`;
}

// ---- lists

function listed(
  titles: readonly string[],
  lines: readonly (readonly string[])[],
  mark = (_line: number) => '',
): string {
  const cells = (tag: string, line: readonly string[]) => line.map((c) => `<${tag}>${escaped(c)}</${tag}>`).join('');
  return `<div class="scroll"><table><thead><tr>${cells('th', titles)}</tr></thead><tbody>${lines.map((l, i) => `<tr${mark(i)}>${cells('td', l)}</tr>`).join('')}</tbody></table></div>`;
}

function shortages(rows: readonly WorkloadRow[]): string {
  return rows
    .filter((row) => !row.fits)
    .map((row) => {
      const plan = row.programs.find((p) => !p.plan.fits)?.plan;
      const buffers = (plan?.largest ?? []).map((b) => [bytes(b.bytes), b.shape, b.what, shortSource(b.source)]);
      const remedies = (row.remedies ?? []).map((r) => [
        r.what,
        r.peak ? bytes(r.peak) : '',
        r.peak ? (r.fits ? 'fits' : 'does not fit') : 'could not be compiled',
        r.flag,
      ]);
      return `<h3>${escaped(nameOf(row))}: ${escaped(row.error ?? fitOf(row))}</h3>
${remedies.length ? listed(['remedy', 'peak', '', 'flag'], remedies) : ''}
${buffers.length ? listed(['bytes', 'array', 'what', 'where'], buffers) : ''}`;
    })
    .join('\n');
}

function heaviest([best]: readonly WorkloadRow[]): string {
  const kernels = best?.programs.at(-1)?.plan.estimate.heaviest ?? [];
  const total = best?.programs.at(-1)?.plan.estimate.seconds ?? 1;
  const lines = kernels.map((k) => [
    seconds(k.seconds),
    `${((100 * k.seconds) / total).toFixed(1)}%`,
    String(k.times),
    k.name,
    shortSource(k.source),
  ]);
  return lines.length ? listed(['time', 'of all', 'runs', 'kernel', 'where'], lines) : '';
}

/** In addition to the stylesheet of all pages. */
const STYLE = `
h3{color:var(--bad)}
.advice{margin:16px 0 0;padding:12px 16px;border-left:4px solid var(--good);background:var(--card);border-radius:0 8px 8px 0}
.advice.bad{border-color:var(--bad)}
tr.fits td:first-child,tr.not td:first-child{font-weight:600}
tr.not td{color:var(--bad)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 12px;padding:0;list-style:none;color:var(--soft);font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;margin-right:6px;border-radius:2px;vertical-align:-1px}
.bar{margin-top:10px}
.label{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 12px;font-size:13.5px;font-variant-numeric:tabular-nums}
.label b{font-weight:600}.label span{color:var(--soft)}
.bar.bad .label span{color:var(--bad)}
.ends{display:flex;justify-content:space-between;margin-top:4px;color:var(--soft);font-size:12px}
.axis{margin:2px 0 0;text-align:center;color:var(--soft);font-size:12px}
svg{display:block}
.ground{fill:var(--ground);background:var(--ground)}
.mark{stroke:var(--mark);stroke-width:2}
.grid{stroke:var(--line)}
.plot text{fill:var(--soft);font-size:11px}
.roof line{fill:none;stroke-width:2;stroke-linecap:round}
.plot .number{fill:#fff;font-weight:600;text-anchor:middle}
.points{display:flex;flex-wrap:wrap;gap:2px 34px;margin:10px 0 0;padding-left:18px;color:var(--soft);font-size:13px}
.dot{stroke:var(--card);stroke-width:2}
${Object.entries({
  weights: PALETTE[0]!,
  state: PALETTE[3]!,
  batch: PALETTE[2]!,
  activations: PALETTE[1]!,
  temporaries: PALETTE[4]!,
  code: '#9498a0',
  compute: PALETTE[0]!,
  traffic: PALETTE[1]!,
  links: PALETTE[3]!,
  ...Object.fromEntries(PALETTE.map((color, i) => [`c${i}`, color])),
})
  .map(([kind, color]) => `.${kind}{fill:${color};background:${color};stroke:${/^c\d/.test(kind) ? color : 'none'}}`)
  .join('\n')}
`;
