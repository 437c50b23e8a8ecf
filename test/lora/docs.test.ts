// What docs/lora.md shows is what happens.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { javaScriptOf } from '../javascript.js';

const root = path.join(import.meta.dirname, '../..');
const program = path.join(root, `examples/.lora-${process.pid}.ts`); // inside the package, so that it finds itself by name
const compiled = program.replace(/ts$/, 'mjs');
afterAll(() => {
  for (const file of [program, compiled]) fs.rmSync(file, { force: true });
});

test('its first example prints what its comment says', async () => {
  const [, code] = /```ts\n(.*?)```/s.exec(fs.readFileSync(path.join(root, 'docs/lora.md'), 'utf8'))!;
  const [, promised] = /console\.log\(.*\);\s*\/\/ (.*)/.exec(code!)!;
  fs.writeFileSync(program, code!);
  const printed = execFileSync(process.execPath, [await javaScriptOf(program, compiled)], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  expect(printed.trim()).toBe(promised);
});
