// Every row of the operations' tables under vmap, against a loop: npx tsx scripts/vmap-rows.ts [FAMILY ...]
// It takes long; npm test runs a selection (test/func/selected.ts).
import { casesOf, checkCases, nameOf } from '../test/func/rows.js';
import { tables } from '../test/ops/tables.js';

const only = process.argv.slice(2);
const TOGETHER = 16;
for (const table of tables) {
  if (only.length && !only.includes(table.family)) continue;
  const cases = await casesOf(table);
  let failed = 0;
  for (let i = 0; i < cases.length; i += TOGETHER)
    for (const [c, error] of await checkCases(cases.slice(i, i + TOGETHER))) {
      failed++;
      console.log(`${nameOf(c)}: ${error}`);
    }
  console.log(`${table.family}: ${cases.length - failed} of ${cases.length}`);
  if (failed) process.exitCode = 1;
}
