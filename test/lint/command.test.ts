// `tsxla lint` as a person meets it.
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { lint } from '../../dist/lint/program.js';
import { tsxla } from '../support.js';

const root = path.join(import.meta.dirname, '../..');
const folder = path.join(root, `examples/.lint-${process.pid}`); // not in git; finds 'tsxla'
afterAll(() => fs.rmSync(folder, { recursive: true }));

test('prints file, line and column, and exits with 1; --fix writes what is safe', async () => {
  const text = "import * as tx from 'tsxla';\nconst x = tx.tensor([1.0]);\nif (x) console.log(x.item());\n";
  const file = path.join(folder, 'train.ts');
  fs.mkdirSync(folder);
  fs.writeFileSync(file, text);
  const { status, stdout } = await tsxla(['lint', '--fix', file]);
  expect(status).toBe(1);
  expect(stdout.split('\n')).toEqual([
    expect.stringMatching(/train\.ts:3:5 {2}x is a tensor, an object, so .* {2}tsxla\/no-tensor-condition$/),
    '1 finding in 1 file',
    '',
  ]);
  const written = text.replace('[1.0]', "[1.0], { dtype: 'f32' }").replace('x.item()', 'await x.item()');
  expect(fs.readFileSync(file, 'utf8')).toBe(written);
});

test('says which pattern fits nothing, and which rules there are', () => {
  expect(() => lint(['no/such/*.ts'], { cwd: root })).toThrow(`no file matches no/such/*.ts in ${root}`);
  expect(() => lint(['examples'], { cwd: root, rules: ['await'] })).toThrow(
    'there is no rule await: use no-tensor-condition, ',
  );
});
