// safetensors: a strict reader to compare with, and mutations of the header, whose length is made right again.
import { type Mutate, mutateBytes, oneOf, writeSize } from './bytes.js';
import { type Json, mutateJson, Pairs, parseJson, Raw, writeJson } from './json.js';

export interface Split {
  readonly header: Buffer;
  readonly data: Buffer;
}
export function splitSafetensors(b: Buffer): Split | undefined {
  const length = b.length < 8 ? -1 : Number(b.readBigUInt64LE());
  return length < 0 || 8 + length > b.length
    ? undefined
    : { header: b.subarray(8, 8 + length), data: b.subarray(8 + length) };
}
export function joinSafetensors({ header, data }: Split): Buffer {
  const length = Buffer.alloc(8);
  writeSize(length, 0, 8, BigInt(header.length));
  return Buffer.concat([length, header, data]);
}

export interface Told {
  readonly dtype: string; // the format's name
  readonly shape: readonly number[];
  readonly bytes: Buffer;
}
/** Every array that the header names, in its order; throws where a name is there twice or a place is outside. */
export function readSafetensorsStrictly(b: Buffer): Map<string, Told> {
  const { header, data } = splitSafetensors(b) ?? {};
  const tree = header && parseJson(header.toString());
  if (!(tree instanceof Pairs)) throw new Error('no header');
  const arrays = new Map<string, Told>();
  for (const [name, entry] of tree.pairs) {
    if (name === '__metadata__') continue;
    const field = (key: string) => {
      const found = entry instanceof Pairs ? entry.pairs.findLast(([k]) => k === key) : undefined;
      return found && JSON.parse(writeJson(found[1]));
    };
    const [dtype, shape, [begin, end]] = [field('dtype'), field('shape'), field('data_offsets') ?? []];
    if (arrays.has(name) || !(begin >= 0 && end >= begin && end <= data!.length)) throw new Error(`bad entry ${name}`);
    arrays.set(name, { dtype, shape, bytes: data!.subarray(begin, end) });
  }
  return arrays;
}

/** A file of these arrays. */
export function writeSafetensorsPlainly(
  arrays: readonly (readonly [string, Told])[],
  metadata: Readonly<Record<string, string>>,
): Buffer {
  let at = 0;
  const entries = arrays.map(([name, { dtype, shape, bytes }]) => [
    name,
    { dtype, shape, data_offsets: [at, (at += bytes.length)] },
  ]);
  const header = Buffer.from(JSON.stringify({ __metadata__: metadata, ...Object.fromEntries(entries) }));
  return joinSafetensors({ header, data: Buffer.concat(arrays.map(([, { bytes }]) => bytes)) });
}

const header: Mutate = (b, random, others) => {
  const split = splitSafetensors(b);
  if (!split) return undefined;
  const mutant = mutateJson(
    split.header,
    random,
    others.flatMap((o) => splitSafetensors(o)?.header ?? []),
  );
  return mutant && { bytes: joinSafetensors({ ...split, header: mutant.bytes }), what: `header: ${mutant.what}` };
};

/** The header changed so that it still agrees with itself, or almost. */
const consistent: Mutate = (b, random) => {
  const split = splitSafetensors(b);
  if (!split) return undefined;
  let tree: Json;
  try {
    tree = parseJson(split.header.toString());
  } catch {
    return undefined;
  }
  const entries =
    tree instanceof Pairs ? tree.pairs.filter(([name, e]) => name !== '__metadata__' && e instanceof Pairs) : [];
  const pair = random.pick(entries);
  if (!pair) return undefined;
  const [name, value] = pair as [string, Pairs];
  const set = (key: string, x: Json) => {
    const found = value.pairs.find(([k]) => k === key);
    if (found) found[1] = x;
  };
  const get = (key: string) => JSON.parse(writeJson(value.pairs.find(([k]) => k === key)?.[1] ?? new Raw('null')));
  const number = (n: number) => new Raw(String(n));
  const shape = get('shape');
  if (!Array.isArray(shape)) return undefined;
  const [begin, end]: [number, number] = get('data_offsets') ?? [0, 0];
  const other = random.pick(entries)[1] as Pairs;
  const done = random.pick([
    () => {
      set('shape', [...[...shape].reverse().map(number), ...(random.once(2) ? [number(1)] : [])]);
      return 'shape turned';
    },
    () => {
      set('shape', [
        number(random.pick([2 ** 32, 2 ** 53, 2 ** 31, 2 ** 52])),
        number(random.pick([0, 2 ** 32, 2 ** 11])),
      ]);
      return 'a shape too large to count';
    },
    () => {
      set('shape', Array.from({ length: random.pick([33, 1000]) }, () => number(1)).concat(shape.map(number)));
      return 'many dimensions';
    },
    () => {
      const name = random.pick([
        'F64',
        'F32',
        'F16',
        'BF16',
        'I64',
        'U8',
        'BOOL',
        'F8_E4M3',
        'F4',
        'C64',
        'U16',
        'f32',
        '',
      ]);
      set('dtype', name);
      return `dtype ${name}`;
    },
    () => {
      const found = other.pairs.find(([k]) => k === 'data_offsets')!;
      set('data_offsets', found?.[1] ?? []);
      return 'the place of another array';
    },
    () => {
      const shift = random.pick([1, -1, 8, split.data.length, -begin]);
      set('data_offsets', [number(begin + shift), number(end + shift)]);
      return `moved by ${shift}`;
    },
    () => {
      set('data_offsets', [number(end), number(begin)]);
      return 'ends before it begins';
    },
    () => {
      set('shape', [number(0)]);
      set('data_offsets', [number(begin), number(begin)]);
      return 'without elements';
    },
    () => {
      (tree as Pairs).pairs.push([
        random.pick(['__proto__', 'constructor', '__metadata__', name, `${name}.x`, '']),
        value,
      ]);
      return 'there under a second name';
    },
    () => {
      pair[0] = random.pick(['__proto__', '__metadata__', 'toString', '', '../x', `${name}\0`]);
      return `renamed to ${JSON.stringify(pair[0])}`;
    },
  ])();
  const text = Buffer.from(writeJson(tree) + ' '.repeat(random.below(8)));
  return { bytes: joinSafetensors({ ...split, header: text }), what: `${name.slice(0, 60)}: ${done}` };
};

const data: Mutate = (b, random, others) => {
  const split = splitSafetensors(b);
  if (!split?.data.length) return undefined;
  const mutant = mutateBytes(split.data, random, others);
  return mutant && { bytes: joinSafetensors({ ...split, data: mutant.bytes }), what: `elements: ${mutant.what}` };
};
const length: Mutate = (b, random) => {
  if (b.length < 8) return undefined;
  const bytes = Buffer.from(b);
  const value = random.pick([
    0n,
    1n,
    2n,
    BigInt(b.length),
    BigInt(b.length - 8),
    2n ** 27n,
    2n ** 53n,
    2n ** 63n,
    2n ** 64n - 1n,
  ]);
  writeSize(bytes, 0, 8, value);
  return { bytes, what: `a header of ${value} bytes` };
};
export const mutateSafetensors: Mutate = oneOf(
  header,
  header,
  header,
  consistent,
  consistent,
  consistent,
  data,
  length,
  mutateBytes,
);
