// What docs/optim.md shows is what happens.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '../..');
const blocks = [...fs.readFileSync(path.join(root, 'docs/optim.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(
  (m) => m[1]!,
);
const program = path.join(root, `examples/.optim-${process.pid}.ts`); // inside the package, so that it finds itself by name
afterAll(() => fs.rmSync(program, { force: true }));

test('its code runs, block after block, and prints what its comments say', () => {
  expect(blocks.length).toBe(4);
  const [first, ...others] = blocks;
  const labels = 'const labels = tx.zeros([64], { dtype: "i64" });';
  fs.writeFileSync(
    program,
    [
      first,
      labels,
      ...others.map(
        (code, i) => `{${code}\n${i === 2 ? 'await train(x, y); console.log(await scaler.getScale());' : ''}}`,
      ),
    ].join('\n'),
  );
  const printed = execFileSync('npx', ['tsx', program], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const promised = [...first!.matchAll(/console\.log\(.*\);\s*\/\/ (.*)/g)].map((m) => m[1]);
  expect(printed.trim().split('\n')).toEqual([...promised, '65536']);
});
