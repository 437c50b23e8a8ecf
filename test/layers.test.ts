// Imports point down only: a folder may import what design lists for it, and nothing above.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

// From the bottom up. A folder may import itself and every folder on an earlier line, less the exceptions below.
const LAYERS = [
  ['base'],
  ['ir'],
  ['ops', 'stablehlo', 'pjrt'],
  ['autograd', 'plugins', 'hlo'],
  ['runtime'],
  ['tensor'],
  ['spmd'],
  ['nn', 'optim', 'data', 'io', 'plan', 'ray', 'xm'],
  ['models'],
  ['quant', 'lora', 'distill'],
  ['backend', 'train'],
  ['recovery'],
  ['jobs'],
  ['cli'],
  ['.'], // src/index.ts: re-exports only
];
const ONLY: Readonly<Record<string, readonly string[]>> = {
  pjrt: ['base'],
  plugins: ['base', 'pjrt'],
  ray: ['base'],
  hlo: ['base', 'pjrt'],
  ops: ['base', 'ir'],
  stablehlo: ['base', 'ir'],
  autograd: ['base', 'ir', 'ops'],
};

const level = (folder: string) => LAYERS.findIndex((l) => l.includes(folder));
const src = path.resolve(import.meta.dirname, '../src');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));

function importsOf(file: string): { from: string; to: string }[] {
  const text = readFileSync(path.join(src, file), 'utf8');
  const from = path.dirname(file).split(path.sep)[0]!;
  return [...text.matchAll(/from '(\.[^']*)'|import\('(\.[^']*)'\)/g)].map((m) => {
    const target = path.relative(src, path.resolve(src, path.dirname(file), m[1] ?? m[2]!));
    return { from, to: path.dirname(target).split(path.sep)[0]! };
  });
}

test('every folder of src has its place', () => {
  const folders = new Set(files.map((f) => path.dirname(f).split(path.sep)[0]!));
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
