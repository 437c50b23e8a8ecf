// GGUF: a strict reader to compare with.
export interface ToldTensor {
  readonly dims: readonly number[]; // the fastest first
  readonly type: number;
  readonly bytes: Buffer;
}
/** Elements and bytes of a block, by the number of its type. */
// biome-ignore format: a table
const BLOCKS: Readonly<Record<number, readonly [number, number]>> = {
  0: [1, 4], 1: [1, 2], 2: [32, 18], 3: [32, 20], 6: [32, 22], 7: [32, 24], 8: [32, 34], 9: [32, 36], 10: [256, 84], 11: [256, 110], 12: [256, 144],
  13: [256, 176], 14: [256, 210], 15: [256, 292], 24: [1, 1], 25: [1, 2], 26: [1, 4], 27: [1, 8], 28: [1, 8], 30: [1, 2],
};
/** Bytes of a value, by the number of its type; 8 is a text, 9 an array. */
const WIDTHS = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/** The bytes of each value of the metadata, type included, and all tensors; throws where the file is not whole. */
export function readGgufStrictly(b: Buffer): { metadata: Map<string, Buffer>; tensors: Map<string, ToldTensor> } {
  let at = 0;
  const take = (n: number): Buffer => {
    if (at + n > b.length) throw new Error('the file ends early');
    return b.subarray(at, (at += n));
  };
  const count = (): number => Number(take(8).readBigUInt64LE());
  const u32 = (): number => take(4).readUInt32LE();
  const skip = (type: number): void => {
    if (type === 8) take(count());
    else if (type === 9) {
      const of = u32();
      for (let n = count(); n > 0; n--) skip(of);
    } else {
      const width = WIDTHS[type];
      if (width === undefined) throw new Error(`a value of type ${type}`);
      take(width);
    }
  };
  if (take(4).toString('latin1') !== 'GGUF') throw new Error('another magic');
  if (![2, 3].includes(u32())) throw new Error('another version');
  const [tensorCount, pairs] = [count(), count()];
  const metadata = new Map<string, Buffer>();
  for (let i = 0; i < pairs; i++) {
    const key = take(count()).toString();
    const start = at;
    skip(u32());
    if (metadata.has(key)) throw new Error(`${key} twice`);
    metadata.set(key, b.subarray(start, at));
  }
  const alignment = metadata.get('general.alignment')?.readUInt32LE(4) ?? 32;
  const infos = Array.from({ length: tensorCount }, () => {
    const name = take(count()).toString();
    const dims = Array.from({ length: u32() }, count);
    return { name, dims, type: u32(), offset: count() };
  });
  const start = Math.ceil(at / alignment) * alignment;
  const tensors = new Map<string, ToldTensor>();
  for (const { name, dims, type, offset } of infos) {
    const [elements, bytes] = BLOCKS[type]!;
    const length = (dims.reduce((n, d) => n * d, 1) / elements) * bytes;
    if (start + offset + length > b.length || tensors.has(name)) throw new Error(`bad tensor ${name}`);
    tensors.set(name, { dims, type, bytes: b.subarray(start + offset, start + offset + length) });
  }
  return { metadata, tensors };
}
