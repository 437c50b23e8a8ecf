// The table is whole: no operation, no primitive and no option without a row.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { isFloat } from '../../dist/base/promote.js';
import { collect } from '../../dist/ir/graph.js';
import * as aliases from '../../dist/ops/alias.js';
import * as copies from '../../dist/ops/copies.js';
import * as ops from '../../dist/ops/index.js';
import * as linalg from '../../dist/ops/linalg-space.js';
import { OPS } from '../../dist/ops/prim/define.js';
import * as special from '../../dist/ops/special.js';
import { covered } from '../opinfo/covered.js';
import { tables } from './tables.js';

const rows = tables.flatMap((t) => t.rows);
const sampled = covered();
const src = path.resolve(import.meta.dirname, '../../src/ops');
const sources = new Map(
  readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => [file, readFileSync(path.join(src, file), 'utf8')]),
);

test('every operation has a row', () => {
  // Aliases: alias.test.ts. Copies are other functions by another name. OpInfo's samples: opinfo.test.ts
  const tested = new Set([...rows.map((r) => r.op), ...Object.keys({ ...aliases, ...copies }), ...sampled.keys()]);
  const spaced = Object.entries({ linalg, special }).flatMap(([space, own]) =>
    Object.keys(own).map((name) => `${space}.${name}`),
  );
  expect([...Object.keys(ops), ...spaced].filter((name) => !tested.has(name))).toEqual([]);
});

test('every row is about something public', () => {
  const isPublic = (op: string) => {
    const [name, space] = op.split('.').reverse() as [string, string?];
    return space ? name in tx[space as 'linalg'] : op in tx || op in tx.Tensor.prototype;
  };
  expect(rows.filter((r) => !isPublic(r.op)).map((r) => r.op)).toEqual([]);
});

test('every primitive is in the program of some row, or in its gradient', () => {
  const used = new Set<string>();
  for (const row of rows) {
    const xs = row.inputs.map((i) =>
      tx.zeros(i.shape, { dtype: i.dtype, requiresGrad: isFloat(i.dtype) && row.grad !== false }),
    );
    const ys = [row.run(...xs)].flat() as tx.Tensor[];
    for (const y of ys) if (y.requiresGrad) y.sum().backward();
    const graph = collect([...ys, ...xs.flatMap((x) => (x.grad ? [x.grad] : []))].map((t) => t.expr));
    for (const e of graph.nodes) used.add(e.op.name);
  }
  // Control flow, checkpoints and the cipher are tested in control, autograd and random.test.ts, what devices exchange in
  // spmd/, kernels in kernels/; `alias` names a body's value; `digammaAway` and `erfNear` stand inside other primitives; `orthogonalize` in the
  // gradient of a gradient.
  const elsewhere =
    /^(scan|while|case|checkpoint|customVjp|kernel|kernelCheck|optimizationBarrier|input|param|alias|digammaAway|erfNear|orthogonalize|threefry|advance|shardingConstraint|gatherShards|manual|all(Reduce|Gather|ToAll)|reduceScatter|collectivePermute|axisIndex)/;
  expect([...OPS.keys()].filter((name) => !used.has(name) && !elsewhere.test(name))).toEqual([]);
});

// Options are the optional fields in the types of a function's parameters, written there or in a named interface.
test('every option of every operation has a row', () => {
  const fieldsOf = (text: string) => [...text.matchAll(/readonly (\w+)\?:/g)].map((m) => m[1]!);
  const named = new Map<string, string[]>();
  for (const text of sources.values()) {
    for (const [, name, body] of text.matchAll(/(?:interface|type) (\w+)[^{;]*?\{([\s\S]*?)\n?\}/g))
      named.set(name!, fieldsOf(body!));
  }
  const publicFiles = [...sources.get('index.ts')!.matchAll(/from '\.\/(.*)\.js'/g)].map(
    (m) => sources.get(`${m[1]}.ts`)!,
  );
  const missing: string[] = [];
  let checked = 0;
  for (const text of publicFiles) {
    const declarations =
      /^export (?:const|function) (\w+)([\s\S]*?)(?=\n(?:export |\/\*\*|\/\/|const |function |interface |type )|$)/gm;
    for (const [, name, rest] of text.matchAll(declarations)) {
      const head = rest!.split(/=>|\): \w+ \{/)[0]!;
      const options = [
        ...fieldsOf(head),
        ...[...named].flatMap(([type, fields]) => (new RegExp(`: ${type}\\b`).test(head) ? fields : [])),
      ];
      const texts = rows.filter((r) => r.op === name).map((r) => `${r.run} ${r.torch}`);
      const snake = (option: string) => option.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
      for (const o of options) {
        checked++;
        if (sampled.get(name!)?.has(o)) continue;
        if (!texts.some((t) => t.includes(o) || t.includes(snake(o)))) missing.push(`${name}: ${o}`);
      }
    }
  }
  expect(missing).toEqual([]);
  expect(checked).toBeGreaterThan(100); // the patterns still find options
});
