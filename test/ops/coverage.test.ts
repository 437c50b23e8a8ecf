// The table is whole: no operation, no primitive and no option without a row.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { tensor } from 'tsxla';
import { expect, test } from 'vitest';
import { collect } from '../../dist/ir/graph.js';
import { OPS } from '../../dist/ops/define.js';
import * as ops from '../../dist/ops/index.js';
import { tables } from './tables.js';

const rows = tables.flatMap((t) => t.rows);

test('every operation has a row', () => {
  const tested = new Set(rows.map((r) => r.op));
  expect(Object.keys(ops).filter((name) => !tested.has(name))).toEqual([]);
});

test('every row is about an operation', () => {
  const known = new Set([...Object.keys(ops), 'Tensor']);
  expect(rows.filter((r) => !known.has(r.op)).map((r) => r.op)).toEqual([]);
});

// Options are the names in the types of a function's parameters: { readonly keepdim?: boolean }.
test('every option of every operation has a row', () => {
  const src = path.resolve(import.meta.dirname, '../../src/ops');
  const files = [...readFileSync(`${src}/index.ts`, 'utf8').matchAll(/from '\.\/(.*)\.js'/g)].map((m) =>
    readFileSync(`${src}/${m[1]}.ts`, 'utf8'),
  );
  const missing: string[] = [];
  for (const text of files) {
    for (const [, name, rest] of text.matchAll(
      /^export (?:const|function) (\w+)([\s\S]*?)(?=\n(?:export |\/\*\*|\/\/|const |function |interface |type )|$)/gm,
    )) {
      const head = rest!.split(/=>|\): \w+ \{/)[0]!;
      const options = [...head.matchAll(/readonly (\w+)\?:/g)].map((m) => m[1]!);
      const texts = rows.filter((r) => r.op === name).map((r) => `${r.run} ${r.torch}`);
      const snake = (option: string) => option.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
      for (const o of options)
        if (!texts.some((t) => t.includes(o) || t.includes(snake(o)))) missing.push(`${name}: ${o}`);
    }
  }
  expect(missing).toEqual([]);
});
void collect;
void OPS;
void tensor;
