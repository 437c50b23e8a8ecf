// What the README and docs/getting-started.md show is what happens. Each of their blocks is a whole program.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { javaScriptOf } from './javascript.js';

const root = path.join(import.meta.dirname, '..');
const readme = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
const program = path.join(root, `examples/.readme-${process.pid}.ts`); // inside the package, so that it finds itself by name
const compiled = program.replace(/ts$/, 'mjs');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-readme-'));
afterAll(() => {
  for (const file of [program, compiled]) fs.rmSync(file, { force: true });
  fs.rmSync(scratch, { recursive: true });
});

const examples = ['README.md', 'docs/getting-started.md'].flatMap((page) =>
  [...fs.readFileSync(path.join(root, page), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(
    (m, i) => [page, i + 1, m[1]!] as const,
  ),
);
test('both have examples', () => expect(new Set(examples.map(([page]) => page)).size).toBe(2));

test.each(examples)('%s: its TypeScript example %i prints what its comments say', async (_page, _i, code) => {
  const promised = [...code.matchAll(/console\.log\(.*\);\s*\/\/ (.*)/g)].map((m) => m[1]);
  fs.writeFileSync(program, code);
  const printed = execFileSync(process.execPath, [await javaScriptOf(program, compiled)], {
    cwd: scratch, // what it writes
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  expect(promised.length).toBeGreaterThan(0);
  expect(printed.trim().split('\n').slice(0, promised.length)).toEqual(promised);
});

test('its commands exist', () => {
  const main = path.join(root, 'dist/cli/main.js');
  const commands = [...readme.matchAll(/npx tsxla ((?:[a-z]+(?:-[a-z]+)* ?)+)/g)].map((m) => m[1]!.trim());
  expect(commands.length).toBeGreaterThan(4);
  for (const line of new Set(commands)) {
    const words = line.split(' ').slice(0, 2);
    expect(execFileSync(process.execPath, [main, ...words, '--help'], { encoding: 'utf8' })).toContain(
      `Usage: tsxla ${words.join(' ')}`,
    );
  }
});

test('it fits two screens, and its links lead somewhere', () => {
  expect(readme.split('\n').length).toBeLessThan(150);
  const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)/g)].map((m) => m[1]!);
  expect(links.length).toBeGreaterThan(30);
  expect(links.filter((link) => !fs.existsSync(path.join(root, link)))).toEqual([]);
});
