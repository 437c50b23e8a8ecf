// Imports point down only: a folder may import what design lists for it, and nothing above.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

// From the bottom up. A folder may import itself and every folder on an earlier line, less the exceptions below.
const LAYERS = [
  ['base'],
  ['ir'],
  ['ops/prim', 'stablehlo', 'pjrt'],
  ['ops', 'plugins', 'plan/hlo'],
  ['autograd'],
  ['runtime'],
  ['observe'],
  ['tensor'],
  ['step'],
  ['spmd'],
  ['nn', 'optim', 'data', 'io', 'plan', 'xm'],
  ['models'],
  ['quant', 'lora', 'distill'],
  ['backend', 'train'],
  ['recovery'],
  ['plan/workloads'],
  ['cli'],
  ['.'], // src/index.ts: re-exports only
];
const ONLY: Readonly<Record<string, readonly string[]>> = {
  pjrt: ['base'],
  plugins: ['base', 'pjrt'],
  'plan/hlo': ['base', 'pjrt'],
  'ops/prim': ['base', 'ir'],
  ops: ['base', 'ir', 'ops/prim'],
  stablehlo: ['base', 'ir'],
  autograd: ['base', 'ir', 'ops/prim', 'ops'],
};

const level = (folder: string) => LAYERS.findIndex((l) => l.includes(folder));
/** The folder of LAYERS that a file belongs to: the longest one that is listed. */
function folderOf(file: string): string {
  const parts = path.dirname(file).split(path.sep);
  while (parts.length > 1 && level(parts.join('/')) < 0) parts.pop();
  return parts.join('/');
}
const src = path.resolve(import.meta.dirname, '../src');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));

function importsOf(file: string): { from: string; to: string }[] {
  const text = readFileSync(path.join(src, file), 'utf8');
  const from = folderOf(file);
  return [...text.matchAll(/from '(\.[^']*)'|import\('(\.[^']*)'\)/g)].map((m) => {
    const target = path.relative(src, path.resolve(src, path.dirname(file), m[1] ?? m[2]!));
    return { from, to: folderOf(target) };
  });
}

test('every folder of src has its place', () => {
  const folders = new Set(files.map(folderOf));
  expect([...folders].filter((f) => level(f) < 0)).toEqual([]);
});

test('imports point down only', () => {
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter(({ from, to }) => from !== to)
      .filter(({ from, to }) => !(ONLY[from]?.includes(to) ?? level(to) < level(from)))
      .map(({ to }) => `src/${file} imports ${to}/`),
  );
  expect(wrong).toEqual([]);
  expect(files.flatMap(importsOf).length).toBeGreaterThan(20); // the pattern still finds imports
});
