// Chooses the rows of the operations' tables that the quick suite runs under vmap: test/func/selected.ts. npx tsx scripts/func-rows.ts
import { writeFileSync } from 'node:fs';
import { casesOf, described, nameOf } from '../test/func/rows.js';
import { batchedNames } from '../test/func/watch.js';
import { tables } from '../test/ops/tables.js';

interface Found {
  readonly family: string;
  readonly name: string;
  readonly size: number;
  /** Whether no dimension is 1 or 0: there, a rule that takes the wrong one would not be noticed. */
  readonly telling: boolean;
  readonly names: Set<string>;
}
const found: Found[] = [];
for (const table of tables)
  for (const c of await casesOf(table)) {
    const { names } = await batchedNames(() => {
      try {
        described(c);
      } catch {}
    });
    const size = c.row.inputs.reduce((n, i) => n + i.shape.reduce((a, b) => a * b, 1), 0);
    const telling = c.row.inputs.every(({ shape }) => shape.length > 0 && shape.every((n) => n > 1));
    if (size < 200) found.push({ family: table.family, name: nameOf(c), size: size + 20 * names.size, telling, names });
  }
const all = new Set(found.flatMap((f) => [...f.names]));
// Each primitive with all inputs stacked; and with one alone those whose rules ask which are.
const ASKS = ['dotGeneral', 'convolution', 'gather', 'scatter', 'pad', 'attention', 'attentionBackward'];
const need = new Set([...[...all].map((n) => `${n}|all`), ...ASKS.map((n) => `${n}|alone`)]);
const offers = (f: Found) => [...f.names].map((n) => `${n}|${/ alone$/.test(f.name) ? 'alone' : 'all'}`);
for (const n of need) if (!found.some((f) => offers(f).includes(n))) need.delete(n);
const chosen: Record<string, string[]> = {};
for (const among of [found.filter((f) => f.telling), found]) {
  for (;;) {
    const score = (f: Found) => offers(f).filter((n) => need.has(n)).length / (f.size + 30);
    const best = among.reduce((a, b) => (score(b) > score(a) ? b : a));
    if (!score(best)) break;
    for (const n of offers(best)) need.delete(n);
    (chosen[best.family] ??= []).push(best.name);
  }
}
console.log(all.size, 'primitives', Object.values(chosen).flat().length, 'cases');
const text = `// Rows of the operations' tables in which every primitive of an operation is batched: with all inputs stacked, and with one
// alone. Chosen for their size.
export const selected: Readonly<Record<string, readonly string[]>> = ${JSON.stringify(chosen, null, 2)};
`;
writeFileSync(new URL('../test/func/selected.ts', import.meta.url), text);
