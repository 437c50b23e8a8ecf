// What the README shows is what happens.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '..');
const readme = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
const program = path.join(root, `examples/.readme-${process.pid}.ts`); // inside the package, so that it finds itself by name
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-readme-'));
afterAll(() => {
  fs.rmSync(program, { force: true });
  fs.rmSync(scratch, { recursive: true });
});

const examples = [...readme.matchAll(/```ts\n(.*?)```/gs)].map((m) => m[1]!);

test.each(examples.map((code, i) => [i + 1, code] as const))(
  'its TypeScript example %i prints what its comments say',
  (_, code) => {
    const promised = [...code.matchAll(/console\.log\(.*\);\s*\/\/ (.*)/g)].map((m) => m[1]);
    fs.writeFileSync(program, code);
    const printed = execFileSync(process.execPath, ['--import', import.meta.resolve('tsx'), program], {
      cwd: scratch, // what it writes
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    expect(promised.length).toBeGreaterThan(0);
    expect(printed.trim().split('\n').slice(0, promised.length)).toEqual(promised);
  },
);

test('its commands exist', () => {
  const main = path.join(root, 'dist/cli/main.js');
  const commands = [...readme.matchAll(/npx tsxla ((?:[a-z]+(?:-[a-z]+)* ?)+)/g)].map((m) => m[1]!.trim().split(' '));
  expect(commands.length).toBeGreaterThan(4);
  for (const [command, sub] of commands) {
    const words = sub === undefined ? [command!] : [command!, sub];
    expect(execFileSync(process.execPath, [main, ...words, '--help'], { encoding: 'utf8' })).toContain(
      `Usage: tsxla ${words.join(' ')}`,
    );
  }
});
