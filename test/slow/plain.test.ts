// Torch's plain loops over many steps, in all ways to write them: TSXLA_TEST_FULL=1 npx vitest run --config vitest.slow.config.ts test/slow/plain
// prints the table of what they cost.
import { afterAll, expect, test } from 'vitest';
import { ENDS, HOWS, LOOPS } from '../plain/loops.js';
import { difference, GOLDEN, measure } from '../plain/measure.js';
import { times } from '../repeat.js';

const STEPS = times(250, 1000);
const rows: object[] = [];
afterAll(() => console.table(rows));

test.each(Object.keys(LOOPS))(`%s: ${STEPS} steps`, async (loop) => {
  const compiled = await measure(loop, STEPS, { ...HOWS['never reads'], compiled: true });
  const hows =
    loop === 'mlp' ? Object.entries(HOWS) : Object.entries(HOWS).filter(([how]) => /every step|never awaits/.test(how));
  for (const [how, options] of hows) {
    const first = await measure(loop, 3, options);
    const few = await measure(loop, 10, options);
    const plain = await measure(loop, STEPS, options);
    const [torch, own] = [GOLDEN[loop]![STEPS]!, compiled.values].map((values) => difference(plain.values, values));
    rows.push({
      loop,
      how,
      compiles: first.compiled,
      'largest program': first.largest,
      executions: plain.executed,
      buffers: `${few.buffers} -> ${plain.buffers}`,
      'from torch': torch!.toExponential(1),
      'from compiled': own,
    });
    expect(plain.compiled).toBe(0);
    expect(plain.executed - few.executed).toBe((STEPS - 10) * (ENDS[loop] ?? 1));
    expect(plain.buffers).toBeLessThan(few.buffers + 20);
    expect(own).toBeLessThan(1e-3);
    expect(torch).toBeLessThan(5e-3);
  }
});
