// How a program is split over devices: found from where its values lie, and from the meshes its operations name.
import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { type Mesh, Sharding, shardingOf } from '../ir/mesh.js';
import type { LoadedExecutable } from '../pjrt/index.js';
import type { Layout } from '../stablehlo/emitter.js';
import { ShardedArray } from './sharded.js';

/** What a layout is found from: the nodes that are given, a mesh that an operation names, and how results are wanted. */
export interface Placed {
  readonly given: readonly Expr[];
  readonly mesh?: Mesh | undefined;
  /** For each given node, the result that takes over its memory, or -1. */
  readonly aliases: readonly number[];
  /** Where the places lie that results go to. */
  readonly results: readonly (Sharding | undefined)[];
}

/** How a program is split over several devices; undefined where one has all values. */
export function layoutOf({ given, mesh: named, aliases, results }: Placed): Layout | undefined {
  const mesh = named ?? meshAmong(given.map((e) => e.sharding)) ?? meshAmong(results);
  if (!mesh) return undefined;
  const whole = Sharding.replicated(mesh);
  const parameters = given.map((e) => checkMesh(e.sharding, mesh, String(e.aval)) ?? whole);
  const outs = results.map((s, i) => checkMesh(s, mesh, `result ${i}`));
  aliases.forEach((to, i) => {
    if (to >= 0) outs[to] = parameters[i]!; // it lies where its old value did
  });
  return { mesh, parameters, results: outs };
}

const meshAmong = (shardings: readonly (Sharding | undefined)[]): Mesh | undefined =>
  (shardings.find((s) => s && !s.isReplicated) ?? shardings.find((s) => s))?.mesh;

function checkMesh(sharding: Sharding | undefined, mesh: Mesh, what: string): Sharding | undefined {
  if (!sharding || Sharding.replicated(sharding.mesh) === Sharding.replicated(mesh)) return sharding;
  const devices = (m: Mesh) => (m.size > 8 ? `${m.size} devices` : `devices ${m.devices.join(', ')}`);
  throw new ArgumentError(
    `${what} lies on ${devices(sharding.mesh)} (${sharding}), and others of the same program on ${devices(mesh)} (${mesh}): ` +
      'a program has one list of devices: markSharding() it over the same mesh',
  );
}

/** Numbers that tell a layout from others. */
export const keyOfLayout = (layout: Layout | undefined): number[] =>
  layout ? [...layout.parameters.map((s) => s.id), ...layout.results.map((s) => s?.id ?? 0), 1] : [];

/** Whether a value is where a program wants it; a host's array is brought along with the run. */
export const isPlaced = ({ value, sharding }: Expr, wanted: Sharding | undefined): boolean => {
  if (value instanceof ShardedArray) return value.sharding === wanted && sharding === wanted;
  return wanted ? ArrayBuffer.isView(value) && (sharding ?? wanted) === wanted : sharding === undefined;
};

/** How the results lie: as they were wanted, else as XLA chose; undefined where that does not follow the mesh. */
export function resultShardings(layout: Layout, executable: LoadedExecutable, roots: readonly Expr[]) {
  return layout.results.map(
    (wanted, i) => wanted ?? shardingOf(layout.mesh, roots[i]!.shape, executable.outputShardings[i]!),
  );
}
