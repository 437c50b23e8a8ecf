// PT_XLA_DEBUG: what is reported of each compile and run, and why it happened.
import * as tx from 'tsxla';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { debugged } from './support.js';

beforeAll(() => void vi.stubEnv('TSXLA_LOG', 'quiet'));

const SYNC = 'user torch_xla.sync';
const COMPILE = 'torch_xla.compile';
const LOADER = 'torch_xla.sync in parallel loader at step end';
const PENDING = 'torch_xla.compile clear the pending graph prior calling the target function';

describe('sync', () => {
  test('one compilation and one execution, of one graph, because the user asked', async () => {
    const { compilations, executions } = await debugged(() => tx.sync(tx.randn([2, 2])));
    expect(compilations.map((b) => b.cause)).toEqual([SYNC]);
    expect(executions.map((b) => b.cause)).toEqual([SYNC]);
    expect(executions[0]!.hash).toBe(compilations[0]!.hash);
  });

  test("random numbers are a graph of one input, the generator's state, and one output", async () => {
    const { compilations } = await debugged(() => tx.sync(tx.randn([2, 3])));
    expect(compilations[0]).toMatchObject({ inputs: 1, outputs: 1 });
  });

  test('after a compile, five sizes in GB', async () => {
    const { sizes } = await debugged(() => tx.sync(tx.randn([2, 4])));
    expect(sizes).toHaveLength(1);
    const labels = ['Graph input', 'Graph output', 'Aliased Input', 'Intermediate tensor', 'Compiled program'];
    labels.forEach((label, i) => expect(sizes[0]![i]).toMatch(new RegExp(`^${label} size: \\d+\\.\\d{6} GB$`)));
  });

  test('the same again: one compilation, and an execution each time, all of one hash', async () => {
    const batches = Array.from({ length: 10 }, () => tx.tensor(new Float32Array(7)));
    await tx.sync(...batches);
    const { compilations, executions } = await debugged(async () => {
      for (const batch of batches) await tx.sync(batch.add(100));
    });
    expect(compilations).toHaveLength(1);
    expect(executions).toHaveLength(10);
    expect(new Set([...compilations, ...executions].map((b) => b.hash)).size).toBe(1);
    expect(executions[9]).toMatchObject({ cause: SYNC, inputs: 1, outputs: 1 }); // the 100 is part of the program
  });

  test('a loader that ends a step with each batch is the cause', async () => {
    const w = tx.zeros([3]);
    await tx.sync(w);
    const data = new tx.data.TensorDataset(tx.tensor(new Float32Array(12), { shape: [4, 3] }));
    const loader = new tx.data.MpDeviceLoader(new tx.data.DataLoader(data, { batchSize: 2 }));
    const { compilations, executions } = await debugged(async () => {
      for await (const [x] of loader) w.add_(x!.sum(0));
    });
    expect(compilations.map((b) => b.cause)).toEqual([LOADER]);
    expect(executions.map((b) => b.cause)).toEqual([LOADER, LOADER]);
  });
});

describe('a compiled function', () => {
  function toyProgram(x: tx.Tensor) {
    return x.logsumexp({ dim: 1 });
  }

  test('what was pending comes first, under its name and _clear_pending; then it', async () => {
    const { compilations, executions } = await debugged(async () => {
      await tx.compile(toyProgram)(tx.randn([12, 4]));
    });
    expect(compilations.map((b) => [b.cause, b.name])).toEqual([
      [PENDING, 'toyProgram_clear_pending'],
      [COMPILE, 'toyProgram'],
    ]);
    expect(executions.map((b) => [b.cause, b.name, b.hash])).toEqual(
      compilations.map((b) => [b.cause, b.name, b.hash]),
    );
  });

  test('has the name that it is given', async () => {
    const { compilations, executions } = await debugged(async () => {
      await tx.compile(toyProgram, { name: 'custom_name' })(tx.randn([18, 4]));
    });
    for (const blocks of [compilations, executions])
      expect(blocks.map((b) => b.name)).toEqual(['custom_name_clear_pending', 'custom_name']);
  });

  test('where nothing that it needs is pending, it alone', async () => {
    const x = tx.ones([6, 4]).mul(1);
    await tx.sync(x);
    const other = x.add(1); // stays pending
    const { compilations, executions } = await debugged(async () => {
      await tx.compile(toyProgram)(x);
    });
    expect(compilations.map((b) => b.name)).toEqual(['toyProgram']);
    expect(executions.map((b) => b.name)).toEqual(['toyProgram']);
    expect(await other.sum().item()).toBe(48);
  });
});

