// Names of TPU slices, as people write them and as libtpu takes them.
import { CHIPS, findChip, parseTopology } from 'tsxla/plan';
import { describe, expect, test } from 'vitest';

test.each([
  ['v6e-1', 'v6e:1x1', 1, 1, 1, 'v6e-1'],
  ['v6e-8', 'v6e:2x4', 8, 8, 1, 'v6e-8'],
  ['v6e:2x4', 'v6e:2x4', 8, 8, 1, 'v6e-8'],
  ['v6e-2x4', 'v6e:2x4', 8, 8, 1, 'v6e-8'],
  ['v6e-16', 'v6e:4x4', 16, 16, 4, 'v6e-16'],
  ['v5litepod-256', 'v5e:16x16', 256, 256, 64, 'v5e-256'],
  ['v5p-16', 'v5p:2x2x2', 8, 8, 2, 'v5p-16'], // two TensorCores a chip, which work as one device
  ['v4-8', 'v4:2x2x1', 4, 4, 1, 'v4-8'],
  ['v3-32', 'v3:4x4', 16, 32, 4, 'v3-32'], // two TensorCores a chip, each a device
  ['v7x-8', 'tpu7x:2x2x1', 4, 8, 1, 'tpu7x-8'],
  ['tpu7x:2x2x1', 'tpu7x:2x2x1', 4, 8, 1, 'tpu7x-8'],
  ['Ironwood-2x2x2', 'tpu7x:2x2x2', 8, 16, 2, 'tpu7x-16'],
])('%s is %s', (text, name, chips, devices, hosts, accelerator) => {
  expect(parseTopology(text)).toMatchObject({ name, chips, devices, hosts, accelerator });
});

test('what a chip is called by its plugin is a name of it too', () => {
  expect(findChip('NVIDIA H200')).toBe(findChip('h200'));
  expect(findChip('TPU v6 lite')?.name).toBe('v6e');
});

describe('wrong names get one sentence with the arithmetic', () => {
  test.each([
    ['v6e-6', 'v6e-6: there is no v6e slice of 6 chips: use 1, 4, 8, 16, 32, 64, 128 or 256 chips'],
    [
      'v3-6',
      'v3-6: there is no v3 slice of 6 TensorCores (3 chips of 2): use 8, 32, 64, 128, 256, 512, 1024 or 2048 TensorCores',
    ],
    ['v6e:2x2x2', 'v6e:2x2x2: a v6e slice is 2-D, but 2x2x2 is 3-D: use v6e:2x2'],
    ['v5p:4x4', 'v5p:4x4: a v5p slice is 3-D, but 4x4 is 2-D: use v5p:2x2x1'],
    ['v6e:3x2', 'v6e:3x2: hosts of 2x2 chips do not fill 3x2: its first two sizes must be even'],
    ['v6e:32x32', 'v6e:32x32: 32x32 is 1024 chips, but a v6e slice has 1 to 256'],
    ['v9-8', 'v9-8: there is no TPU generation v9: use v2, v3, v4, v5e, v5p, v6e or tpu7x, as in v6e-8 or v6e:2x4'],
    [
      'v6e',
      'v6e: a topology is a generation and a size: use v2, v3, v4, v5e, v5p, v6e or tpu7x, as in v6e-8 or v6e:2x4',
    ],
  ])('%s', (text, message) => {
    expect(() => parseTopology(text)).toThrow(message);
  });
});

test('every row of the table has its sources, and slices that its own names reach', () => {
  for (const chip of CHIPS) {
    expect(chip.sources.length, chip.name).toBeGreaterThan(0);
    expect(chip.hbm.available, chip.name).toBeLessThan(1.01 * chip.hbm.bytes); // v5p: 95.7 GiB of "95"
    if (chip.platform !== 'tpu') continue;
    for (const shape of chip.slices) {
      const slice = parseTopology(`${chip.name}:${shape}`);
      expect(parseTopology(slice.accelerator)).toEqual(slice);
    }
  }
});
