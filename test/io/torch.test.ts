// torch's files: what torch saved is what is read, and nothing that a file asks for is run.
import fs from 'node:fs';
import path from 'node:path';
import { FileError, UnsafePickleError } from 'tsxla';
import { type HostArray, openTorch, readTorch, type TorchValue } from 'tsxla/io';
import { expect, test } from 'vitest';
import { writeZip } from '../../dist/io/zip.js'; // to make files that torch would not
import { expected, golden, temporaryFolder, told, toldAll } from './files.js';

const dir = temporaryFolder();
const dict = async (name: string) => (await readTorch(golden(name))) as Map<string, TorchValue>;

test.each(['every.pt', 'views.pt', 'big.pt'])('%s: every dtype, however tensors lie in their storage', async (name) => {
  expect(toldAll(await dict(name))).toEqual(expected[name]);
});

test('tied weights and views share memory, others have their own', async () => {
  const views = (await dict('views.pt')) as Map<string, HostArray>;
  const buffer = (name: string) => views.get(name)!.data.buffer;
  expect(views.get('tied1')!.data).toBe(views.get('tied2')!.data);
  expect(buffer('part')).toBe(buffer('base'));
  expect(buffer('transposed').byteLength).toBe(24);
});

test('opened, each tensor of a dict is read by itself, however it lies; also of a dict inside of another', async () => {
  await using views = await openTorch(golden('views.pt'));
  const read = async (name: string) => [name, await views.read(name)] as const;
  expect(toldAll(new Map(await Promise.all([...views.entries.keys()].map(read))))).toEqual(expected['views.pt']);
  await using model = await openTorch(golden('checkpoint.pt'), 'model');
  const arrays = (await dict('checkpoint.pt')).get('model') as Map<string, HostArray>;
  expect([...model.entries.keys()]).toEqual([...arrays.keys()]);
  for (const [name, array] of arrays) expect(await model.read(name)).toEqual(array);
  await expect(model.read('other')).rejects.toThrow('has no array other');
});

test('a checkpoint of a model and its optimizer', async () => {
  const checkpoint = await dict('checkpoint.pt');
  const want = expected['checkpoint.pt'];
  expect(toldAll(checkpoint.get('model') as Map<string, HostArray>)).toEqual(want.model);
  const optimizer = checkpoint.get('optimizer') as Map<string, TorchValue>;
  const state = optimizer.get('state') as Map<number, Map<string, HostArray>>;
  expect(told(state.get(0)!.get('exp_avg')!)).toEqual(want.exp_avg);
  const groups = (optimizer.get('param_groups') as Map<string, TorchValue>[]).map((g) => Object.fromEntries(g));
  expect(groups).toEqual(want.param_groups);
  expect([checkpoint.get('epoch'), checkpoint.get('best'), checkpoint.get('name')]).toEqual([3, 0.25, 'größe']);
});

test.each([2, 3, 4, 5])("Python's own values, pickle protocol %i", async (protocol) => {
  const values = Object.fromEntries(await dict(`values${protocol}.pt`));
  const [byPair] = [...(values['dict'] as Map<TorchValue, TorchValue>).entries()].slice(1);
  expect(byPair).toEqual([[1, 2], 'b']);
  expect({ ...values, dict: (values['dict'] as Map<number, string>).get(1) }).toEqual({
    none: null,
    yes: true,
    no: false,
    ints: [0, 255, 256, 65536, -1, 2 ** 31, 2n ** 53n, -(2n ** 70n)],
    floats: [1.5, -0, 1e300],
    text: 'a\nb 語 \u{1f600}',
    bytes: Uint8Array.of(0, 255, 10),
    empty: new Uint8Array(0),
    tuple: [1, [2, 3], []],
    list: [],
    dict: 'a',
    set: new Set([1, 2]),
    frozenset: new Set(['a']),
    bytearray: Uint8Array.of(97, 98),
    size: [2, 3],
    dtype: 'bf16',
    parameter: { dtype: 'f32', shape: [2], data: Float32Array.of(1, 1) },
    storage: { dtype: 'u8', shape: [3], data: Uint8Array.of(0, 1, 2) },
  });
});

