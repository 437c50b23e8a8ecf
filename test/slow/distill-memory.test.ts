// The KD loss of the main job on a TPU that is not here: B4 L1024 K128 and 151,936 tokens, in bf16.
import { compileAhead } from 'tsxla/plan';
import { expect, test } from 'vitest';
import { fullSize } from '../distill/full-size.js';

test.each(['gather', 'dense'] as const)(
  '%s: under 0.5 GB of temporaries on a v6e',
  async (compute) => {
    const { memory } = await compileAhead(fullSize(compute, 'bf16', 'tpu'), {
      topology: 'v6e:1x1',
      timeoutSeconds: 600,
    });
    expect(memory.temporaries).toBeGreaterThan(1e7);
    expect(memory.temporaries).toBeLessThan(0.5e9);
  },
  1_000_000,
);