describe('reading', () => {
  test('a value that is not there: the cause says that user code asked for it', async () => {
    vi.spyOn(console, 'log').mockImplementation(() => {});
    const { compilations, executions } = await debugged(() => tx.randn([5, 5]).print());
    vi.restoreAllMocks();
    expect(compilations.map((b) => b.cause)).toEqual([
      'most likely user code trying to access tensor value before torch_xla.sync',
    ]);
    expect(executions.map((b) => [b.cause, b.hash])).toEqual(compilations.map((b) => [b.cause, b.hash]));
  });

  test('a value that is there tells nothing', async () => {
    const x = tx.randn([5, 6]);
    await tx.sync(x);
    const { text } = await debugged(() => x.data());
    expect(text).toBe('');
  });
});

describe('frames', () => {
  const deep = (n: number, shape: number[]): Promise<void> => (n ? deep(n - 1, shape) : tx.sync(tx.randn(shape)));

  test("the user's, innermost first: 8, and dots for the rest", async () => {
    const { compilations, executions } = await debugged(() => deep(20, [6, 6]));
    for (const [block] of [compilations, executions]) {
      expect(block!.frames).toHaveLength(9);
      expect(block!.frames.slice(0, 8).every((f) => /^deep \(.*debug\.test\.ts:\d+\)$/.test(f))).toBe(true);
      expect(block!.frames[8]).toBe('..........');
    }
  });

  test.each(['3', '15'])('as many as PT_XLA_DEBUG_MAX_FRAME says: %s', async (most) => {
    const variables = { PT_XLA_DEBUG: '1', PT_XLA_DEBUG_MAX_FRAME: most };
    const { executions } = await debugged(() => deep(20, [6, 7]), variables);
    expect(executions[0]!.frames).toHaveLength(Number(most) + 1);
    expect(executions[0]!.frames.at(-1)).toBe('..........');
  });

  test('those of callers that wait are files, too', async () => {
    const inner = async () => {
      await tx.sync(); // so that the stack above is one of promises
      await tx.sync(tx.randn([6, 8]));
    };
    const outer = async () => {
      await inner();
    };
    const { compilations } = await debugged(outer);
    const { frames } = compilations.at(-1)!;
    expect(frames[0]).toMatch(/^inner \(\/.*debug\.test\.ts:\d+\)$/);
    expect(frames[1]).toMatch(/^outer \(\/.*debug\.test\.ts:\d+\)$/);
    expect(frames.join()).not.toContain('async');
  });
});

describe('levels', () => {
  const run = (shape: number[], variables: Record<string, string>) =>
    debugged(() => tx.sync(tx.randn(shape)), variables);

  test('1 tells of compiles, not of executions', async () => {
    const { compilations, executions, sizes } = await run([3, 1], { PT_XLA_DEBUG_LEVEL: '1' });
    expect([compilations.length, sizes.length, executions.length]).toEqual([1, 1, 0]);
  });
  test('2, and PT_XLA_DEBUG alone, tell of both', async () => {
    for (const [i, variables] of [{ PT_XLA_DEBUG_LEVEL: '2' }, { PT_XLA_DEBUG: '1' }].entries()) {
      const { compilations, executions, sizes } = await run([3, 2 + i], variables as Record<string, string>);
      expect([compilations.length, sizes.length, executions.length]).toEqual([1, 1, 1]);
    }
  });
  test('unset: nothing', async () => expect((await run([3, 4], {})).text).toBe(''));
  test('on a machine with several processes only the first one tells', async () => {
    const rank = (r: string) => ({ PT_XLA_DEBUG: '1', PJRT_LOCAL_PROCESS_RANK: r });
    expect((await run([3, 5], rank('1'))).text).toBe('');
    expect((await run([3, 6], rank('0'))).compilations).toHaveLength(1);
  });
});
