// numpy's arrays: a strict reader to compare with, and mutations of their header.
import { type Mutate, mutateBytes, oneOf, splice } from './bytes.js';
import type { Random } from './random.js';

const MAGIC = '\x93NUMPY';

interface Split {
  readonly version: number;
  readonly header: string;
  readonly data: Buffer;
}
export function splitNpy(b: Buffer): Split | undefined {
  if (b.length < 10 || b.toString('latin1', 0, 6) !== MAGIC) return undefined;
  const version = b[6]!;
  const wide = version > 1 ? 4 : 2;
  if (b.length < 8 + wide) return undefined;
  const end = 8 + wide + b.readUIntLE(8, wide);
  if (end > b.length) return undefined;
  return { version, header: b.toString('latin1', 8 + wide, end), data: b.subarray(end) };
}

/** What a file says of itself, or undefined where it is not as numpy writes it. */
export function readNpyHeader(
  b: Buffer,
): { descr: string; fortran: boolean; shape: number[]; data: Buffer } | undefined {
  const split = splitNpy(b);
  if (!split) return undefined;
  const json = split.header
    .replaceAll("'", '"')
    .replace(/\bTrue\b/, 'true')
    .replace(/\bFalse\b/, 'false')
    .replace(/\(/g, '[')
    .replace(/\)/g, ']')
    .replace(/(\d)L/g, '$1')
    .replace(/,(\s*[\]}])/g, '$1');
  try {
    const { descr, fortran_order: fortran, shape } = JSON.parse(json);
    return { descr, fortran, shape, data: split.data };
  } catch {
    return undefined;
  }
}

function joined({ version, header, data }: Split): Buffer {
  const start = Buffer.alloc(version > 1 ? 12 : 10);
  start.write(MAGIC, 'latin1');
  start[6] = version;
  const text = Buffer.from(header, 'latin1');
  if (version > 1) start.writeUInt32LE(text.length, 8);
  else start.writeUInt16LE(text.length % 65536, 8);
  return Buffer.concat([start, text, data]);
}

const DESCRS = [
  "'<f4'",
  "'>f4'",
  "'<i8'",
  "'|b1'",
  "'<f2'",
  "'=f8'",
  "'|O'",
  "'<c8'",
  "'<U4'",
  "[('a', '<f4')]",
  "'f4'",
  "''",
  'None',
];
const SHAPES = [
  '()',
  '(0,)',
  '(-1,)',
  '(99999999999999999999,)',
  '(1e9,)',
  '(2147483648, 2147483648)',
  '(3)',
  '(1.5,)',
  '[3]',
  '(3L,)',
];
const replaced = (text: string, pattern: RegExp, by: string): string => text.replace(pattern, () => by);

/** The dict of the header changed, its length made right; the elements cut or grown to fit, half the time. */
const header: Mutate = (b, random) => {
  const split = splitNpy(b);
  if (!split) return undefined;
  const digits = [...split.header.matchAll(/\d+/g)];
  const changes: ((h: string) => string)[] = [
    (h) => replaced(h, /'descr': ('[^']*'|\[.*?\])/, `'descr': ${random.pick(DESCRS)}`),
    (h) => replaced(h, /'shape': \([^)]*\)/, `'shape': ${random.pick(SHAPES)}`),
    (h) => replaced(h, /'shape': \([^)]*\)/, `'shape': (${dims(split.data.length, random).join(', ')},)`),
    (h) => (h.includes('False') ? h.replace('False', 'True') : h.replace('True', 'False')),
    (h) => replaced(h, /(True|False)/, random.pick(['None', '1', "'True'", 'true'])),
    (h) => h.replace('{', "{'shape': (1,), "),
    (h) => h.replace('{', `{'${random.pick(['__proto__', 'x', 'descr '])}': True, `),
    (h) => h.replaceAll("'", '"'),
    (h) => h.replace(/'(descr|shape|fortran_order)'[^,]*,/, ''),
    (h) => `${' '.repeat(random.pick([1, 100, 70_000]))}${h}`,
    (h) => h.trimEnd(),
    (h) => h.replace('}', '}'.repeat(2)),
    (h) => h.replace('(', '('.repeat(random.pick([2, 10_000]))),
    (h) => `${h.slice(0, -1)}\0\n`,
    (h) => {
      const m = random.pick(digits);
      if (!m) return h;
      const by = random.pick(['9', '-1', '0', '1e9', '99999999999999999999', '4294967296', '', '1.5', '007']);
      return h.slice(0, m.index) + by + h.slice(m.index + m[0].length);
    },
  ];
  const text = random.pick(changes)(split.header);
  const said = readNpyHeader(joined({ ...split, header: text }));
  const bytes =
    said && Array.isArray(said.shape)
      ? said.shape.reduce((n, d) => n * d, Number(String(said.descr).slice(2)) || 1)
      : 0;
  const fits = random.once(2) && bytes > 0 && bytes <= 2 ** 20;
  const data = fits ? Buffer.alloc(bytes, split.data.length ? split.data : 0) : split.data;
  return {
    bytes: joined({ ...split, header: text, data }),
    what: `header ${text.trim().slice(0, 90)}${fits ? ', elements to fit' : ''}`,
  };
};
function dims(bytes: number, random: Random): number[] {
  const n = 1 + random.below(4);
  return Array.from({ length: n }, (_, i) => (i ? 1 + random.below(4) : Math.max(1, bytes >> random.below(5))));
}

const version: Mutate = (b, random) => {
  const bytes = Buffer.from(b);
  if (bytes.length < 8) return undefined;
  const value = random.pick([0, 1, 2, 3, 4, 255]);
  bytes[6 + random.below(2)] = value;
  return { bytes, what: `version ${value}` };
};
const headerLength: Mutate = (b, random) => {
  if (b.length < 12) return undefined;
  const bytes = Buffer.from(b);
  const wide = b[6]! > 1 ? 4 : 2;
  const value = random.pick([0, 1, 63, 0xffff, b.length, b.length - 10, 118 + random.below(3)]);
  bytes.writeUIntLE(value, 8, wide);
  return { bytes, what: `a header of ${value} bytes` };
};
const elements: Mutate = (b, random) => {
  const split = splitNpy(b);
  if (!split?.data.length) return undefined;
  const start = b.length - split.data.length;
  const n = random.below(9);
  return random.once(2)
    ? { bytes: splice(b, start, n), what: `${n} bytes of elements removed` }
    : { bytes: Buffer.concat([b, Buffer.alloc(n)]), what: `${n} bytes of elements added` };
};

export const mutateNpy: Mutate = oneOf(header, header, header, header, version, headerLength, elements, mutateBytes);
