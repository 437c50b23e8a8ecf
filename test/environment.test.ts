// Environment variables: those that the source reads, and those of the table of src/base/variables.ts.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { INTERNAL, VARIABLES } from '../dist/base/variables.js';
import { withVariables } from '../scripts/environment.js';

const root = path.join(import.meta.dirname, '..');
const table = Object.values(VARIABLES).flatMap((rows) => Object.keys(rows));

/** Families whose every quoted name is a variable, however it is read. */
const FAMILIES = /['"`]((?:TSXLA|XLA|PT_XLA|HF|HUGGINGFACE)_[A-Z0-9_]*[A-Z0-9])['"`]/g;
const READS = [
  /\benv(?:Flag|Integer|Seconds)?\(\s*'(\w+)'/g,
  /\bprocess\.env\.(\w+)/g,
  /\bprocess\.env\['(\w+)'\]/g,
  /\bos\.environ\.get\("(\w+)"/g,
  /\benv\['([A-Z]\w+)'\]/g,
];
/** Read by a name that is put together, or from a list: base/variables.ts has them by hand. */
const COMPOSED: readonly RegExp[] = [/^TSXLA_PLUGIN_(CPU|CUDA|MPS|TPU)$/];

function readIn(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(?<=^|\s)\/\/.*$/gm, '');
  return [FAMILIES, ...READS].flatMap((pattern) => [...code.matchAll(pattern)].map((m) => m[1]!));
}
const files = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter(
  (file) => /\.(ts|py)$/.test(file) && !/base\/variables\.ts$|board\/client/.test(file),
);
const sources = files.map((file) => readFileSync(path.join(root, 'src', file), 'utf8'));
const read = new Set(sources.flatMap(readIn));

test('what is read is in the table', () => {
  expect(read.size).toBeGreaterThan(50);
  const missing = [...read].filter((name) => !table.includes(name) && !(INTERNAL as readonly string[]).includes(name));
  expect(missing).toEqual([]);
});

test('what is in the table is read, or named where it is read', () => {
  expect(new Set(table).size).toBe(table.length);
  const named = (name: string) => sources.some((text) => new RegExp(`['"\`]${name}['"\`]`).test(text));
  const unread = [...table, ...INTERNAL].filter(
    (name) => !read.has(name) && !named(name) && !COMPOSED.some((pattern) => pattern.test(name)),
  );
  expect(unread).toEqual([]);
});

test('a variable that is read in any way would be found', () => {
  const text = `const a = env('TSXLA_NEW'); envInteger(\n 'NEW_SIZE', 1); process.env.OTHER; process.env['THIRD'];
    const NAME = 'XLA_BY_NAME'; x = os.environ.get("PY_NAME", 3) // env('IN_A_COMMENT')`;
  expect([...new Set(readIn(text))].sort()).toEqual([
    'NEW_SIZE',
    'OTHER',
    'PY_NAME',
    'THIRD',
    'TSXLA_NEW',
    'XLA_BY_NAME',
  ]);
});

test('docs/environment.md has the table (else: npx tsx scripts/environment.ts)', () => {
  expect(readFileSync(path.join(root, 'docs/environment.md'), 'utf8')).toBe(withVariables());
});
