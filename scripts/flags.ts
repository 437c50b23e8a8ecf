// Writes the table of flags in docs/recovery-lora.md: npx tsx scripts/flags.ts
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FLAGS, type Flag, flagOf } from '../dist/recovery/options.js';

const page = path.join(import.meta.dirname, '../docs/recovery-lora.md');
const [BEGIN, END] = ['<!-- flags: npx tsx scripts/flags.ts -->', '<!-- end of flags -->'];

const placeOf = ({ kind }: Flag): string =>
  typeof kind === 'object'
    ? ` ${kind.join('\\|')}`
    : { text: ' NAME', texts: ' FILES', number: ' X', whole: ' N', switch: '' }[kind];
const defaultOf = ({ otherwise, default: value }: Flag): string =>
  otherwise ?? (value === undefined || typeof value === 'boolean' ? '' : `\`${value}\``);
const nameOf = (name: string, { default: value }: Flag): string =>
  value === true ? flagOf(name).replace('--', '--no-') : flagOf(name);

function table(): string {
  const all = Object.entries(FLAGS as Readonly<Record<string, Flag>>);
  const groups = [...new Set(all.map(([, flag]) => flag.group))];
  return groups
    .map((group) => [group, all.filter(([, flag]) => flag.group === group)] as const)
    .flatMap(([group, rows]) => [
      `| **${group}** | | default |`,
      '|---|---|---|',
      ...rows.map(
        ([name, flag]) =>
          `| \`${nameOf(name, flag)}${placeOf(flag)}\` | ${flag.default === true ? flag.off : flag.text} | ${defaultOf(flag)} |`,
      ),
      '',
    ])
    .join('\n');
}

/** The page, with the table as it should be. */
export function withFlags(text = readFileSync(page, 'utf8')): string {
  const [before, rest] = text.split(BEGIN) as [string, string];
  return `${before}${BEGIN}\n${table()}${END}${rest.split(END)[1]}`;
}
if (process.argv[1] === import.meta.filename) writeFileSync(page, withFlags());
