// Every primitive has a batching rule, and every rule is compared with a loop: on rows of the operations' tables (selected.ts),
// and on cases.ts. All rows are compared by scripts/vmap-rows.ts; what devices exchange in spmd.test.ts.
import { describe, expect, test } from 'vitest';
import '../../dist/spmd/index.js';
import { OPS } from '../../dist/ops/prim/define.js';
import { tables } from '../ops/tables.js';
import { cases } from './cases.js';
import { checkCase } from './compare.js';
import { type Case, casesOf, checkCases, nameOf } from './rows.js';
import { selected } from './selected.js';
import { batchedNames } from './watch.js';

/** They have no operands that could be stacked; `pick` is a result of the op before it. */
const NONE = ['axisIndex', 'constant', 'input', 'iota', 'parameter', 'pick'];
const ELSEWHERE = [
  'allGather',
  'allReduce',
  'allToAll',
  'collectivePermute',
  'gatherShards',
  'kernel',
  'kernelCheck',
  'manual',
  'reduceScatter',
  'shardingConstraint',
];

test('every primitive has a rule', () => {
  const without = [...OPS].filter(([name, op]) => !op.batch && !NONE.includes(name)).map(([name]) => name);
  expect(without).toEqual([]);
});

const seen = new Set<string>();
describe('against a loop', () => {
  test('rows of the tables (where one was renamed: npx tsx scripts/func-rows.ts)', async () => {
    const all: Case[] = [];
    for (const table of tables) if (selected[table.family]) all.push(...(await casesOf(table)));
    const wanted = new Set(Object.values(selected).flat());
    const chosen = all.filter((c) => wanted.has(nameOf(c)));
    expect([...wanted].filter((name) => !chosen.some((c) => nameOf(c) === name))).toEqual([]); // renamed
    const { result, names } = await batchedNames(() => checkCases(chosen));
    for (const name of names) seen.add(name);
    expect([...result].map(([c, error]) => `${nameOf(c)}: ${error}`)).toEqual([]);
  });

  test.each(cases.filter((c) => !c.slow))('$name', async (c) => {
    for (const name of (await batchedNames(() => checkCase(c))).names) seen.add(name);
  });

  test('no primitive is left out', () => {
    const left = [...OPS.keys()].filter((name) => !seen.has(name) && ![...NONE, ...ELSEWHERE].includes(name));
    expect(left).toEqual([]); // a new one: a row of its operation in selected.ts, or a case in cases.ts
  });
});
