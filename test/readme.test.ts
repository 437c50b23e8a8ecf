// What the README shows is what happens.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '..');
const readme = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
const program = path.join(root, `examples/.readme-${process.pid}.ts`); // inside the package, so that it finds itself by name
afterAll(() => fs.rmSync(program, { force: true }));

test('its TypeScript example prints what its comments say', () => {
  const code = /```ts\n(.*?)```/s.exec(readme)![1]!;
  const promised = [...code.matchAll(/console\.log\(.*\);\s*\/\/ (.*)/g)].map((m) => m[1]);
  fs.writeFileSync(program, code);
  const printed = execFileSync('npx', ['tsx', program], { cwd: root, encoding: 'utf8' });
  expect(promised).toHaveLength(2);
  expect(printed.trim().split('\n')).toEqual(['Float32Array(4) [ 11, 22, 33, 44 ]', promised[1]]);
  expect(promised[0]).toBe('Float32Array(4) [ 11, 22, 33, 44 ]');
});

test('its commands exist', () => {
  const main = path.join(root, 'dist/cli/main.js');
  const commands = [...readme.matchAll(/npx tsxla ((?:[a-z]+ ?)+)/g)].map((m) => m[1]!.trim().split(' '));
  expect(commands.length).toBeGreaterThan(4);
  for (const [command, sub] of commands) {
    const words = command === 'doctor' ? [command] : [command!, sub!];
    expect(execFileSync(process.execPath, [main, ...words, '--help'], { encoding: 'utf8' })).toContain(
      `Usage: tsxla ${words.join(' ')}`,
    );
  }
});
