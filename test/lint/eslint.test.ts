// The plugin in ESLint itself: a flat configuration, typescript-eslint's parser, fixes, suggestions and comments.
import fs from 'node:fs';
import path from 'node:path';
import parser from '@typescript-eslint/parser';
import { ESLint, type Linter } from 'eslint';
import tsxla from 'tsxla/eslint';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rules } from '../../dist/lint/rules/index.js';
import { PRELUDE, SNIPPETS } from './snippets.js';

const folder = path.join(import.meta.dirname, `../../examples/.eslint-${process.pid}`); // not in git; finds 'tsxla'
const file = path.join(folder, 'all.ts');
const config: Linter.Config[] = [
  {
    files: ['**/*.ts'],
    languageOptions: { parser, parserOptions: { project: './tsconfig.json', tsconfigRootDir: folder } },
  },
  tsxla.configs.recommended,
];
const eslint = new ESLint({ cwd: folder, overrideConfigFile: true, overrideConfig: config });
/** The first bad snippet of each rule, in a function of its own. */
const bad = Object.entries(SNIPPETS).map(([rule, { bad }]) => ({ rule: `tsxla/${rule}`, text: bad[0]! }));

let results: ESLint.LintResult[];
beforeAll(async () => {
  fs.mkdirSync(folder);
  const tsconfig = { extends: '../../tsconfig.json', include: ['*.ts'] };
  fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  const lines = bad.map(({ text }) => `async () => { ${text.replace('»', '')} };`);
  const disabled = '// eslint-disable-next-line tsxla/await-read -- on purpose\nx.item();\n';
  fs.writeFileSync(file, `${PRELUDE}${lines.join('\n')}\n${disabled}`);
  results = await eslint.lintFiles(['all.ts']);
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

test('every rule reports through ESLint, at its place', () => {
  const first = PRELUDE.split('\n').length;
  const want = bad.map(
    ({ rule, text }, i) => `${rule} ${first + i}:${'async () => { '.length + text.indexOf('»') + 1}`,
  );
  expect(results[0]!.messages.map((m) => `${m.ruleId} ${m.line}:${m.column}`)).toEqual(want);
  expect(results[0]!.warningCount).toBe(1);
});

test('fixes and suggestions are given to it', () => {
  const [{ messages }] = results as [ESLint.LintResult];
  const fixes = messages.filter((m) => m.fix).map((m) => m.ruleId);
  expect(fixes).toEqual(['tsxla/await-read', 'tsxla/float-literal']);
  const titles = messages.flatMap((m) => m.suggestions?.map((s) => s.desc) ?? []);
  expect(titles).toContain('Read it: await item()');
  expect(titles).toContain('Add { staticArguments: [1] }');
  expect(titles).toContain('Remove async');
});

test('rules have what ESLint shows about them', () => {
  expect(Object.keys(tsxla.rules)).toEqual(rules.map((r) => r.name));
  for (const { meta } of Object.values(tsxla.rules)) expect(meta.docs.description).toMatch(/^\S.*\.$/);
  expect(tsxla.meta).toEqual({ name: 'tsxla', version: expect.stringMatching(/^\d/) });
});

test('without types it says what to set', async () => {
  const plain = new ESLint({
    cwd: folder,
    overrideConfigFile: true,
    overrideConfig: [{ files: ['**/*.ts'], languageOptions: { parser } }, tsxla.configs.recommended],
  });
  await expect(plain.lintFiles(['all.ts'])).rejects.toThrow(/tsxla\/\S+ needs types: set languageOptions\.parser/);
});
