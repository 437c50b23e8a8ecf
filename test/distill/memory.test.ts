// The logits of a whole batch would take 2.5 GB.
import { expect, test } from 'vitest';
import { startCpu } from '../support.js';
import { fullSize } from './full-size.js';

test.each(['gather', 'dense'] as const)(
  'KD at B4 L1024 K128 and 151,936 tokens, %s: under 0.5 GB of temporaries',
  async (compute) => {
    using client = await startCpu();
    const { temporaries } = (await client.compile(fullSize(compute, 'f32', 'cpu'))).memory();
    expect(temporaries).toBeGreaterThan(1e7);
    expect(temporaries).toBeLessThan(0.5e9);
  },
  60_000,
);
