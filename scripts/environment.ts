// Writes the tables of docs/environment.md: npx tsx scripts/environment.ts
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { VARIABLES } from '../dist/base/variables.js';

const page = path.join(import.meta.dirname, '../docs/environment.md');
const [BEGIN, END] = ['<!-- variables: npx tsx scripts/environment.ts -->', '<!-- end of variables -->'];

const tables = (): string =>
  Object.entries(VARIABLES)
    .map(([group, rows]) =>
      [
        `## ${group}`,
        '',
        '| variable | meaning | default | page |',
        '|---|---|---|---|',
        ...Object.entries(rows).map(([name, { text, default: unset = '', page: of }]) => {
          const link = of ? `[${of.replace(/\.md.*/, '')}](${of})` : '';
          return `| \`${name}\` | ${text} | ${unset} | ${link} |`;
        }),
        '',
      ].join('\n'),
    )
    .join('\n');

/** The page, with the tables as they should be. */
export function withVariables(text = readFileSync(page, 'utf8')): string {
  const [before, rest] = text.split(BEGIN) as [string, string];
  return `${before}${BEGIN}\n\n${tables()}\n${END}${rest.split(END)[1]}`;
}
if (process.argv[1] === import.meta.filename) writeFileSync(page, withVariables());