test('a file that wants to import something is refused, and says what', async () => {
  const danger = await readTorch(golden('danger.pt')).catch((e) => e);
  expect(danger).toBeInstanceOf(UnsafePickleError);
  expect(danger.global).toBe('posix.system');
  expect(danger.message).toMatch(/danger\.pt wants to import posix\.system, .* nothing of it was run/);
  await expect(readTorch(golden('module.pt'))).rejects.toMatchObject({ global: 'torch.nn.modules.linear.Linear' });
  await expect(readTorch(golden('module.pt'))).rejects.toThrow(
    /module\.pt wants to import torch\.nn\.modules\.linear\.Linear, .* It was made by torch\.save\(model\): save the weights alone/,
  );
});

test('what cannot be read says what to do', async () => {
  const packed = 'packed is quint4x2[2,4], several elements a byte, which is not supported: convert it in torch first';
  await expect(readTorch(golden('packed.pt'))).rejects.toThrow(packed);
  await expect(readTorch(golden('every.safetensors'))).rejects.toThrow(
    'every.safetensors is not a torch file: it is a safetensors file: read it with readSafetensors',
  );
  await expect(readTorch(golden('every.npz'))).rejects.toThrow(
    'every.npz is not a whole torch file: it has no data.pkl',
  );
  await expect(readTorch(path.join(dir, 'none.pt'))).rejects.toThrow(/^cannot read .*none\.pt: ENOENT/);
  await expect(readTorch(dir)).rejects.toThrow(FileError);
});

/** A torch file of a pickle, in pieces of bytes, and a storage of 48 bytes. */
async function pickled(...pieces: (string | number[])[]): Promise<TorchValue> {
  const code = Buffer.concat(
    [...pieces, '.'].map((p) => (typeof p === 'string' ? Buffer.from(p, 'latin1') : Buffer.from(p))),
  );
  const parts: Uint8Array[] = [];
  await writeZip(
    async (bytes) => void parts.push(Uint8Array.from(bytes)),
    [
      ['archive/data.pkl', async () => [code]],
      ['archive/data/0', async () => [Buffer.alloc(48)]],
    ],
  );
  fs.writeFileSync(path.join(dir, 'made.pt'), Buffer.concat(parts));
  return readTorch(path.join(dir, 'made.pt'));
}
/** A tensor in storage 0, which is f32[12]. */
const tensor = (size: string, stride: string, offset = 'K\x00') =>
  `ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x0ctQ${offset}(${size}t(${stride}t\x89}tR`;

