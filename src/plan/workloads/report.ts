// The report of a plan: a table, explanations of what does not fit with remedies, and a recommendation.
import { bytes, columns, flops, plural, seconds } from '../../base/format.js';
import type { Estimate } from '../index.js';
import { sharesOf, showMesh } from './parallel.js';
import type { WorkloadPlan, WorkloadRow } from './plan.js';
import { WORKLOADS } from './table.js';

const GiB = (n: number): string => (n / 2 ** 30).toFixed(n < 10 * 2 ** 20 ? 4 : 2);
const rounded = (n: number): string => Math.round(n).toLocaleString('en-US');

const known = (n: number | undefined, show: (n: number) => string): string => (n ? show(n) : '');

type Column = readonly [title: string, cell: (row: WorkloadRow) => string];
/** The estimate of the program that runs repeatedly. */
const estimateOf = (row: WorkloadRow): Estimate | undefined => row.programs.at(-1)?.plan.estimate;
const COLUMNS: readonly Column[] = [
  ['TPU', (r) => r.tpu],
  ['mesh', (r) => showMesh(r.settings.mesh)],
  ['batch', batchOf],
  ['peak GiB', (r) => (r.peak ? `${GiB(r.peak)} of ${GiB(r.available)}` : '')],
  ['fits', fitOf],
  ['step', (r) => (r.stepSeconds ? seconds(r.stepSeconds) : '')],
  ['tokens/s', (r) => (r.tokensPerSecond ? rounded(r.tokensPerSecond) : '')],
  ['per chip', (r) => (r.tokensPerSecondPerChip ? rounded(r.tokensPerSecondPerChip) : '')],
  ['used', (r) => (r.utilisation === undefined ? '' : `${(100 * r.utilisation).toFixed(0)}%`)],
  ['work', (r) => known(estimateOf(r)?.flops, flops)],
  ['traffic', (r) => known(estimateOf(r)?.bytes, bytes)],
  ['collectives', (r) => collectivesOf(estimateOf(r))],
  ['compile', (r) => (r.compileSeconds ? seconds(r.compileSeconds) : '')],
];

/** '4', or '4 x 8' of eight groups of devices. */
function batchOf({ settings: { batch, mesh } }: Pick<WorkloadRow, 'settings'>): string {
  return sharesOf(mesh) > 1 ? `${batch} x ${sharesOf(mesh)}` : String(batch);
}

/** 'v6e-8, fsdp=8, batch 4' */
export const nameOf = (row: Pick<WorkloadRow, 'tpu' | 'settings'>): string =>
  [row.tpu, showMesh(row.settings.mesh), `batch ${batchOf(row)}`].filter(Boolean).join(', ');

/** 'yes', or the shortage; 'timed out' or 'failed' if it is unknown. */
export function fitOf(row: WorkloadRow): string {
  if (row.error) return row.timedOut ? 'timed out' : 'failed';
  return row.fits ? 'yes' : `no, by ${bytes(row.peak - row.available)}`;
}

/** '56, 1.2 GiB' */
export function collectivesOf(estimate: Estimate | undefined): string {
  const all = estimate?.collectives ?? [];
  const total = all.reduce((sum, c) => sum + c.bytes, 0);
  const count = all.reduce((sum, c) => sum + c.count, 0);
  return count ? `${count}, ${bytes(total)}` : '';
}

/** The table, with titles first. Empty columns are left out. */
export const tableOf = (rows: readonly WorkloadRow[]): string[][] => {
  const cells = COLUMNS.map(([title, cell]) => [title, ...rows.map(cell)]);
  const kept = cells.filter(([, ...column]) => column.some((text) => text));
  return ['', ...rows].map((_, i) => kept.map((column) => column[i]!));
};

export function titleOf({ model, workload, rows }: WorkloadPlan): string {
  const { seq, rank, accumulation, remat, dtype, newTokens } = rows[0]!.settings;
  const parts = [
    `${model.name}, ${workload}: ${WORKLOADS[workload].about}`,
    WORKLOADS[workload].trains ? `sequences of ${seq} tokens` : `prompts of ${seq} tokens and ${newTokens} more`,
    workload === 'recovery-lora' && `rank ${rank}`,
    accumulation > 1 && `${accumulation} batches a step`,
    WORKLOADS[workload].trains && `remat ${remat}`,
    dtype,
  ];
  return parts.filter(Boolean).join(', ');
}

/** A source line of this package, without the path of the package. */
export const shortSource = (source: string | undefined): string => source?.replace(/^.*\/(?:dist|src)\//, '') ?? '';

/** Explains why a row does not fit, with remedies. */
function explained(row: WorkloadRow): string {
  const plan = row.programs.find((p) => !p.plan.fits)?.plan;
  const head = nameOf(row);
  if (row.error) return `${head}: ${row.error}`;
  if (!plan) return '';
  const largest = plan.largest.map((b) => [bytes(b.bytes), b.shape, b.what, shortSource(b.source)]);
  const remedies = (row.remedies ?? []).map((r) => [
    r.what,
    r.peak ? `${bytes(r.peak)}, ${r.fits ? 'fits' : 'does not fit'}` : 'could not be compiled',
    r.flag,
  ]);
  return [
    `${head} needs ${bytes(plan.peak)}, but a device has only ${bytes(plan.available)}: ${bytes(plan.peak - plan.available)} too much`,
    ...(largest.length ? ['the largest buffers:', columns(largest)] : []),
    ...(remedies.length ? ['remedies that were tried:', columns(remedies)] : []),
  ].join('\n');
}

/** The recommendation: the best row, or what to do if none fits. */
export function recommendation({ rows, model, workload }: WorkloadPlan): string {
  const [best] = rows;
  const failed = rows.filter((row) => row.error);
  if (!best?.fits && failed.length) {
    const way = failed.some((row) => row.timedOut) ? 'allow more time with --timeout' : 'see the errors above';
    const others = failed.length < rows.length ? ', the others do not fit' : '';
    const what = plural(failed.length, 'combination');
    return `${model.name} ${workload}: ${what} could not be compiled, and may fit${others}: ${way}.`;
  }
  if (!best?.fits) {
    const helps = rows.flatMap((r) =>
      (r.remedies ?? []).filter((x) => x.fits).map((x) => `${nameOf(r)} with ${x.flag}`),
    );
    const way = helps.length ? `${helps[0]} fits` : 'more chips, a shorter --seq or a smaller model may fit';
    return `${model.name} ${workload} does not fit any of these; ${way}.`;
  }
  const room = `${bytes(best.peak)} of ${bytes(best.available)}`;
  const speed =
    best.tokensPerSecond && best.utilisation !== undefined
      ? `, at least ${seconds(best.stepSeconds!)} a step: at most ${rounded(best.tokensPerSecond)} tokens/s, ${(100 * best.utilisation).toFixed(0)}% of what its matrix units can do`
      : '';
  const others = rows.length > 1 ? `Of ${plural(rows.length, 'combination')}, take` : 'Take';
  return `${others} ${nameOf(best)}: it takes ${room} on each device${speed}.`;
}

export function reportOf(plan: WorkloadPlan): string {
  const reasons = plan.rows.map(explained).filter(Boolean);
  return [
    titleOf(plan),
    '',
    columns(tableOf(plan.rows), ''),
    ...reasons.flatMap((text) => ['', text]),
    '',
    recommendation(plan),
  ].join('\n');
}
