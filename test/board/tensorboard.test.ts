// tsxla/tensorboard: its event files are those of torch.utils.tensorboard (scripts/golden/event_files.py), whatever happens to them.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { inflateSync } from 'node:zlib';
import * as tx from 'tsxla';
import { SummaryWriter } from 'tsxla/tensorboard';
import { expect, test } from 'vitest';
import { eventFiles, readEvents } from '../../dist/board/event-file.js';
import { HParamsData } from '../../dist/board/proto.js';
import { decode } from '../../dist/pjrt/proto.js';
import { scratch } from '../scratch.js';
import { goldenPath } from '../support.js';

const { newFolder } = scratch('tensorboard');
type Decoded = ReturnType<typeof eventsIn>[number];
const eventsIn = (folder: string) =>
  eventFiles(folder).flatMap((file) => [...readEvents(file)].map(({ event }) => event));
/** What there is to see of events: inherited defaults as values, the plugin's data decoded. */
const valuesIn = (folder: string) =>
  eventsIn(folder).flatMap(({ step, summary }) => (summary?.values ?? []).map((value) => ({ step, ...plain(value) })));
const plain = ({
  tag,
  simpleValue,
  histogram: h,
  tensor: t,
  metadata,
}: NonNullable<Decoded['summary']>['values'][number]) => ({
  tag,
  simpleValue,
  histogram: h && { ...h, bucketLimit: [...h.bucketLimit], bucket: [...h.bucket] },
  tensor: t && {
    dtype: t.dtype,
    floats: [...t.floats],
    doubles: [...t.doubles],
    strings: t.strings.map(String),
    dims: t.shape?.dims.map((d) => d.size),
  },
  plugin: metadata?.plugin?.name,
  hparams: metadata?.plugin?.name === 'hparams' ? decode(HParamsData, metadata.plugin.content) : undefined,
});
const scalarsIn = (folder: string) => valuesIn(folder).map(({ tag, step, simpleValue }) => [tag, step, simpleValue]);

test('writes what torch writes', async () => {
  const folder = newFolder();
  const values = [-1.5, 0, 1e-13, 0.25, 0.25, 3, 700];
  await using w = new SummaryWriter(folder);
  w.addScalar('loss', 0.5, 1, { walltime: 1_700_000_001 });
  w.addScalar('loss', 0.25, 2, { walltime: 1_700_000_002 });
  w.addScalar('new', 0.1, 3, { newStyle: true });
  w.addScalar('double', 0.1, 3, { newStyle: true, doublePrecision: true });
  w.addHistogram('standard', values, 4);
  w.addHistogram('positive', tx.tensor(values.slice(3), { dtype: 'f64' }), 4); // read while others wait
  w.addHistogram('ten', values, 4, { bins: 10 });
  w.addHistogram('edges', values, 4, { bins: [-2, 0, 0.25, 3] });
  w.addHistogram('few', values, 4, { maxBins: 100 });
  w.addHistogram('equal', [2, 2, 2], 4, { bins: 4 });
  w.addText('note', '**bold** <b>ü</b>', 5);
  const domain = { hparamDomainDiscrete: { lr: [0.1, 0.2] } };
  w.addHparams({ lr: 0.1, name: 'a' }, { loss: 0.25 }, { ...domain, runName: 'hparams', globalStep: 7 });
  await w.flush();
  const torch = goldenPath('event-files');
  expect(valuesIn(folder)).toEqual(valuesIn(torch));
  expect(valuesIn(path.join(folder, 'hparams'))).toEqual(valuesIn(path.join(torch, 'hparams')));
  expect(
    eventsIn(folder)
      .slice(1, 3)
      .map((e) => e.wallTime),
  ).toEqual([1_700_000_001, 1_700_000_002]);
  expect(eventsIn(folder)[0]!.fileVersion).toBe('brain.Event:2');
});

/** The pixels of a PNG whose rows are not filtered. */
function pixelsOf(png: Uint8Array): number[][] {
  const bytes = Buffer.from(png);
  const [width, height, channels] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20), bytes[25] === 6 ? 4 : 3];
  const rows = inflateSync(bytes.subarray(41, 41 + bytes.readUInt32BE(33)));
  return Array.from({ length: height }, (_, y) => {
    const at = y * (width * channels + 1);
    expect(rows[at]).toBe(0);
    return [...rows.subarray(at + 1, at + 1 + width * channels)];
  });
}
test('images: any order of dimensions, grey and colours', async () => {
  const folder = newFolder();
  await using w = new SummaryWriter(folder);
  const rgb = tx.tensor([[[0, 0.5, 1]], [[1, 0, 0]], [[0.25, 2, -1]]]); // [3, 1, 3]
  w.addImage('chw', rgb, 1);
  w.addImage('hwc', rgb.permute([1, 2, 0]).to('bf16'), 1, { dataformats: 'HWC' });
  w.addImage(
    'grey',
    tx.tensor(
      [
        [1, 2],
        [3, 4],
      ],
      { dtype: 'u8' },
    ),
    1,
    { dataformats: 'HW' },
  );
  w.addImage('rgba', tx.tensor([9, 8, 7, 6], { dtype: 'u8' }).reshape([4, 1, 1]), 1);
  await w.flush();
  const images = eventsIn(folder).flatMap((e) => e.summary?.values.map((v) => v.image!) ?? []);
  const row = [0, 255, 63, 127, 0, 255, 255, 0, 0];
  expect(images.map((i) => pixelsOf(i.encoded))).toEqual([
    [row],
    [row],
    [
      [1, 1, 1, 2, 2, 2],
      [3, 3, 3, 4, 4, 4],
    ],
    [[9, 8, 7, 6]],
  ]);
  expect(images.map((i) => [i.width, i.height, i.colorspace])).toEqual([
    [3, 1, 3],
    [3, 1, 3],
    [2, 2, 3],
    [1, 1, 4],
  ]);
  expect(() => w.addImage('two', tx.zeros([2, 1, 1]))).toThrow(
    'addImage: two: it has 2 channels: it must have 1 (grey), 3 (RGB) or 4 (RGBA)',
  );
  expect(() => w.addImage('flat', tx.zeros([2]))).toThrow("the image is f32[2], but dataformats 'CHW' has 3 letters");
});

