// PyTorch's ModuleInfo database against the modules here: a selection of small cases. All of it: scripts/moduleinfo.ts.
import { readFileSync } from 'node:fs';
import { nn } from 'tsxla';
import { expect, test } from 'vitest';
import { goldenPath } from '../support.js';
import { readDatabase, replay } from './moduleinfo.js';
import { KNOWN } from './moduleinfo-known.js';

const database = await readDatabase(goldenPath('moduleinfo'));
const outcomes = await replay(database, database.cases);
const reasonOf = (key: string) => KNOWN.find(({ cases }) => cases.test(key));

test('every case passes, or its reason is known', () => {
  const failed = [...outcomes].filter(([key, wrong]) => wrong && !reasonOf(key));
  expect(failed.map(([key, wrong]) => `${key}: ${wrong}`)).toEqual([]);
  expect(outcomes.size).toBeGreaterThan(130);
});

test('no reason is out of date', () => {
  const stale = KNOWN.filter(({ cases }) => {
    const own = [...outcomes].filter(([key]) => cases.test(key));
    return own.length > 0 && own.every(([, wrong]) => !wrong);
  });
  expect(stale.map(({ cases }) => String(cases))).toEqual([]);
});

test('a wrong result, gradient or name is seen', async () => {
  const one = database.cases.find((c) => c.module === 'Linear')!;
  for (const part of ['out0', 'grad0', 'param/weight', 'state/weight']) {
    const key = `${one.key}/${part}`;
    const array = database.tensors.get(key)!;
    const changed = { ...array, data: (array.data as Float32Array).map((x) => x + 1) };
    const tensors = new Map(database.tensors);
    if (part.startsWith('state')) tensors.set(`${one.key}/state/other`, array);
    else tensors.set(key, changed);
    const [[, wrong]] = [...(await replay({ ...database, tensors }, [one]))] as [[string, string | undefined]];
    expect(wrong, part).toMatch(part.startsWith('state') ? /the state dict has/ : new RegExp(`^${part}\\[0\\] is`));
  }
});

test('the page has a line for each module of the database, and for each reason', () => {
  const page = readFileSync(new URL('../../docs/moduleinfo.md', import.meta.url), 'utf8');
  const modules = new Set(database.cases.map((c) => c.module));
  expect([...modules].filter((m) => !page.includes(`| \`${m}\` |`))).toEqual([]);
  expect(KNOWN.filter(({ why }) => !page.includes(why)).map(({ cases }) => String(cases))).toEqual([]);
  const absent = [...modules].filter((m) => !(m in nn));
  expect(absent.filter((m) => !KNOWN.some((k) => k.kind === 'absent' && k.cases.test(`${m}/0/f32`)))).toEqual([]);
});
