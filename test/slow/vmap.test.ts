// Larger cases of vmap, against a loop. Every row of the operations' tables: npx tsx scripts/vmap-rows.ts
import { describe, test } from 'vitest';
import { cases } from '../func/cases.js';
import { checkCase } from '../func/compare.js';

describe('vmap', () => {
  test.each(cases.filter((c) => c.slow))('$name', checkCase);
});
