// What the pages show is what happens: every block of code runs, and prints what its comments, or the text below it, say.
// Their commands run in test/slow/docs.test.ts.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { withTables } from '../scripts/backend.js';
import { withFlags } from '../scripts/flags.js';
import { javaScriptOf } from './javascript.js';
import { blocksOf, PAGES, type PageProgram, read, root, writeProgram } from './pages.js';
import { tsxla } from './support.js';

const scratch = path.join(root, `examples/.docs-${process.pid}`); // inside the package, so that programs find it by name
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** Pages whose blocks other tests run. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'getting-started': 'test/readme.test.ts',
  lint: 'test/lint/rules.test.ts',
};
test('every page with TypeScript is run here or by another test', () => {
  const withCode = fs
    .readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && blocksOf(read(`docs/${file}`)).length > 0)
    .map((file) => file.replace(/\.md$/, ''));
  expect([...Object.keys(PAGES), ...Object.keys(ELSEWHERE)].sort()).toEqual(withCode.sort());
  for (const [page, file] of Object.entries(ELSEWHERE)) expect(read(file)).toContain(`docs/${page}.md`);
});

test('a block that is not run needs something that a test machine lacks', () => {
  for (const [page, { unrun = [] }] of Object.entries(PAGES))
    for (const [block, needs] of unrun) {
      expect(['libtpu', 'several processes', 'a cluster']).toContain(needs); // libtpu: test/slow/docs.test.ts; both others: spmd and ray
      expect(blocksOf(read(`docs/${page}.md`)).filter((code) => block.test(code)).length, `${page} ${block}`).toBe(1);
    }
});

const programs = new Map<string, PageProgram>();
beforeAll(async () => {
  for (const page of Object.keys(PAGES)) programs.set(page, await writeProgram(page, scratch));
});

const start = async (program: string, { folder, given }: Pick<PageProgram, 'folder' | 'given'>): Promise<string> => {
  const env = { ...process.env, HF_HUB_CACHE: path.join(folder, 'hub'), HF_HUB_OFFLINE: '1', ...given.env };
  const args = ['--enable-source-maps', program];
  return (await promisify(execFile)(process.execPath, args, { cwd: folder, env, maxBuffer: 2 ** 26 })).stdout;
};
const compiled = ({ source }: PageProgram) => javaScriptOf(source, source.replace(/ts$/, 'mjs'));

/** All pages that need no process of their own, one after the other in one process: XLA starts once. */
let together: Promise<Map<string, string>> | undefined;
async function runTogether(): Promise<Map<string, string>> {
  const pages = [...programs.values()].filter(({ given }) => !given.env && !given.alone);
  const list = await Promise.all(
    pages.map(async (each) => [each.page, each.folder, await compiled(each)].map((text) => JSON.stringify(text))),
  );
  const file = path.join(scratch, 'together.mjs');
  const lines = list.map(
    ([page, folder, program]) =>
      `process.chdir(${folder}); process.env.HF_HUB_CACHE = 'hub'; console.log('\\0' + ${page});\n` +
      `try { await import(${program}); } catch (e) { console.log('FAILED', e); }`,
  );
  fs.writeFileSync(file, lines.join('\n'));
  const printed = await start(file, { folder: scratch, given: {} });
  return new Map(
    printed
      .split('\0')
      .slice(1)
      .map((text) => [text.slice(0, text.indexOf('\n')), text.slice(text.indexOf('\n') + 1)]),
  );
}

test.each(Object.entries(PAGES))('docs/%s.md', async (page, { env, alone }) => {
  const program = programs.get(page)!;
  const stdout =
    env || alone ? await start(await compiled(program), program) : (await (together ??= runTogether())).get(page)!;
  expect(stdout).not.toMatch(/^FAILED/m);
  const printed = stdout.split('\n');
  const promised = [...program.code.join('').matchAll(/console\.log\(.*\);[^\S\n]*\n?[^\S\n]*\/\/ (.*)/g)].map(
    (m) => m[1]!,
  );
  expect(
    printed.filter((line) => promised.includes(line)),
    stdout,
  ).toEqual(promised);
  for (const [, below] of read(`docs/${page}.md`).matchAll(/```ts\n[^`]*?```\n```\n(.*?)```/gs))
    expect(stdout).toContain(below);
});

test('a block of the backend that imports something can be copied: it imports what it uses of tsxla', () => {
  const text = read('docs/backend.md');
  const blocks = [...text.matchAll(/```ts\n(import .*?)```/gs)].map((m) => m[1]!);
  const missing = blocks.flatMap((block) => {
    const imported = [...block.matchAll(/^import (?:\{ (.*) \}|\* as (\w+)) from/gm)].flatMap((m) =>
      (m[1] ?? m[2]!).split(', '),
    );
    const used = new Set([...block.matchAll(/\b(tx|nn|optim)\./g)].map((m) => m[1]!));
    return [...used].filter((name) => !imported.includes(name)).map((name) => `${name} in ${block}`);
  });
  expect(missing).toEqual([]);
});

test('all of it is right by its types', async () => {
  const sources = [...programs.values()].map(({ source }) => source);
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023'];
  const tsc = 'node_modules/typescript-7/bin/tsc';
  const args = [tsc, '--ignoreConfig', ...options, '--types', 'node', ...sources];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root }).catch(
    (e: { stdout: string }) => e,
  );
  expect(stdout).toBe('');
});

test('and the linter finds nothing in it', async () => {
  // docs/rules.md shows what is wrong, too: test/lint/rules.test.ts
  const sources = [...programs.values()].filter(({ page }) => page !== 'rules').map(({ source }) => source);
  expect((await tsxla(['lint', '--json', ...sources])).stdout).toBe('[]\n');
});

test('the tables of the backend are on its page (else: npx tsx scripts/backend.ts)', () => {
  expect(read('docs/backend.md')).toBe(withTables());
});

test('the flags of train-recovery-lora are on its page (else: npx tsx scripts/flags.ts)', () => {
  expect(read('docs/recovery-lora.md')).toBe(withFlags());
});