test('pickles that Python did not write', async () => {
  expect(await pickled('I01\nI00\nL-5L\nF1.5\n(lp0\n)\x94h\x000', [0x86], '(VX\ng0\nd')).toEqual(new Map([['X', []]]));
  expect(((await pickled(tensor('K\x02K\x03', 'K\x03K\x01'))) as HostArray).shape).toEqual([2, 3]);
  expect(await pickled('(X\x03\x00\x00\x00\xed\xa0\x80X\x03\x00\x00\x00\xed\xa0\x81l')).toEqual(['\ud800', '\ud801']);
  expect(await pickled('(F-inf\nFnan\nF-1.5e3\nl')).toEqual([-Infinity, Number.NaN, -1500]);
  for (const [what, pieces] of [
    ['wants to import builtins.eval', 'cbuiltins\neval\n'],
    ['wants to import os.system', '(ios\nsystem\n'],
    ['wants to import os.system', 'X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93'],
    ['wants to import collections.OrderedDict.fromkeys', 'ccollections\nOrderedDict.fromkeys\n'],
    ['wants to import __proto__.constructor', 'c__proto__\nconstructor\n'],
    ['its pickle has opcode 0x82', '\x82\x01'], // EXT1
    ['its pickle calls what is no function', 'K\x01)R'],
    ['it holds a function or a type', 'ccollections\nOrderedDict\n'],
    ['it holds a function or a type', '(ctorch\nFloatStorage\nl'],
    ['its pickle takes from an empty stack', 'a'],
    ['its pickle has no mark', 'e'],
    ['its pickle recalls 7, which it has not kept', 'h\x07'],
    ['its pickle is cut short at byte', 'X\xff\xff\xff\xff'],
    ['its pickle is cut short at byte', '\x8e\xff\xff\xff\xff\xff\xff\xff\xff'],
    ['its pickle has an integer of 4294967295 bytes', '\x8b\xff\xff\xff\xff'],
    ["its pickle has '1e9' for an integer", 'I1e9\n'],
    ["its pickle has '0x10' for a float", 'F0x10\n'],
    ['its pickle has a text at byte 5 that is not UTF-8', 'X\x01\x00\x00\x00\xff'],
    ['its pickle has a dict with a twice', '}(X\x01\x00\x00\x00aNX\x01\x00\x00\x00aNu'],
    ['its pickle ends at byte 2 of 4', 'N.N'],
    ['it is nested more than 500 deep', `${']'.repeat(100_000)}${'a'.repeat(99_999)}`],
    [
      'its pickle is too large for JavaScript',
      'ctorch._tensor\n_rebuild_from_type_v2\n](ctorch._tensor\n_rebuild_from_type_v2\nctorch\nTensor\neq\x00h\x00aR',
    ],
    ['it makes a parameter of what is no tensor', 'ctorch.nn.parameter\nParameter\nN\x85R'],
    [
      'it has a tensor of a type that is not known',
      'ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nctorch\nSize\n)tR',
    ],
    ['it makes a complex number of what are no numbers', 'cbuiltins\ncomplex\nX\x01\x00\x00\x00a\x85R'],
    ['it makes bytes of what is no Latin-1 text', 'c_codecs\nencode\nX\x03\x00\x00\x00\xe2\x82\xac\x85R'],
    ['it has a device without a name', 'ctorch\ndevice\nN\x85R'],
    ['it has a layout without a name', 'ctorch.serialization\n_get_layout\nX\x01\x00\x00\x00a\x85R'],
    ['it has a sparse tensor of layout (a key)', 'ctorch._utils\n_rebuild_sparse_tensor\nN)\x86R'],
    ['it has a tensor without dtype or shape', 'ctorch._utils\n_rebuild_meta_tensor_no_storage\nN)\x86R'],
    ['it holds a function or a type', 'cbuiltins\nlist\n'],
    ['its pickle sets items of what is no dict', ']K\x01K\x02s'],
    ['it holds something that holds itself', ']q\x00h\x00a'],
    ['it is nested more than 500 deep', `${']'.repeat(600)}${'a'.repeat(599)}`],
    ['its pickle copies more than it holds', `(${'N'.repeat(900)}lq\x00${'cbuiltins\nset\nh\x00\x85R'.repeat(3)}`],
    ['it refers to something outside that is no storage', 'K\x01Q'],
    ['it has f32[2, 7] in storage 0, which has 48 bytes', tensor('K\x02K\x07', 'K\x07K\x01')],
    ['it has f32[1] in storage 0', tensor('K\x01', 'K\x01', 'K\x0c')],
    ['without storage, offset, shape or strides', tensor('K\x01', 'K\x01', 'J\xff\xff\xff\xff')],
    ['without storage, offset, shape or strides', tensor('K\x01K\x01', 'K\x01')],
    ['its tensors are expanded far beyond what it holds', tensor('J\x00\x00\x00\x40', 'K\x00')], // 4 GiB out of one number
  ] as const) {
    const error = await pickled(pieces).catch((e) => e);
    expect(error, what).toBeInstanceOf(FileError);
    expect(error.message).toContain(what);
  }
});

test('cut off at any byte', async () => {
  const whole = fs.readFileSync(golden('every.pt'));
  const file = path.join(dir, 'cut.pt');
  for (let end = 0; end < whole.length; end += 29) {
    fs.writeFileSync(file, whole.subarray(0, end));
    await expect(readTorch(file)).rejects.toThrow(FileError);
  }
});
