// What docs/data.md shows is what happens.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '../..');
const program = path.join(root, `examples/.data-${process.pid}.ts`); // inside the package, so that it finds itself by name
afterAll(() => fs.rmSync(program, { force: true }));

test('its first example prints what its comment says', () => {
  const [, code] = /```ts\n(.*?)```/s.exec(fs.readFileSync(path.join(root, 'docs/data.md'), 'utf8'))!;
  const [, promised] = /console\.log\(.*\);\s*\/\/ (.*)/.exec(code!)!;
  fs.writeFileSync(program, code!);
  const printed = execFileSync('npx', ['tsx', program], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  expect(printed.trim()).toBe(promised);
});

test('all its TypeScript is right by its types', () => {
  const text = fs.readFileSync(path.join(root, 'docs/data.md'), 'utf8');
  const blocks = [...text.matchAll(/```ts\n(.*?)```/gs)].map((m) => m[1]!);
  const files = blocks.map((code, i) => [path.join(root, `examples/.data-${process.pid}-${i}.ts`), code] as const);
  for (const [file, code] of files) fs.writeFileSync(file, code);
  try {
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023'];
    const args = ['tsc', '--ignoreConfig', ...options, '--types', 'node', ...files.map(([file]) => file)];
    const { stdout, status } = spawnSync('npx', args, { cwd: root, encoding: 'utf8' });
    expect([stdout, status]).toEqual(['', 0]);
  } finally {
    for (const [file] of files) fs.rmSync(file);
  }
  expect(blocks.length).toBe(5);
});
