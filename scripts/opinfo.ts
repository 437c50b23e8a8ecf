// Replays golden cases of PyTorch's operator database and prints what differs without a reason:
//   npx tsx scripts/opinfo.ts [FILE] [ENTRY ...] [--all] [--page] [--log FILE]
// FILE: test/golden/opinfo.gz (the selection) unless given. --all prints what has a reason, too; --page writes docs/opinfo.md;
// --log writes each outcome as a line of JSON; --outcomes reads them from such a file instead of replaying. PJRT_DEVICE=CUDA replays on a GPU.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readGolden } from '../test/opinfo/golden.js';
import { type Outcome, replay } from '../test/opinfo/replay.js';
import { judge, page, reasonFor, tally } from '../test/opinfo/report.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    log: { type: 'string' },
    outcomes: { type: 'string' },
  },
});
const readOutcomes = (log: string): Outcome[] =>
  readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Outcome);
const here = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const [file, ...only] = positionals;
const golden = readGolden(file ?? here('test/golden/opinfo.gz'));
const outcomes = values.outcomes
  ? readOutcomes(values.outcomes)
  : await replay(golden, {
      ...(only.length && { only }),
      each: (some) => {
        for (const o of some)
          if (o.wrong !== undefined && (values.all || only.length || reasonFor(o.entry, o.part) === undefined))
            console.log(`${o.entry} ${o.dtype} ${o.index} ${o.part}: ${o.wrong.split('\n')[0]}`);
      },
    });
if (values.log) writeFileSync(values.log, outcomes.map((o) => `${JSON.stringify(o)}\n`).join(''));
if (values.page) writeFileSync(here('docs/opinfo.md'), page(golden, outcomes));
for (const part of ['value', 'grad', 'grad2', 'error'] as const)
  for (const dtype of ['f32', 'i64', 'bool', 'error'] as const) {
    const { passed, all } = tally(outcomes.filter((o) => o.part === part && o.dtype === dtype));
    if (all) console.log(part, dtype, `${passed} of ${all}`);
  }
if (!only.length) for (const stale of judge(outcomes, Boolean(file)).stale) console.log(`no longer true: ${stale}`);