test('tensors are read in the background, and nothing overtakes them', async () => {
  const folder = newFolder();
  const w = new SummaryWriter(folder);
  w.addScalar('a', tx.tensor(1).add(1), 1);
  w.addScalar('b', 3, 2);
  w.addScalars('both', { x: 1, y: tx.tensor(2) }, 3);
  await w.close();
  expect(scalarsIn(folder)).toEqual([
    ['a', 1, 2],
    ['b', 2, 3],
  ]);
  expect(scalarsIn(path.join(folder, 'both_x'))).toEqual([['both', 3, 1]]);
  expect(scalarsIn(path.join(folder, 'both_y'))).toEqual([['both', 3, 2]]);
  expect(() => w.addScalar('late', 1, 4)).toThrow(/cannot write .*: it was closed/);
});

test('a file that is cut anywhere is read up to there', async () => {
  const folder = newFolder();
  const w = new SummaryWriter(folder);
  for (let i = 0; i < 3; i++) w.addScalar('loss', i, i);
  await w.close();
  const [file] = eventFiles(folder);
  const whole = fs.readFileSync(file!);
  let end = 0;
  const ends = [...readEvents(file!)].map(({ record }) => (end += record.length));
  for (let length = 0; length <= whole.length; length++) {
    fs.writeFileSync(file!, whole.subarray(0, length));
    expect([...readEvents(file!)].length).toBe(ends.filter((end) => end <= length).length);
  }
  const damaged = Buffer.from(whole);
  damaged[ends[2]! - 6]! ^= 1; // in the third event
  fs.writeFileSync(file!, damaged);
  expect([...readEvents(file!)].length).toBe(2);
});

test('what was added is there after kill -9, and a resumed run has no step twice', async () => {
  const folder = newFolder();
  const program = `import { SummaryWriter } from 'tsxla/tensorboard';
    const w = new SummaryWriter(process.argv[1]);
    for (let i = 0; i < 10; i++) w.addScalar('loss', i, i);
    process.kill(process.pid, 'SIGKILL');`;
  const cwd = path.resolve(import.meta.dirname, '../..');
  const { signal } = spawnSync(process.execPath, ['--input-type=module', '-e', program, folder], { cwd });
  expect(signal).toBe('SIGKILL');
  const [killed] = eventFiles(folder);
  expect(scalarsIn(folder)).toEqual(Array.from({ length: 10 }, (_, i) => ['loss', i, i]));
  fs.truncateSync(killed!, fs.statSync(killed!).size - 3); // a machine that died with it
  await using w = new SummaryWriter(folder, { purgeStep: 6 });
  for (let i = 6; i < 12; i++) w.addScalar('loss', -i, i);
  expect(scalarsIn(folder)).toEqual(Array.from({ length: 12 }, (_, i) => ['loss', i, i < 6 ? i : -i]));
  const [before, after] = eventFiles(folder); // TensorBoard reads them in this order, and forgets what it may have read before
  expect(before).toBe(killed);
  expect([...readEvents(after!)][1]!.event).toMatchObject({ step: 6, sessionLog: { status: 1 } });
});

test('what cannot be written is refused with a sentence', async () => {
  const w = new SummaryWriter(newFolder());
  expect(() => w.addScalar('loss', tx.zeros([2]), 1)).toThrow(
    'addScalar: loss is f32[2]: give a number, or a tensor with one element',
  );
  expect(() => w.addScalar('loss', 1, 0.5)).toThrow('SummaryWriter: the step is 0.5: it must be a whole number');
  expect(() => w.addHistogram('h', [], 1)).toThrow('give a non-empty tensor or list of numbers');
  expect(() => w.addHistogram('h', [1], 1, { bins: [3, 1] })).toThrow('two or more ascending edges');
  expect(() => w.addHistogram('h', [1], 1, { bins: [2, 3] })).toThrow('no value is between the edges 2 and 3');
  expect(() => new SummaryWriter(newFolder(), { purgeStep: -1 })).toThrow('purgeStep is -1');
  // @ts-expect-error: not a value of hparams
  expect(() => w.addHparams({ lr: [1] }, {})).toThrow(/addHparams: lr is .*: give a number, a string, true or false/);
  w.addHistogram('h', tx.tensor([1]), 1, { bins: [2, 3] }); // found out later
  await expect(w.close()).rejects.toThrow('no value is between');
  await w.close();
});
