// The layout of a program on several devices, from the shardings of its values and the meshes its operations name.

import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { type Mesh, Sharding, shardingOfTiling } from '../ir/mesh.js';
import type { LoadedExecutable } from '../pjrt/index.js';
import type { Layout } from '../stablehlo/emitter.js';
import { recordOf } from './record.js';
import { ShardedArray } from './sharded.js';

/** What a layout depends on: the given nodes, the meshes that operations name, and the wanted shardings of results. */
export interface Placed {
  readonly given: readonly Expr[];
  readonly meshes?: readonly Mesh[] | undefined;
  /** For each given node, the result that takes over its memory, or -1. */
  readonly aliases: readonly number[];
  /** The shardings of the places that results go to. */
  readonly results: readonly (Sharding | undefined)[];
}

/** How a program is split over several devices; undefined if one device has all values. */
export function layoutOf({ given, meshes = [], aliases, results }: Placed): Layout | undefined {
  const lie = given.map((e) => recordOf(e).sharding);
  const mesh = meshes[0] ?? meshAmong(lie) ?? meshAmong(results);
  if (!mesh) return undefined;
  for (const other of meshes) if (!isOn(mesh, other)) throw otherDevices('a part of it', String(other), other, mesh);
  const whole = Sharding.replicated(mesh);
  const parameters = lie.map((sharding, i) => {
    if (!sharding || isOn(mesh, sharding.mesh)) return sharding ?? whole;
    if (sharding.isReplicated) return whole; // a copy on every device can be replicated on another mesh
    throw otherDevices(String(given[i]!.aval), String(sharding), sharding.mesh, mesh);
  });
  const outs = results.map((s) => (s && isOn(mesh, s.mesh) ? s : undefined)); // else it is moved when it is used
  aliases.forEach((to, i) => {
    if (to >= 0) outs[to] = parameters[i]!; // same sharding as its old value
  });
  return { mesh, parameters, results: outs };
}

const meshAmong = (shardings: readonly (Sharding | undefined)[]): Mesh | undefined =>
  (shardings.find((s) => s && !s.isReplicated) ?? shardings.find((s) => s))?.mesh;

/** Whether two meshes have the same devices in the same order. */
export const isOn = (a: Mesh, b: Mesh): boolean => Sharding.replicated(a) === Sharding.replicated(b);

function otherDevices(what: string, how: string, its: Mesh, mesh: Mesh): ArgumentError {
  const devices = (m: Mesh) => (m.size > 8 ? `${m.size} devices` : `devices ${m.devices.join(', ')}`);
  return new ArgumentError(
    `${what} is on ${devices(its)} (${how}), and others of the same program are on ${devices(mesh)} (${mesh}): ` +
      'a program has one list of devices: call markSharding() on it with the same mesh',
  );
}

/** Numbers that identify a layout. */
export const keyOfLayout = (layout: Layout | undefined): number[] =>
  layout
    ? [
        ...layout.parameters.map((s) => s.id),
        ...layout.results.map((s) => s?.id ?? 0),
        Sharding.replicated(layout.mesh).id,
      ]
    : [];

/** Whether a value is where a program expects it; a host array is uploaded with the run. */
export const isPlaced = (e: Expr, wanted: Sharding | undefined): boolean => {
  const { value, sharding } = recordOf(e);
  if (value instanceof ShardedArray) return value.sharding === wanted && (sharding ?? wanted) === wanted;
  return wanted ? ArrayBuffer.isView(value) && (sharding ?? wanted) === wanted : sharding === undefined;
};

/** The shardings of the results: as requested, else as XLA chose; undefined if that matches no mesh. */
export function resultShardings(
  { mesh, parameters, results }: Layout,
  executable: LoadedExecutable,
  roots: readonly Expr[],
  named: readonly Mesh[] = [],
): (Sharding | undefined)[] {
  const split = parameters.filter((s) => !s.isReplicated).map((s) => s.mesh);
  const meshes = [...new Map([...split, mesh, ...named].map((m) => [m.key, m])).values()];
  const chosen = (i: number) =>
    meshes.map((m) => shardingOfTiling(m, roots[i]!.shape, executable.outputShardings[i]!)).find((s) => s);
  return results.map((wanted, i) => wanted ?? chosen(i));
}
