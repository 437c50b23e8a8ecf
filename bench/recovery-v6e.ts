// The memory guide of recovery LoRA for a TPU v6e-1, measured by the TPU's own compiler on a machine without one: npm run bench:recovery-v6e
// --base packed|trained: quantized weights that stay packed, or whose scales are learned; --compute dense; --row 1: only that one.
import { parseArgs } from 'node:util';
import { type Base, planRecovery, ROWS } from './recovery-case.js';

const { values } = parseArgs({
  options: { base: { type: 'string' }, compute: { type: 'string' }, row: { type: 'string' } },
});
const base = (values.base ?? 'materialized') as Base;
const compute = (values.compute ?? 'gather') as 'gather' | 'dense';
const rows = values.row ? [ROWS[Number(values.row) - 1]!] : ROWS;

const GUIDE = new Map(ROWS.map((row, i) => [row, ['~22GB', '~24GB', '~28GB'][i]!]));
const GiB = (bytes: number) => (bytes / 2 ** 30).toFixed(2);
console.log(`Qwen3-0.6B, L1024, K128+R64, ${base} base weights, ${compute} head; GiB on one v6e`);
console.log(
  '| LoRA | batch | accum | arguments | outputs | temporaries | **peak** | guide | compile s | TFLOP of one pass |',
);
console.log('|---|---|---|---|---|---|---|---|---|---|');
for (const row of rows) {
  const { memory, seconds, cost } = await planRecovery({ ...row, base, compute });
  const cells = [
    `r=${row.rank}`,
    row.batch,
    row.accumulation,
    ...[memory.arguments, memory.outputs, memory.temporaries].map(GiB),
    `**${GiB(memory.peak)}**`,
    GUIDE.get(row),
    seconds.toFixed(0),
    ((cost.flops ?? 0) / 1e12).toFixed(2),
  ];
  console.log(`| ${cells.join(' | ')} |`);
}
