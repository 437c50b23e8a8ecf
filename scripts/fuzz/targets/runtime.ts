// Files and bytes of the runtime: cached programs, the header of an MLIR module, frames between processes.
import { createHash } from 'node:crypto';
import { deflateSync, inflateSync } from 'node:zlib';
import { devicesOf, encodeCompileOptions } from 'tsxla/pjrt';
import { FORMAT, keyOf } from '../../../dist/runtime/cache-key.js';
import { listEntries, readEntry } from '../../../dist/runtime/cache-store.js';
import { type Mutate, mutateBytes, oneOf } from '../bytes.js';
import { mutateJson } from '../json.js';
import type { Files, Target } from '../target.js';

const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

// ---- cached programs: MAGIC, the SHA-256 of all that follows, the header's length, the header, the text packed, the executable

const INGREDIENTS = {
  ...{ format: FORMAT, program: '0'.repeat(64), options: { numReplicas: 1 }, defaults: {} },
  flags: { XLA_FLAGS: ['--a=b'] },
  plugin: { platform: 'cpu', version: '1', api: '0.1', size: 5, sha256: '1'.repeat(64) },
  devices: { 'cpu 0': 1 },
};
const KEY = keyOf(INGREDIENTS);
const ENTRY = `${KEY}.program`;
const MAGIC = Buffer.from(`tsxla-${FORMAT}\n`, 'latin1');
const HEADER = MAGIC.length + 32 + 4;
const TEXT = 'module @m { func.func public @main() { return } }\n'.repeat(4);

function entry(): Buffer {
  const [text, executable] = [deflateSync(TEXT), Buffer.alloc(300, 'executable')];
  const header = {
    ...{ key: KEY, name: 'm', created: '2026-01-01T00:00:00.000Z', compileSeconds: 0.5 },
    ...{ inputs: ['f32[4]'], outputs: ['f32[4]', 'i32[]'] },
    ingredients: INGREDIENTS,
    sizes: { text: TEXT.length, compressed: text.length, executable: executable.length },
  };
  return sealed(
    Buffer.concat([MAGIC, Buffer.alloc(32), joined(Buffer.from(JSON.stringify(header)), text, executable)]),
  );
}
const joined = (header: Buffer, ...rest: readonly Buffer[]): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  return Buffer.concat([length, header, ...rest]);
};
const sealed = (b: Buffer): Buffer =>
  b.length < HEADER
    ? b
    : Buffer.concat([
        b.subarray(0, MAGIC.length),
        sha256(b.subarray(MAGIC.length + 32)),
        b.subarray(MAGIC.length + 32),
      ]);
const endOf = (b: Buffer): number => (b.length < HEADER ? b.length + 1 : HEADER + b.readUInt32LE(HEADER - 4));

const header: Mutate = (b, random, others) => {
  const end = endOf(b);
  if (end > b.length) return undefined;
  const mutant = mutateJson(b.subarray(HEADER, end), random, others)!;
  return {
    bytes: Buffer.concat([b.subarray(0, HEADER - 4), joined(mutant.bytes, b.subarray(end))]),
    what: `header: ${mutant.what}`,
  };
};

interface Entry {
  readonly header: { readonly sizes: { text: number; compressed: number; executable: number }; readonly key: string };
  readonly text: string;
  readonly executable: Uint8Array;
}
const program: Target = {
  name: 'program-cache',
  about: 'compiled programs on the disk',
  covers: [],
  make: () => [new Map([[ENTRY, entry()]])],
  mutate: () => oneOf(header, header, header, mutateBytes),
  seal: (files: Files) => void files.set(ENTRY, sealed(files.get(ENTRY)!)),
  async read(folder): Promise<Entry | undefined> {
    const [listed] = await listEntries(folder);
    for (const list of [listed?.header?.inputs, listed?.header?.outputs]) list?.map((type) => type.length);
    const stored = await readEntry(folder, KEY);
    return stored && { header: stored.header, text: stored.text(), executable: stored.executable };
  },
  legal({ after, value }) {
    const b = after.get(ENTRY)!;
    const { header, text, executable } = value as Entry;
    if (!sealed(b).equals(b)) return 'read, and its checksum is wrong';
    const told = JSON.parse(b.toString('utf8', HEADER, endOf(b)).replace(/^\ufeff/, ''));
    const { compressed, executable: size } = told.sizes;
    if (endOf(b) + compressed + size !== b.length) return 'read, and its sizes do not add up';
    const start = b.length - size;
    if (!b.subarray(start).equals(executable)) return 'another executable than the file';
    if (inflateSync(b.subarray(start - compressed, start)).toString() !== text) return 'another text than the file';
    const lists = [told.inputs, told.outputs].every(Array.isArray);
    return lists && header.key === KEY && typeof told.name === 'string' ? undefined : 'a header that is none';
  },
};

