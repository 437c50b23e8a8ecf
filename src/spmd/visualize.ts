// visualizeSharding: draws which devices have which rows and columns of a tensor.
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import type { Sharding } from '../ir/mesh.js';
import type { Tensor } from '../tensor/tensor.js';
import { shardingOf } from './sharding.js';

/** The parts of a vector or matrix as text, each with its devices. */
export function visualizeSharding(tensor: Tensor): string {
  const sharding = shardingOf(tensor);
  if (!sharding) return `${tensor.aval}: on one device`;
  if (tensor.ndim < 1 || tensor.ndim > 2)
    throw new ArgumentError(
      `visualizeSharding: ${tensor.aval} has ${tensor.ndim} dimensions: only 1 or 2 can be drawn`,
    );
  return `${tensor.aval}: ${sharding}\n${drawing(sharding, tensor.shape)}`;
}

function drawing(sharding: Sharding, shape: Shape): string {
  const [rows = 1, columns = 1] = shape.length === 1 ? [1, ...sharding.parts(1)] : sharding.parts(2);
  const cells = Array.from({ length: rows }, () => Array.from({ length: columns }, (): number[] => []));
  sharding.mesh.devices.forEach((device, position) => {
    const at = shape.map((_, d) => sharding.mesh.along(sharding.axes[d] ?? [], position));
    cells[shape.length === 1 ? 0 : at[0]!]![at.at(-1)!]!.push(device);
  });
  const texts = cells.map((row) => row.map((devices) => devices.join(',')));
  const width = Math.max(...texts.flat().map((t) => t.length)) + 2;
  const line = `+${`${'-'.repeat(width)}+`.repeat(columns)}`;
  const centred = (t: string) => t.padStart((width + t.length) >> 1).padEnd(width);
  return [line, ...texts.flatMap((row) => [`|${row.map((t) => `${centred(t)}|`).join('')}`, line])].join('\n');
}
