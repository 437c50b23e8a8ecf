// Meshes over several TPU slices: fast links (ICI) inside a slice, the data center network (DCN) between them.
import { sizeOf } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { Mesh } from '../ir/mesh.js';

/**
 * A mesh of several slices: along each axis, `ici` devices of a slice for each of `dcn` slices. Devices are numbered slice by
 * slice, so that neighbours along an axis are in the same slice where possible.
 */
export function hybridMesh(ici: readonly number[], dcn: readonly number[], axisNames: readonly string[]): Mesh {
  if (ici.length !== dcn.length || ici.length !== axisNames.length)
    throw new ArgumentError(
      `hybridMesh: ${ici.length} sizes within a slice, ${dcn.length} across slices, ${axisNames.length} names: each axis has all three`,
    );
  for (const sizes of [ici, dcn]) new Mesh(sizes, axisNames); // each is a mesh of its own
  const inner = sizeOf(ici);
  const shape = ici.map((n, i) => n * dcn[i]!);
  const devices = Array.from({ length: sizeOf(shape) }, (_, position) => {
    let [slice, place] = [0, 0];
    shape.forEach((size, i) => {
      const index = Math.floor(position / sizeOf(shape.slice(i + 1))) % size;
      slice = slice * dcn[i]! + Math.floor(index / ici[i]!);
      place = place * ici[i]! + (index % ici[i]!);
    });
    return slice * inner + place;
  });
  return new Mesh(shape, axisNames, { devices });
}