// ---- the header of a module

const MODULE = (attributes: string): Buffer =>
  Buffer.from(
    `module @step ${attributes} {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n    return %a : tensor<4xf32>\n  }\n}\n`,
  );
const NUMBERS = [
  '0',
  '1',
  '2',
  '-1',
  '007',
  '1.5',
  '1e9',
  '65536',
  '100000',
  '2147483648',
  '4294967296',
  '9007199254740993',
  '9'.repeat(400),
];
const attribute: Mutate = (b, random) => {
  const text = b.toString();
  const numbers = [...text.matchAll(/= (\d+)/g)];
  const m = random.pick(numbers);
  const [name, n] = [random.pick(['partitions', 'replicas']), random.pick(NUMBERS)];
  const changes: (() => string)[] = [
    () => (m ? `${text.slice(0, m.index)}= ${n}${text.slice(m.index + m[0].length)}` : text),
    () => text.replace('attributes {', `attributes {mhlo.num_${name} = ${n} : i32, `),
    () => text.replace('{', `attributes {mhlo.num_${name} = ${n} : i64} {`),
    () => text.replaceAll(' = ', random.pick(['=', '  =\n', ' = -', ' = "', '\t=\t'])),
    () =>
      text.replace(
        'module',
        random.pick([
          '// module attributes {mhlo.num_partitions = 8 : i32}\nmodule',
          'Module',
          '\n\nmodule',
          `${' '.repeat(50_000)}module`,
        ]),
      ),
    () =>
      text.replace(
        '@step',
        `@"${random.pick(['a {', 'attributes {mhlo.num_replicas = 3 : i32}', 'x'.repeat(50_000)])}"`,
      ),
    () => `${'module @a '.repeat(random.pick([2, 20_000]))}${text}`,
  ];
  return { bytes: Buffer.from(random.pick(changes)()), what: `attributes changed (${name} ${n.slice(0, 30)})` };
};

interface Devices {
  readonly devices: { readonly numPartitions?: number; readonly numReplicas?: number };
  readonly options: Uint8Array;
}
const mlir: Target = {
  name: 'mlir',
  about: 'mhlo.num_partitions and num_replicas of a StableHLO module, and the compile options made of them',
  covers: ['tsxla/pjrt devicesOf', 'tsxla/pjrt encodeCompileOptions'],
  named: false, // a program is a text here: it has no file
  make: () =>
    [
      '',
      'attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}',
      'attributes {mhlo.num_replicas = 2 : i32}',
    ].map((attributes) => new Map([['a.mlir', MODULE(attributes)]])),
  mutate: () => oneOf(attribute, attribute, attribute, mutateBytes),
  async read(_, files): Promise<Devices> {
    const devices = devicesOf(files.get('a.mlir')!.toString());
    return { devices, options: encodeCompileOptions(devices) };
  },
  legal({ before, after, value }) {
    const { devices } = value as Devices;
    const wrong = Object.entries(devices).find(([, n]) => !Number.isSafeInteger(n) || n < 1);
    if (wrong) return `${wrong[0]} is ${wrong[1]}`;
    return before.get('a.mlir')!.equals(after.get('a.mlir')!) ? 'other devices of the same text' : undefined;
  },
};

export const RUNTIME: readonly Target[] = [program, mlir];
