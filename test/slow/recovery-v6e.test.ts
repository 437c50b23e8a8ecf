// The memory guide of recovery LoRA (22, 24 and 28 GB on a TPU v6e-1): what the TPU's compiler says of our step, at full size. No weight
// is made, and nothing runs. Each row takes minutes: the one of most memory, or with TSXLA_TEST_FULL=1 all.
import * as tx from 'tsxla';
import { beforeAll, expect, test } from 'vitest';
import { planRecovery, ROWS } from '../../bench/recovery-case.js';
import { times } from '../repeat.js';
import { tsxla } from '../support.js';

beforeAll(async () => {
  const { status, stderr } = await tsxla(['plugins', 'path', 'tpu']);
  if (status) expect((await tsxla(['plugins', 'install', 'tpu'])).status, stderr).toBe(0);
}, 600_000);

test.each(ROWS.slice(-times(1, ROWS.length)))(
  'LoRA r=$rank, batch $batch, $accumulation micro-batches: at most 8 GiB',
  async (row) => {
    const { memory, seconds } = await planRecovery(row);
    expect(memory.arguments).toBeGreaterThan(1.1 * 2 ** 30); // 596 million weights in bf16 are among them
    expect(memory.peak).toBeGreaterThan(memory.arguments);
    expect(memory.peak).toBeLessThan(8 * 2 ** 30);
    console.log(`compiled in ${seconds.toFixed(0)} s`);
    expect(tx.metrics.counter('ExecuteComputation') ?? 0).toBe(0);
  },
  1_000_000,
);
