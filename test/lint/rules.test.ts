// The rules of tsxla/eslint and `tsxla lint`: what each finds, where, and what it leaves alone. One program for all code.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { fixed, type LintMessage, lint } from '../../dist/lint/program.js';
import { rules } from '../../dist/lint/rules/index.js';
import { PRELUDE, SNIPPETS } from './snippets.js';

const root = path.join(import.meta.dirname, '../..');
const folder = path.join(root, `examples/.lint-rules-${process.pid}`); // not in git; finds 'tsxla' and tsconfig.json
afterAll(() => fs.rmSync(folder, { recursive: true }));
const first = PRELUDE.split('\n').length; // the line below it
const rows = Object.entries(SNIPPETS).flatMap(([rule, { bad, good }]) => [
  ...bad.map((text, i) => ({ rule, name: `${rule}-bad-${i}.ts`, text, isBad: true })),
  ...good.map((text, i) => ({ rule, name: `${rule}-good-${i}.ts`, text, isBad: false })),
]);

const page = fs.readFileSync(path.join(root, 'docs/lint.md'), 'utf8');
const sections = page
  .split(/^## /m)
  .slice(1)
  .map((text) => ({ rule: text.slice(0, text.indexOf('\n')), text }));
const blocks = sections.flatMap(({ rule, text }) =>
  ['Wrong', 'Right'].map((kind) => {
    const code = new RegExp(`^${kind}:\n\`\`\`ts\n(.*?)^\`\`\``, 'ms').exec(text)?.[1];
    return { rule, kind, name: `${rule}-${kind}.ts`, code };
  }),
);

/** All other code of the pages, in functions of their own, as far as its names are known. */
const pages = ['README.md', ...fs.readdirSync(path.join(root, 'docs')).map((f) => `docs/${f}`)].filter(
  (f) => f.endsWith('.md') && f !== 'docs/lint.md',
);
const shown = pages.flatMap((file) =>
  [...fs.readFileSync(path.join(root, file), 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map(([, code], i) => {
    const imports = [...code!.matchAll(/^import .*;$/gm)].join('\n');
    const own = imports.includes('* as tx') ? imports : `${PRELUDE}${imports}`;
    return {
      name: `${file.replace(/\W/g, '-')}-${i}.ts`,
      code: `${own}\nasync () => {\n${code!.replace(/^import .*;$/gm, '')}\n};\n`,
    };
  }),
);
/** Of docs/rules.md: bad code, the rule that finds it, and the error of TypeScript. */
const caught = /^## Bad code.*?(?=^## )/ms.exec(fs.readFileSync(path.join(root, 'docs/rules.md'), 'utf8'))![0];
const table = [...caught.matchAll(/^\| `(.*)` \| ([\w-]*) ?\| (?:TS(\d+))? ?\|/gm)].map(([, code, rule, error], i) => ({
  name: `table-${i}.ts`,
  code: code!,
  rule: rule!,
  error: error ?? '',
}));

const COMMENTS = `// eslint-disable-next-line tsxla/await-read -- why
x.item();
x.item(); // eslint-disable-line
x.item(); // eslint-disable-line tsxla/shapes
/* eslint-disable tsxla/await-read -- why */
x.item();
/* eslint-enable tsxla/await-read */
x.item();
`;
const FIX = 'const r = [Number(x.tolist().length), x.item() ** 2];\n';
const SCRIPT = "import * as tx from 'tsxla';\nconst x = tx.zeros([2]);\nif (x.gt(0)) x.add_(1);\n";

const sources = {
  ...Object.fromEntries(rows.map((r) => [r.name, `${PRELUDE}${r.text.replace('»', '')}\n`])),
  ...Object.fromEntries(blocks.map((b) => [b.name, PRELUDE + b.code])),
  ...Object.fromEntries(table.map((r) => [r.name, `${PRELUDE}${r.code}\n`])),
  ...Object.fromEntries(shown.map((s) => [s.name, s.code])),
  'comments.ts': PRELUDE + COMMENTS,
  'traced.ts': `${PRELUDE}const f = tx.compile((a: tx.Tensor) => (a.gt(0) ? a : a.neg()));\n`,
  'fix.ts': PRELUDE + FIX,
  'no-fix.ts': `${PRELUDE}const f = () => { x.print(); };\n`,
  'promise.ts': `${PRELUDE}const p = x.item(); p.then(() => {}); console.log(p);\n`,
  'script.mjs': SCRIPT,
  'loose/optional.ts': `${SCRIPT}export const f = (mask?: tx.Tensor) => (mask ? x.mul(mask) : x);\n`,
};
fs.mkdirSync(path.join(folder, 'loose'), { recursive: true });
const loose = { compilerOptions: { strict: false, module: 'nodenext', types: [] } };
fs.writeFileSync(path.join(folder, 'loose/tsconfig.json'), JSON.stringify(loose));
const texts = new Map(Object.entries(sources).map(([name, text]) => [path.join(folder, name), text]));
const { messages } = lint([], { texts });
const found = (name: string): LintMessage[] => messages.filter((m) => m.file === path.join(folder, name));

describe.each(rules.map((r) => r.name))('%s', (rule) => {
  test.each(rows.filter((r) => r.rule === rule))('$text', ({ name, text, isBad }) => {
    const places = found(name).map((m) => `${m.rule} ${m.line}:${m.column}`);
    expect(places).toEqual(isBad ? [`tsxla/${rule} ${first}:${text.indexOf('»') + 1}`] : []);
  });
});

test('every rule has snippets, bad and good', () => {
  expect(Object.keys(SNIPPETS).sort()).toEqual(rules.map((r) => r.name).sort());
  expect(Object.values(SNIPPETS).every(({ bad, good }) => bad.length >= 3 && good.length >= 3)).toBe(true);
  expect(rows.filter((r) => r.isBad).length).toBeGreaterThanOrEqual(60);
});

test('a message says what can be written where the code is', () => {
  expect(found('no-tensor-condition-bad-0.ts')[0]!.message).toMatch(/or read it first: await mask\.item\(\)$/);
  expect(found('traced.ts').map((m) => m.message)).toEqual([
    'a.gt(0) is a tensor, an object, so this condition is always true: compare it with tx.where or tx.cond',
  ]);
});

test("ESLint's comments disable a rule: for the next line, on a line, in a part of a file", () => {
  expect(found('comments.ts').map((m) => m.line - first + 1)).toEqual([4, 8]);
});

test('fixes are edits of the text; of two that overlap the first is applied', () => {
  const own = found('fix.ts');
  expect(fixed(PRELUDE + FIX, own)).toBe(
    `${PRELUDE}const r = [Number((await x.tolist()).length), (await x.item()) ** 2];\n`,
  );
  const twice = [own[0]!, own[0]!];
  expect(fixed(PRELUDE + FIX, twice)).toBe(PRELUDE + FIX.replace('x.tolist()', '(await x.tolist())'));
  // Where no await can be written there is no fix.
  expect(found('no-fix.ts').map((m) => [m.rule, m.fix])).toEqual([['tsxla/await-read', undefined]]);
  // Nor where the promise is needed elsewhere.
  expect(found('promise.ts').map((m) => [m.rule, m.fix])).toEqual([['tsxla/await-read', undefined]]);
});

test('JavaScript, and programs without strict types, are linted too', () => {
  expect(found('script.mjs').map((m) => `${m.line}:${m.column}`)).toEqual(['3:5']);
  // Without strict types `mask` may be undefined, and the question be for that.
  expect(found('loose/optional.ts').map((m) => `${m.line}:${m.column}`)).toEqual(['3:5']);
});

/** Errors of the compiler of the build, by file: `TS2365`. */
async function typeErrors(names: readonly string[]): Promise<Map<string, string[]>> {
  for (const name of names) fs.writeFileSync(path.join(folder, name), texts.get(path.join(folder, name))!);
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--pretty',
    'false',
  ];
  const tsc = path.join(root, 'node_modules/typescript-7/bin/tsc');
  const args = [tsc, '--ignoreConfig', ...options, '--types', 'node', ...names];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
    (e: { stdout: string }) => e,
  );
  const errors = [...stdout.matchAll(/^(\S+)\(\d+,\d+\): error TS(\d+)/gm)];
  return new Map(names.map((name) => [name, errors.flatMap(([, file, code]) => (file === name ? [code!] : []))]));
}

test('bad code of docs/rules.md is caught by the rule and the error of TypeScript that the table names, and no other', async () => {
  expect(table.length).toBeGreaterThan(20);
  const errors = await typeErrors(table.map((r) => r.name));
  for (const { name, code, rule, error } of table) {
    expect([...new Set(found(name).map((m) => m.rule))], code).toEqual(rule ? [`tsxla/${rule}`] : []);
    expect(errors.get(name), code).toEqual(error ? [error] : []);
  }
});

test('in the code of the README and the other pages, only what a page shows as wrong is found', () => {
  expect(shown.length).toBeGreaterThan(100);
  const all = shown.flatMap((s) => found(s.name).map((m) => `${s.name} ${m.rule}`));
  expect(all).toEqual([expect.stringMatching(/^docs-rules-md-\d+\.ts tsxla\/no-stale-capture$/)]); // "Functions that went stale"
});

describe('docs/lint.md', () => {
  test('has a section and a row for each rule', () => {
    expect(sections.map((s) => s.rule)).toEqual(rules.map((r) => r.name));
    const listed = [...page.matchAll(/^\| \[(.*?)\]\(#(.*?)\) \| (\w*) ?\|/gm)].map((m) => [m[1], m[2], m[3]]);
    expect(listed).toEqual(rules.map((r) => [r.name, r.name, r.fixes ? 'fix' : r.suggests ? 'suggestion' : '']));
  });

  test.each(blocks)('$kind code of $rule', ({ rule, kind, name }) => {
    const names = new Set(found(name).map((m) => m.rule));
    expect([...names]).toEqual(kind === 'Wrong' ? [`tsxla/${rule}`] : []);
  });

  test('right code is right by its types', async () => {
    const right = blocks.filter((b) => b.kind === 'Right').map((b) => b.name);
    expect([...(await typeErrors(right))]).toEqual(right.map((name) => [name, []]));
  });
});
