// Collating and packing: what becomes of the items of a batch.
import * as tx from 'tsxla';
import { bucketCollate, chunkTokens, packSequences, stackCollate } from 'tsxla/data';
import { describe, expect, test } from 'vitest';

const i64 = (shape: number[], ...x: number[]) => ({ dtype: 'i64', shape, data: BigInt64Array.from(x, BigInt) });
const collect = async <T>(source: AsyncIterable<T>): Promise<T[]> => {
  const seen: T[] = [];
  for await (const x of source) seen.push(x);
  return seen;
};

describe('stacking', () => {
  const stack = stackCollate();
  test('numbers, arrays and trees of them', async () => {
    expect(await stack([1, 2])).toEqual(i64([2], 1, 2));
    expect(await stack([1, 2.5])).toMatchObject({ dtype: 'f32', data: Float32Array.of(1, 2.5) });
    expect(await stack([true, false])).toMatchObject({ dtype: 'bool', data: Uint8Array.of(1, 0) });
    expect(await stack([Int32Array.of(1, 2), Int32Array.of(3, 4)])).toEqual({
      dtype: 'i32',
      shape: [2, 2],
      data: Int32Array.of(1, 2, 3, 4),
    });
    expect(
      await stack([
        { a: [[1], [2]], b: ['x', null] },
        { b: ['y', null], a: [[3], [4]] },
      ]),
    ).toEqual({ a: i64([2, 2, 1], 1, 2, 3, 4), b: [['x', 'y'], null] });
    expect(
      await stack([
        [tx.tensor([1, 2]), 7],
        [tx.tensor([3, 4]).mul(2), 8],
      ]),
    ).toEqual([i64([2, 2], 1, 2, 6, 8), i64([2], 7, 8)]);
  });

  test('a pair of numbers is a vector; one that is not whole makes all of them floats', async () => {
    expect(
      await stack([
        [1, 2],
        [3, 4.5],
      ]),
    ).toMatchObject({ dtype: 'f32', shape: [2, 2] });
  });

  test('a dtype for all, or by path', async () => {
    expect(await stackCollate({ dtype: 'bf16' })([1, 2])).toMatchObject({ dtype: 'bf16', shape: [2] });
    expect(await stackCollate({ dtype: { '.y': 'i32' } })([{ x: 1, y: 2 }])).toMatchObject({
      x: { dtype: 'i64' },
      y: { dtype: 'i32' },
    });
    expect(await stackCollate({ dtype: 'f32' })([Int32Array.of(1)])).toMatchObject({
      dtype: 'f32',
      data: Float32Array.of(1),
    });
  });

  test('items that do not fit together', async () => {
    const fails = (list: unknown[], message: string) => expect(stack(list)).rejects.toThrow(message);
    await fails(
      [{ x: 1 }, { y: 1 }],
      'collate: item 0 of the batch has the leaves .x, item 1 the leaves .y: all must have the same',
    );
    await fails(
      [[1, 2], [3]],
      'collate: the item is i64[2] in item 0 of the batch and i64[1] in item 1: make them equal, or pad them with bucketCollate',
    );
    await fails(
      [{ x: 'a' }, { x: 1 }],
      "the item's leaf .x is a string in some items of the batch and a number in others",
    );
    await fails(
      [{ x: new Map() }],
      'item 0 of the batch, at .x is a Map: it must be numbers, typed arrays, tensors or strings',
    );
    await fails([], 'the batch has no items');
  });
});

describe('buckets', () => {
  test('sequences are padded to the next multiple, with mask and lengths', async () => {
    const collate = bucketCollate({ multiple: 4, padValue: { '.labels': -100 }, dtype: 'i32' });
    const item = (...ids: number[]) => ({ ids, labels: ids, weight: 1 });
    expect(await collate([item(1, 2, 3), item(4, 5, 6, 7, 8)])).toEqual({
      ids: { dtype: 'i32', shape: [2, 8], data: Int32Array.of(1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 0, 0, 0) },
      labels: {
        dtype: 'i32',
        shape: [2, 8],
        data: Int32Array.of(1, 2, 3, -100, -100, -100, -100, -100, 4, 5, 6, 7, 8, -100, -100, -100),
      },
      weight: { dtype: 'i32', shape: [2], data: Int32Array.of(1, 1) },
      mask: { dtype: 'bool', shape: [2, 8], data: Uint8Array.of(1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0) },
      lengths: { dtype: 'i32', shape: [2], data: Int32Array.of(3, 5) },
    });
  });

  test('few shapes: lengths 1 to 1000 become 8 of them', async () => {
    const collate = bucketCollate();
    const shapes = new Set<string>();
    for (let n = 1; n <= 1000; n += 13) {
      const { values } = await collate([new Int32Array(n)]);
      shapes.add(String(values.shape));
    }
    expect([...shapes]).toEqual(Array.from({ length: 8 }, (_, i) => `1,${128 * (i + 1)}`));
  });

  test('given buckets; frames of several numbers; half floats', async () => {
    const collate = bucketCollate({ buckets: [8, 2], padValue: 1 });
    const frames = { dtype: 'f16' as const, shape: [3, 2], data: new Uint16Array(6) };
    const { values, lengths } = await collate([frames]);
    expect(values.shape).toEqual([1, 8, 2]);
    expect([...values.data.subarray(5, 8)]).toEqual([0, 0x3c00, 0x3c00]); // 1 as f16
    expect([...lengths.data]).toEqual([3]);
  });

  test('only the sequences that are named are padded; numbers of all items decide their dtype together', async () => {
    const collate = bucketCollate({ multiple: 4, sequences: ['.ids'] });
    const { ids, box, weight } = await collate([
      { ids: [1], box: [5, 6], weight: 1 },
      { ids: [2, 3], box: [7, 8], weight: 0.5 },
    ]);
    expect([ids.shape, box.shape, weight.dtype]).toEqual([[2, 4], [2, 2], 'f32']);
  });

  test('what is too long is an error, or cut off', async () => {
    const long = [Int32Array.from([1, 2, 3, 4, 5])];
    await expect(bucketCollate({ buckets: [2, 4] })(long)).rejects.toThrow(
      "bucketCollate: item 0 of the batch has 5 elements, more than 4: pass { tooLong: 'truncate' }, or a larger bucket",
    );
    expect(await bucketCollate({ multiple: 4, maxLength: 4, tooLong: 'truncate' })(long)).toMatchObject({
      values: { shape: [1, 4], data: Int32Array.of(1, 2, 3, 4) },
      lengths: { data: Int32Array.of(4) },
    });
    await expect(bucketCollate()([{ a: [1], b: [1, 2] }])).rejects.toThrow(
      'in item 0 of the batch .a has 1 elements and .b 2: they must be equal; { sequences: [...] } names those to be padded',
    );
    expect(() => bucketCollate({ buckets: [4], multiple: 2 })).toThrow('give one of them');
  });
});

