// GGUF files of llama.cpp.
import path from 'node:path';
import { type HostArray, openGguf, readGguf, writeGguf } from 'tsxla/io';
import { mutateBytes, oneOf, otherSize, readSize, writeSize } from '../bytes.js';
import { readGgufStrictly } from '../gguf.js';
import type { Files, Target } from '../target.js';
import { alone, bytesOf, made, strictly } from './files.js';

interface Opened {
  readonly metadata: ReadonlyMap<string, unknown>;
  readonly arrays: ReadonlyMap<string, HostArray>;
  readonly raw: ReadonlyMap<string, Uint8Array>;
}

const gguf: Target = {
  name: 'gguf',
  about: "llama.cpp's GGUF: metadata, and tensors of numbers or blocks",
  covers: ['tsxla/io readGguf', 'tsxla/io openGguf', 'tsxla/io GgufFile'],
  make: async () => [alone('a.gguf')('gguf/every.gguf'), await own()],
  // Lengths, counts and offsets lie at any place of the header.
  mutate: () =>
    oneOf(mutateBytes, (b, random) => {
      if (b.length < 16) return undefined;
      const [bytes, width] = [Buffer.from(b), random.pick([4, 8])];
      const at = random.below(Math.min(b.length, 1200) - width);
      const value = otherSize(readSize(b, at, width), random);
      writeSize(bytes, at, width, value);
      return { bytes, what: `${width} bytes at ${at} set to ${value}` };
    }),
  async read(folder): Promise<Opened> {
    const file = path.join(folder, 'a.gguf');
    const { metadata, arrays } = await readGguf(file);
    await using opened = await openGguf(file);
    const raw = new Map<string, Uint8Array>();
    for (const name of opened.entries.keys()) raw.set(name, await opened.readRaw(name));
    return { metadata, arrays, raw };
  },
  legal: ({ after, value }) =>
    strictly(
      () => readGgufStrictly(after.get('a.gguf')!),
      ({ metadata, tensors }) => {
        const { raw, arrays, metadata: read } = value as Opened;
        if (String([...read.keys()]) !== String([...metadata.keys()])) return 'other keys than the file';
        if (String([...raw.keys()]) !== String([...tensors.keys()])) return 'other tensors than the file';
        for (const [name, { dims, type, bytes }] of tensors) {
          const array = arrays.get(name)!;
          if (String(array.shape) !== String(dims.toReversed())) return `${name} has shape ${array.shape}`;
          if (!bytes.equals(raw.get(name)!)) return `${name} has other bytes than the file`;
          if (type === 0 && !bytesOf(array).equals(bytes)) return `${name} has other elements than the file`;
        }
        return undefined;
      },
    ),
};
const own = (): Promise<Files> =>
  made((folder) =>
    writeGguf(
      path.join(folder, 'a.gguf'),
      {
        'a.weight': { dtype: 'f32', shape: [2, 32], data: Float32Array.from({ length: 64 }, (_, i) => i - 20) },
        'a.bias': { dtype: 'f32', shape: [2], data: Float32Array.of(1, -1) },
      },
      {
        types: { 'a.weight': 'Q8_0' },
        metadata: {
          'general.architecture': { type: 'string', value: 'llama' },
          'general.alignment': { type: 'u32', value: 64 },
          nested: { type: 'array', of: 'array', value: [{ type: 'array', of: 'u8', value: [1, 2] }] },
        },
      },
    ),
  );

export const GGUF: readonly Target[] = [gguf];
