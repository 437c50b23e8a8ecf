// Imports point down only, and files do not load each other in a circle: the order is in scripts/folders.ts.
import { expect, test } from 'vitest';
import { cyclesOf, folderGraph, importsOf, readSources, valueGraph, wrongImports } from '../scripts/folders.js';

const sources = readSources();

test('every folder of src has its place, and imports point down only', () => {
  expect(wrongImports(sources)).toEqual([]);
  expect(cyclesOf(folderGraph(sources))).toEqual([]);
});

test('files do not load each other in a circle', () => {
  expect(cyclesOf(valueGraph(sources))).toEqual([]);
});

test('every import statement is read: values, types, and what is loaded later', () => {
  const text = `import a from './a.js';
import { type B, b } from '../b.js';
import {
  c,
} from './c/c.js';
import './d.js';
export * from './e.js';
export { f } from './f.js';
import type { G } from './g.js';
export type { H } from './h.js';
const i = await import('./i.js'); // as does: import x from './x.js'
const j = "from './y.js'";
import fs from 'node:fs';
`;
  const { values, others } = importsOf('ops/file.ts', text);
  expect([...values]).toEqual(['ops/a.ts', 'b.ts', 'ops/c/c.ts', 'ops/d.ts', 'ops/e.ts', 'ops/f.ts']);
  expect([...others]).toEqual(['ops/g.ts', 'ops/h.ts', 'ops/i.ts']);
  // No import of src is written another way.
  const named = sources.reduce((n, s) => n + s.values.size + s.others.size, 0);
  expect(named).toBeGreaterThan(1000);
});

test('a circle is printed, the shortest one, once', () => {
  const graph = new Map(
    Object.entries({ a: ['b'], b: ['c', 'd'], c: ['a'], d: ['e'], e: ['d'], f: ['a'], g: ['g'] }).map(([k, v]) => [
      k,
      new Set(v),
    ]),
  );
  expect(cyclesOf(graph)).toEqual(['a -> b -> c -> a', 'd -> e -> d', 'g -> g']);
});
