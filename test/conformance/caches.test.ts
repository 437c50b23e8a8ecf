// Programs: found again by what they compute, in memory and on disk.
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { programCount } from '../../dist/runtime/program.js';
import { adding, ask, file, scratch } from '../cache-support.js';
import { startCounting } from './support.js';

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(tmpdir(), 'tsxla-programs-'));
  vi.stubEnv('TSXLA_LOG', 'quiet');
});
afterEach(() => {
  vi.unstubAllEnvs();
  fs.rmSync(folder, { recursive: true });
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

const { counter } = tx.metrics;
const entries = () => fs.readdirSync(folder).filter((name) => name.endsWith('.program')).length;
/** Programs in memory: room for `size` of them, and the disk behind it. */
function onDisk(size: number, mode = 'on'): void {
  vi.stubEnv('TSXLA_CACHE', mode);
  vi.stubEnv('XLA_PERSISTENT_CACHE_PATH', folder);
  vi.stubEnv('XLA_COMPILATION_CACHE_SIZE', String(size));
}

describe('in memory', () => {
  test.each(['off', 'on'])(
    'another input is the same program, another shape is another (disk cache %s)',
    async (mode) => {
      onDisk(2048, mode);
      const width = mode === 'on' ? 5 : 6;
      const [w, b] = [tx.rand([width, 3]), tx.rand([3])];
      const model = (x: tx.Tensor) => tx.sync(x.matmul(w).add(b));
      const [first, second] = [tx.rand([10, width]), tx.rand([10, width])];
      await tx.sync(w, b, first, second);
      await model(first);
      let known = programCount();
      await model(second);
      expect(programCount()).toBe(known);
      const both = tx.cat([first, second], { dim: 0 });
      await tx.sync(both);
      expect(programCount()).toBe(++known);
      await model(both);
      expect(programCount()).toBe(++known);
    },
  );

  test('the same computation at other lines, with the lines in the graph or without, is one program', async () => {
    for (const debug of ['', '1']) {
      vi.stubEnv('XLA_IR_DEBUG', debug);
      vi.stubEnv('XLA_HLO_DEBUG', debug);
      const x = tx.tensor(debug ? [10] : 10, { dtype: 'f32' });
      await startCounting();
      const here = () => [tx.sin(x), tx.cos(x)] as const;
      const there = () => [tx.sin(x), tx.cos(x)] as const;
      for (const scope of [here, there]) {
        const [a, b] = scope();
        await tx.sync(tx.maximum(a, b).sub(tx.minimum(a, b)));
      }
      expect([counter('UncachedCompile'), counter('CachedCompile')]).toEqual([1, 1]);
    }
  });

  test('loops whose bodies compute the same are one program, with their gradients', async () => {
    const first = (carry: tx.Tensor, x: tx.Tensor) => [carry.add(x), x.add(42)] as [tx.Tensor, tx.Tensor];
    const second = (carry: tx.Tensor, x: tx.Tensor) => [carry.add(x), x.add(42)] as [tx.Tensor, tx.Tensor];
    const init = tx.zeros([2], { requiresGrad: true });
    const xs = tx.tensor(
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      { dtype: 'f32', requiresGrad: true },
    );
    await tx.sync(init, xs);
    vi.stubEnv('XLA_HLO_DEBUG', '1'); // lines in the program
    await startCounting();
    for (const body of [first, first, second]) {
      init.grad = xs.grad = null;
      const [carry, ys] = tx.scan(body, init, xs);
      carry.sum().add(ys.sum()).backward();
      await tx.sync(init.grad!, xs.grad!);
    }
    expect([counter('UncachedCompile'), counter('CachedCompile')]).toEqual([1, 2]);
    expect(await init.grad!.tolist()).toEqual([1, 1]);
    expect(await xs.grad!.tolist()).toEqual(Array(3).fill([2, 2]));
  });
});

describe('on disk', () => {
  const six = [1, 2, 3, 4, 5, 6].map((k) => tx.compile((x: tx.Tensor) => x.mul(k).tan().sum(), { name: `tan${k}` }));
  const runAll = async (x: tx.Tensor) => {
    const values = [];
    for (const f of six) values.push(Number(await (await f(x)).item()));
    return values;
  };

  test('what memory has no room for is loaded, not compiled again', async () => {
    onDisk(2);
    const x = tx.tensor([0.1, 0.2], { dtype: 'f32' });
    await tx.sync(x);
    await startCounting();
    const values = await runAll(x);
    expect([counter('PersistentCacheMiss'), counter('PersistentCacheHit')]).toEqual([6, undefined]);
    expect(programCount()).toBeLessThanOrEqual(2);
    await startCounting();
    expect(await runAll(x)).toEqual(values);
    expect([counter('PersistentCacheMiss'), counter('PersistentCacheHit')]).toEqual([undefined, 6]);
    expect(counter('StableHloCompile')).toBeUndefined();
  });

  test('read only: what is there is used, and nothing is added', async () => {
    onDisk(2);
    const x = tx.tensor([0.1, 0.2, 0.3], { dtype: 'f32' });
    await tx.sync(x);
    const values = await runAll(x);
    const kept = entries();
    onDisk(2, 'readonly');
    await startCounting();
    expect(await runAll(x)).toEqual(values);
    expect(counter('PersistentCacheHit')).toBe(6);
    for (const k of [1, 2]) await tx.atan(x).mul(k).sum().item(); // new ones
    expect([counter('PersistentCacheMiss'), entries()]).toEqual([2, kept]);
    // They were evicted and are no longer referenced: compiled again.
    await runAll(x);
    await startCounting();
    await tx.atan(x).mul(1).sum().item();
    expect([counter('PersistentCacheMiss'), counter('PersistentCacheHit')]).toEqual([1, undefined]);
  });

  test("LIBTPU_INIT_ARGS and TPU_MEGACORE are part of the key; flags' order and dumps are not", async () => {
    const source = [file(adding(1))];
    const tier = async (env: Record<string, string>) => (await ask(folder, source, 'now', env)).answers[0]!.tier;
    const args = (LIBTPU_INIT_ARGS: string) => tier({ TSXLA_CACHE: 'on', LIBTPU_INIT_ARGS });
    expect(await args('')).toBe('compiled');
    expect(await args('--xla_dump_to=/foo/bar')).toBe('disk');
    expect(await args('--xla_foo_bar=1 --xla_bar_baz=0')).toBe('compiled');
    expect(await args('--xla_bar_baz=0 --xla_dump_to=/foo/bar --xla_foo_bar=1')).toBe('disk');
    expect(await args('--xla_bar_baz=1 --xla_dump_to=/foo/bar --xla_foo_bar=1')).toBe('compiled');
    expect(await tier({ TSXLA_CACHE: 'on', TPU_MEGACORE: 'megacore' })).toBe('compiled');
  });
});