describe('packing', () => {
  const documents = [[1, 2, 3, 4], [5, 6, 7], [8, 9], [10, 11, 12, 13, 14], [15]];
  test('documents lie side by side, each in the first row with room for it; no label reaches across a border', async () => {
    const rows = await collect(packSequences(documents, { length: 6, padValue: 99 }));
    expect(rows.map((r) => [...r.inputIds])).toEqual([
      [1, 2, 3, 4, 8, 9],
      [5, 6, 7, 99, 99, 99],
      [10, 11, 12, 13, 14, 99],
    ]);
    expect([...rows[0]!.labels]).toEqual([-100, 2, 3, 4, -100, 9]); // models shift them
    expect([...rows[0]!.segmentIds]).toEqual([1, 1, 1, 1, 2, 2]);
    expect([...rows[0]!.positionIds]).toEqual([0, 1, 2, 3, 0, 1]);
    expect([...rows[1]!.labels]).toEqual([-100, 6, 7, -100, -100, -100]);
    expect([...rows[1]!.segmentIds]).toEqual([1, 1, 1, 0, 0, 0]);
  });

  test('no token is lost or doubled, and little is padding', async () => {
    const many = Array.from({ length: 3000 }, (_, i) =>
      Array.from({ length: 2 + ((i * 37) % 61) }, (_, j) => i * 100 + j),
    );
    const rows = await collect(packSequences(many, { length: 64 }));
    const kept = rows.flatMap((r) => [...r.inputIds].filter((_, i) => r.segmentIds[i]));
    expect(kept.toSorted((a, b) => a - b)).toEqual(many.flat());
    expect(kept.length / (rows.length * 64)).toBeGreaterThan(0.95);
  });

  test('documents longer than a row; labels of their own', async () => {
    await expect(collect(packSequences(documents, { length: 4 }))).rejects.toThrow(
      "a document has 5 tokens, but a row has 4: pass { tooLong: 'split' } or 'truncate', or longer rows",
    );
    const tokens = (tooLong: 'split' | 'truncate') => collect(packSequences([[1, 2, 3, 4, 5]], { length: 3, tooLong }));
    expect((await tokens('split')).map((r) => [...r.inputIds])).toEqual([
      [1, 2, 3],
      [4, 5, 0],
    ]);
    expect((await tokens('truncate')).map((r) => [...r.inputIds])).toEqual([[1, 2, 3]]);
    const [row] = await collect(packSequences([{ tokens: [1, 2, 3], labels: [-100, -100, 3] }], { length: 3 }));
    expect([...row!.labels]).toEqual([-100, -100, 3]);
    await expect(collect(packSequences(['abc'] as never, { length: 3 }))).rejects.toThrow('takes arrays of tokens');
  });

  test('chunkTokens: one stream, cut into rows whose labels are their tokens', async () => {
    const rows = await collect(chunkTokens([[1, 2, 3], [4], [], [5, 6, 7, 8]], { length: 3, separator: 0 }));
    expect(rows.map((r) => [...r.inputIds])).toEqual([
      [1, 2, 3],
      [0, 4, 0],
      [0, 5, 6],
      [7, 8, 0],
    ]);
    expect(rows.map((r) => r.labels)).toEqual(rows.map((r) => r.inputIds));
  });
});

test('bucketCollate takes no names that it adds, and no place that is a text here and a number there', async () => {
  const collate = bucketCollate({ multiple: 4 });
  await expect(collate([{ ids: [1, 2], mask: [1, 0] }])).rejects.toThrow(
    'the items have a field mask, which bucketCollate adds',
  );
  await expect(
    collate([
      { id: 'a', ids: [1, 2] },
      { id: 7, ids: [1] },
    ]),
  ).rejects.toThrow('.id is a string in some items and a number in others');
});
