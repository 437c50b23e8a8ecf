// Names of TPU slices: Google Cloud's (v6e-8) and libtpu's (v6e:2x4).

import { CHIPS, type Chip, findChip } from './chips.js';
import { sizeOf } from './dtype.js';
import { ArgumentError } from './errors.js';
import { plural } from './format.js';

export interface Slice {
  /** libtpu's name: 'v6e:2x4'. */
  readonly name: string;
  readonly chip: Chip;
  /** The shape in chips. */
  readonly shape: readonly number[];
  readonly chips: number;
  readonly devices: number;
  /** The number of machines, each with its own process. */
  readonly hosts: number;
  /** Google Cloud's name: 'v6e-8'. */
  readonly accelerator: string;
}

const sizes = (shape: string) => shape.split('x').map(Number);
const perChip = (chip: Chip) => (chip.counts === 'chips' ? 1 : chip.tensorCoresPerChip);
const count = (chip: Chip, shape: readonly number[]) => sizeOf(shape) * perChip(chip);
const all = (items: readonly unknown[]) => `${items.slice(0, -1).join(', ')} or ${items.at(-1)}`;

/** 'v6e-8', 'v6e:2x4', 'v6e-2x4', 'v5p-16' (16 TensorCores: 8 chips), 'tpu7x:2x2x1', 'v7x-8'. */
export function parseTopology(text: string): Slice {
  const [, generation = '', size = ''] = /^\s*([a-z]\w*)[-:](\d+(?:x\d+)*)\s*$/i.exec(text) ?? [];
  const chip = findChip(generation);
  if (chip?.platform !== 'tpu') {
    const known = CHIPS.filter((c) => c.platform === 'tpu').map((c) => c.name);
    const why = generation ? `there is no TPU generation ${generation}` : 'a topology is a generation and a size';
    throw new ArgumentError(`${text}: ${why}: use ${all(known)}, as in v6e-8 or v6e:2x4`);
  }
  const shape = size.includes('x') ? checkedShape(text, chip, sizes(size)) : shapeOf(text, chip, Number(size));
  const chips = sizeOf(shape);
  const { one, several } = chip.chipsPerHost;
  return {
    name: `${chip.name}:${shape.join('x')}`,
    chip,
    shape,
    chips,
    devices: chips * chip.devicesPerChip,
    hosts: chips <= one ? 1 : chips / several,
    accelerator: `${chip.name}-${count(chip, shape)}`,
  };
}

/** The slice with this number of chips or cores. */
function shapeOf(text: string, chip: Chip, wanted: number): readonly number[] {
  const shapes = chip.slices.map(sizes);
  const found = shapes.find((shape) => count(chip, shape) === wanted);
  if (found) return found;
  const what =
    perChip(chip) === 1
      ? plural(wanted, 'chip')
      : `${plural(wanted, 'TensorCore')} (${wanted / perChip(chip)} chips of ${perChip(chip)})`;
  const sold = shapes.map((shape) => count(chip, shape));
  throw new ArgumentError(`${text}: there is no ${chip.name} slice of ${what}: use ${all(sold)} ${chip.counts}`);
}

function checkedShape(text: string, chip: Chip, shape: readonly number[]): readonly number[] {
  const { dimensions } = chip.ici;
  const form = shape.join('x');
  if (shape.length !== dimensions) {
    throw new ArgumentError(
      `${text}: a ${chip.name} slice is ${dimensions}-D, but ${form} is ${shape.length}-D: use ${chip.name}:${chip.slices.find((s) => sizeOf(sizes(s)) >= 4)}`,
    );
  }
  const [chips, most] = [sizeOf(shape), Math.max(...chip.slices.map((s) => sizeOf(sizes(s))))];
  if (chips < 1 || chips > most) {
    throw new ArgumentError(`${text}: ${form} is ${plural(chips, 'chip')}, but a ${chip.name} slice has 1 to ${most}`);
  }
  // A host has 2x2 chips; a slice within one host may be smaller.
  const [x = 1, y = 1] = shape;
  if (chips > 2 && (x % 2 || y % 2)) {
    throw new ArgumentError(`${text}: hosts of 2x2 chips do not fill ${form}: its first two sizes must be even`);
  }
  return shape;
}
