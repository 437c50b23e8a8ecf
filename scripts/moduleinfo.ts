// Replays PyTorch's ModuleInfo database and writes docs/moduleinfo.md. The cases: scripts/golden/moduleinfo.py.
//     python scripts/golden/moduleinfo.py FOLDER && npx tsx scripts/moduleinfo.ts FOLDER [PATTERN] [--log FILE]
// With a pattern only the cases whose key it finds are replayed. --log keeps outcomes, so that the database can be replayed in
// parts; the page is written when all of it was.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { readDatabase, replay, TOLERANCE } from '../test/nn/moduleinfo.js';
import { KNOWN } from '../test/nn/moduleinfo-known.js';

const { values, positionals } = parseArgs({ allowPositionals: true, options: { log: { type: 'string' } } });
const [folder, pattern = ''] = positionals;
if (!folder) throw new Error('npx tsx scripts/moduleinfo.ts FOLDER [PATTERN] [--log FILE]');
const database = await readDatabase(folder);
const { log } = values;
const outcomes = new Map<string, string | undefined>(
  log && existsSync(log)
    ? readFileSync(log, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as [string, string | undefined])
    : [],
);
const GROUP = 96;
const wanted = database.cases.filter((c) => new RegExp(pattern).test(c.key));
for (let i = 0; i < wanted.length; i += GROUP)
  for (const [key, wrong] of await replay(database, wanted.slice(i, i + GROUP))) {
    outcomes.set(key, wrong);
    if (log) appendFileSync(log, `${JSON.stringify([key, wrong])}\n`);
  }
const cases = database.cases.filter((c) => outcomes.has(c.key));
const isWhole = cases.length === database.cases.length;

const percent = (n: number, of: number) => `${((100 * n) / of).toFixed(1)}%`;
const modules = [...new Set(cases.map((c) => c.module))];
const rows = modules.map((module) => {
  const own = cases.filter((c) => c.module === module);
  const failed = own.filter((c) => outcomes.get(c.key));
  const reasons = new Set(failed.map((c) => KNOWN.find((k) => k.cases.test(c.key))));
  for (const c of failed) console.log(`${c.key}: ${outcomes.get(c.key)}`);
  const why = [...reasons].map((k) => (k ? `${k.kind}: ${k.why}` : 'not explained')).join('; ');
  return { module, total: own.length, passed: own.length - failed.length, why };
});
const [passed, total] = [rows.reduce((n, r) => n + r.passed, 0), rows.reduce((n, r) => n + r.total, 0)];
const stale = KNOWN.filter((k) => !cases.some((c) => k.cases.test(c.key) && outcomes.get(c.key)));
for (const { cases } of isWhole ? stale : []) console.log(`out of date: ${cases}`);
const dtypes = [...new Set(cases.map((c) => c.dtype))];
const whole = rows.filter((r) => r.passed === r.total).length;
const others = rows.filter((r) => r.module !== 'LinearCrossEntropyLoss');
const [passedOthers, totalOthers] = [others.reduce((n, r) => n + r.passed, 0), others.reduce((n, r) => n + r.total, 0)];
console.log(`${passed} of ${total} cases pass, ${whole} of ${rows.length} modules in whole`);
if (isWhole)
  writeFileSync(
    new URL('../docs/moduleinfo.md', import.meta.url),
    `# PyTorch's module database

The modules of \`tx.nn\` are replayed against ModuleInfo, the database that PyTorch tests its own modules with
(\`torch.testing._internal.common_modules.module_db\`, torch ${database.torch.replace(/\+.*/, '')}). A case is one
input of one module, in ${dtypes.join(' or ')}, in train mode and, where the modes differ, in eval mode. It passes if the names of the
state dict, the results, the gradients of inputs and parameters and the buffers after the call are torch's
(within ${dtypes.map((d) => `${TOLERANCE[d]} for ${d}`).join(' and ')}, relative to the size of the array's values).

**${passed} of ${total} cases pass (${percent(passed, total)}), ${whole} of ${rows.length} modules in whole.** Without
\`LinearCrossEntropyLoss\`, which alone has ${total - totalOthers} cases: ${passedOthers} of ${totalOthers}
(${percent(passedOthers, totalOthers)}).

Arguments are given as a program would be ported: those without a default by place, keyword arguments as one object of
options, \`None\` as \`null\`. A selection is committed (\`test/golden/moduleinfo\`) and runs with \`npm test\`. All of it:

    python scripts/golden/moduleinfo.py /tmp/moduleinfo --dtypes ${dtypes.join(',')}
    npx tsx scripts/moduleinfo.ts /tmp/moduleinfo

| module | pass | of | what does not |
|---|--:|--:|---|
${rows.map((r) => `| \`${r.module}\` | ${r.passed} | ${r.total} | ${r.why} |`).join('\n')}
`,
  );
process.exit(0);
