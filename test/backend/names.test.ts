// The table of docs/backend.md: each documented name is there, and the test that it names does look at it.
import fs from 'node:fs';
import path from 'node:path';
import * as backend from 'tsxla/backend';
import { expect, test } from 'vitest';
import { NAMES } from './names.js';

test.each(NAMES)('%s is %s, tested in %s', (_, ours, file) => {
  const text = fs.readFileSync(path.join(import.meta.dirname, `${file}.test.ts`), 'utf8');
  expect(text).toMatch(new RegExp(`\\b${ours}\\b`));
  if (/^[A-Z]|^createXla|^basic/.test(ours)) expect(backend).toHaveProperty(ours);
});
