// Writes the tables of docs/backend.md from those in the code: npx tsx scripts/backend.ts
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CHANGES } from '../dist/backend/changes.js';
import { environmentName, FIELDS } from '../dist/backend/config.js';
import { batchGuidance, CHIPS } from '../dist/base/chips.js';
import { ERRORS, NAMES } from '../test/backend/names.js';

const page = path.join(import.meta.dirname, '../docs/backend.md');
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** The documents' own guidance, to compare. */
const THEIRS: Readonly<Record<string, string>> = { v4: '64-128', v5e: '128-256', v5p: '256-512+' };
const GiB = 2 ** 30;

const TABLES: Readonly<Record<string, () => string>> = {
  fields: () =>
    table(
      ['field', 'default', 'what it does', 'environment'],
      Object.entries(FIELDS).map(([name, { unset, about }]) => [
        `\`${name}\``,
        `\`${unset}\``,
        about,
        environmentName(name),
      ]),
    ),
  levels: () =>
    table(
      ['level', 'change', 'may differ by'],
      CHANGES.map(({ level, name, tolerance }) => [level, name, String(tolerance)]),
    ),
  batches: () =>
    table(
      ['TPU', 'HBM per device', 'rows where compute and memory balance', 'recommended minimum', 'the guide'],
      CHIPS.filter((chip) => chip.platform === 'tpu' && !['v2', 'v3'].includes(chip.name)).map((chip) => {
        const { rows, least } = batchGuidance(chip);
        const theirs = THEIRS[chip.name] ?? '';
        return [chip.name, `${chip.hbm.bytes / GiB} GiB`, String(rows), String(least), theirs];
      }),
    ),
  errors: () =>
    table(
      ['error', 'raised by'],
      Object.entries(ERRORS).map(([name, why]) => [`\`${name}\``, why]),
    ),
  names: () =>
    table(
      ['in the documents', 'here', 'tested in'],
      NAMES.map(([theirs, ours, test]) => [`\`${theirs}\``, `\`${ours}\``, `test/backend/${test}.test.ts`]),
    ),
};

/** The page, with the tables as they should be. */
export function withTables(text = readFileSync(page, 'utf8')): string {
  return Object.entries(TABLES).reduce((page, [name, make]) => {
    const pattern = new RegExp(`<!-- ${name} -->\\n(?:[^]*?<!-- end of ${name} -->\\n)?`);
    return page.replace(pattern, () => `<!-- ${name} -->\n${make()}\n<!-- end of ${name} -->\n`);
  }, text);
}
if (process.argv[1] === import.meta.filename) writeFileSync(page, withTables());
