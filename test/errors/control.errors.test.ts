// What loops and branches say when they are misused.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { testMisuses } from './misuse.js';

type T = tx.Tensor;
const x4 = tx.zeros([4]);
const where = /\n {4}at .*control\.errors\.test\.ts:\d+/;
const cases: readonly [name: string, run: () => unknown, text: string][] = [
  [
    'a carry of another shape',
    () => tx.scan(({ h }: { h: T }, x: T) => [{ h: h.sum().add(tx.zeros([5])) }, x] as const, { h: x4 }, x4),
    "scan: the carry's leaf .h is f32[4] on entry and f32[5] after the body",
  ],
  [
    'a carry of another dtype',
    () => tx.scan((h: T, x: T) => [h.gt(x), x] as const, tx.zeros([]), x4),
    'scan: the carry is f32[] on entry and bool[] after the body',
  ],
  [
    'a carry with other leaves',
    () => tx.scan((c: T[]): [T[], null] => [[...c, x4], null], [x4], null, { length: 2 }),
    'scan: the carry has the leaves [0] on entry and the leaves [0], [1] after the body',
  ],
  [
    'no pair',
    () => tx.scan(((h: T) => h) as never, x4, x4),
    'scan: f returned a Tensor: it must return a pair, [next carry, y]',
  ],
  [
    'a number as a leaf',
    () => tx.scan((c: { n: number }) => [c, null] as const, { n: 3 }, x4),
    'scan: init, at .n is the number 3: it must be a tensor, or nested arrays and objects of tensors',
  ],
  [
    'stacked inputs of different lengths',
    () => tx.scan((h: T) => [h, null] as const, x4, { a: tx.zeros([3]), b: tx.zeros([2]) }),
    "scan: xs differ in length: xs' leaf .a has 3, xs' leaf .b has 2",
  ],
  [
    'a scalar to go through',
    () => tx.scan((h: T) => [h, null] as const, x4, tx.zeros([])),
    'scan: xs is f32[]: a scalar has no dimension to iterate over',
  ],
  [
    'another length',
    () => tx.scan((h: T) => [h, null] as const, x4, x4, { length: 3 }),
    'scan: length is 3, but xs has 4 elements: leave length out',
  ],
  [
    'no length',
    () => tx.scan((h: T) => [h, null] as const, x4, null),
    'scan: xs is empty and length is not given: pass one of them',
  ],
  [
    'unroll',
    () => tx.scan((h: T) => [h, null] as const, x4, x4, { unroll: 0 }),
    'scan: unroll is 0: it must be a whole number, at least 1',
  ],
  [
    'an async body',
    () => tx.scan((async (h: T) => [h, null]) as never, x4, x4),
    'scan: the function is async, but it only describes a computation: make it synchronous, and read results after it',
  ],
  [
    'a JavaScript boolean',
    () =>
      tx.cond(
        true as never,
        () => x4,
        () => x4,
      ),
    'cond: pred is the boolean true: choose with an ordinary if, or pass a boolean tensor',
  ],
  [
    'several booleans',
    () =>
      tx.cond(
        x4.gt(0),
        () => x4,
        () => x4,
      ),
    'cond: pred is bool[4]: it must be a single boolean, bool[]: compare it, or reduce it with all() or any()',
  ],
  [
    'branches that differ',
    () =>
      tx.cond(
        tx.tensor(true),
        () => ({ a: x4 }),
        () => ({ a: x4.sum() }),
      ),
    "cond: the result's leaf .a is f32[4] from trueFn and f32[] from falseFn",
  ],
  [
    'a condition that is a number',
    () =>
      tx.whileLoop(
        () => x4.sum(),
        (c: T) => c,
        x4,
      ),
    'whileLoop: the result of condFn is f32[]: it must be a single boolean, bool[]: compare it, or reduce it with all() or any()',
  ],
  [
    'a condition that draws',
    () =>
      tx.whileLoop(
        () => tx.rand([]).gt(0.5),
        (c: T) => c,
        x4,
      ),
    'whileLoop: condFn draws random numbers: draw them in bodyFn and carry them',
  ],
  [
    'a bound that is not an integer',
    () => tx.foriLoop(0, 2.5, (_, c: T) => c, x4),
    'foriLoop: upper is 2.5: it must be a whole number or an integer scalar',
  ],
  [
    'a gradient through a while',
    () =>
      tx.grad((x: T) =>
        tx.whileLoop(
          (c: T) => c.lt(3),
          (c: T) => c.mul(2),
          x,
        ),
      )(tx.ones([])),
    'whileLoop: no gradient, as the number of iterations is unknown and the values it needs cannot be saved: ' +
      'use scan, or foriLoop with numbers as bounds, or detach() the inputs of the loop',
  ],
];

testMisuses(cases, where);

test.each([
  ['item', (h: T) => h.sum().item(), 'f32[]'],
  ['tolist', () => x4.tolist(), 'f32[4]'],
  ['data', (h: T) => h.data(), 'f32[4]'],
] as const)('reading inside a body, by %s, is refused where it is written', (method, read, what) => {
  const body = (h: T): T => {
    void read(h);
    return h.add(1);
  };
  const text =
    `${method}() inside the body of a loop or branch, which only describes a computation: ` +
    `return ${what} from it, and read the result`;
  expect(() => tx.scan((h: T) => [body(h), null] as const, x4, null, { length: 2 })).toThrow(text);
  expect(() => tx.cond(tx.tensor(true), body, body, x4)).toThrow(text);
  expect(() => tx.whileLoop((c: T) => c.sum().lt(9), body, x4)).toThrow(text);
});

test('sync inside a body is refused, too', () => {
  const body = (h: T) => {
    void tx.sync(h);
    return [h, null] as const;
  };
  expect(() => tx.scan(body, x4, null, { length: 2 })).toThrow(
    'sync() inside the body of a loop or branch: the body only describes a computation; call sync() after it',
  );
});

test('an async body that reads: one error, and no unhandled rejection', async () => {
  const unheard: unknown[] = [];
  const listen = (e: unknown) => unheard.push(e);
  process.on('unhandledRejection', listen);
  const body = async (h: T) => [h, await h.sum().item()];
  expect(() => tx.scan(body as never, x4, x4)).toThrow('scan: the function is async');
  await new Promise((done) => setTimeout(done, 20));
  process.off('unhandledRejection', listen);
  expect(unheard).toEqual([]);
});

test('a value that leaves the body by another way than its result', async () => {
  let stolen: T | undefined;
  tx.scan(
    (h: T, x: T) => {
      // eslint-disable-next-line tsxla/no-escaped-tensor -- the error is tested
      stolen = h.mul(x);
      return [stolen, null] as const;
    },
    tx.zeros([]),
    x4,
  );
  await expect(stolen!.item()).rejects.toThrow(
    /^a value from inside of a body \(made at .*control\.errors\.test\.ts:\d+\) is used outside of it: return it from the body/,
  );
});

test('the line of a mistake inside a body is the one that made it', () => {
  const body = (h: T, x: T) => {
    const wrong = h.add(tx.zeros([5]));
    return [wrong, x] as const;
  };
  const line = Number(/test\.ts:(\d+)/.exec(String(new Error().stack?.split('\n')[1]))![1]) - 3;
  expect(() => tx.scan(body, x4, x4)).toThrow(`control.errors.test.ts:${line}`);
});
