// The table of other names: torch itself says which name is whose, and each is the very operation here.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import * as aliases from '../../dist/ops/alias.js';
import * as ops from '../../dist/ops/index.js';
import { goldenPath } from '../support.js';

const { aliases: torch } = JSON.parse(readFileSync(goldenPath('torch-names.json'), 'utf8'));
const snake = (name: string) => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

test.each(Object.entries(aliases))('%s', (name, f) => {
  const original = torch[snake(name)] as keyof typeof ops;
  expect(f).toBe(ops[original]);
  expect(name in tx).toBe(true);
  expect(name in tx.Tensor.prototype).toBe(original in tx.Tensor.prototype);
});
