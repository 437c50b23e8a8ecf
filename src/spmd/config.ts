// Creates meshes from configuration or the environment, checked against the available devices.
import { sizeOf } from '../base/dtype.js';
import { env, envFlag } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { Mesh } from '../ir/mesh.js';
import { defaultClient } from '../runtime/value.js';

/** The sizes of the axes. Default: 1. One of them may be -1: the remaining devices. */
export interface ParallelSizes {
  readonly data?: number;
  readonly fsdp?: number;
  readonly model?: number;
  readonly sequence?: number;
}
const AXES = ['data', 'fsdp', 'sequence', 'model'] as const;

export interface SpmdConfig {
  /** The shape of the mesh. It must agree with the sizes. */
  readonly meshShape?: readonly number[];
  readonly dataParallelSize?: number;
  readonly modelParallelSize?: number;
  readonly fsdpSize?: number;
  readonly sequenceParallelSize?: number;
}

/** The number of devices of all processes. */
export const deviceCount = async (): Promise<number> => (await defaultClient()).devices.length;

/** Whether XLA_USE_SPMD asks for it. */
export const useSpmd = (): boolean => envFlag('XLA_USE_SPMD');

/** data=2,fsdp=4, of these axes; `what` names it in errors. */
export function parseSizes(text: string, what: string, axes: readonly string[] = AXES): ParallelSizes {
  const entries = text.split(',').map((part) => {
    const [, axis, size] = /^\s*([A-Za-z]\w*)=(-1|\d+)\s*$/.exec(part) ?? [];
    if (!axis) throw new ArgumentError(`${what} ${text}: write data=2,fsdp=4`);
    if (Number(size) === 0)
      throw new ArgumentError(
        `${what} ${text}: ${axis} is 0: it must be a whole number of at least 1, or -1 for the remaining devices`,
      );
    if (!axes.includes(axis)) throw new ArgumentError(`${what} ${text}: unknown axis ${axis}: use ${axes.join(', ')}`);
    return [axis, Number(size)] as const;
  });
  const twice = entries.find(([axis], i) => entries.findIndex(([other]) => other === axis) !== i);
  if (twice) throw new ArgumentError(`${what} ${text}: ${twice[0]} is given twice`);
  return Object.fromEntries(entries);
}

/**
 * A mesh of `devices` devices with axes of these sizes, in the order data, fsdp, sequence, model; axes of size 1 are omitted.
 * `what` names the caller in errors; `fixed`: no setting can add devices.
 */
export function meshOf(sizes: ParallelSizes, devices: number, what = 'meshOf', { fixed: isFixed = false } = {}): Mesh {
  const unknown = Object.keys(sizes).find((key) => !(AXES as readonly string[]).includes(key));
  if (unknown) throw new ArgumentError(`${what}: unknown axis ${unknown}: use ${AXES.join(', ')}`);
  const given = AXES.filter((axis) => sizes[axis] !== undefined);
  for (const axis of given)
    if (!(Number.isSafeInteger(sizes[axis]) && (sizes[axis]! > 0 || sizes[axis] === -1)))
      throw new ArgumentError(
        `${what}: ${axis} is ${sizes[axis]}: it must be a whole number of at least 1, or -1 for the remaining devices`,
      );
  const open = given.filter((axis) => sizes[axis] === -1);
  if (open.length > 1)
    throw new ArgumentError(`${what}: ${open.join(' and ')} are both -1: only one axis can take the remaining devices`);
  const fixed = given.filter((axis) => sizes[axis] !== -1);
  const product = fixed.reduce((n, axis) => n * sizes[axis]!, 1);
  if (open.length ? devices % product : devices !== product) {
    const factors = fixed.map((axis) => `${axis} ${sizes[axis]}`).join(' x ');
    const wanted = fixed.length > 1 ? `${factors} = ${product}` : factors;
    const remains = open.length ? `: ${devices} / ${product} is not an integer` : '';
    throw new ArgumentError(
      `${what}: ${wanted}, and ${thereAre(devices)}${remains}${isFixed ? '' : instead(product, devices)}`,
    );
  }
  const along = (axis: (typeof AXES)[number]) => (sizes[axis] === -1 ? devices / product : (sizes[axis] ?? 1));
  const axes = AXES.filter((axis) => along(axis) > 1);
  return axes.length ? new Mesh(axes.map(along), axes) : new Mesh([1], ['data']);
}

const thereAre = (n: number): string => (n === 1 ? 'there is 1 device' : `there are ${n} devices`);
/** The advice for a number of devices that does not match. */
const instead = (wanted: number, devices: number): string =>
  wanted > devices ? ` (on a CPU, CPU_NUM_DEVICES=${wanted} makes that many virtual ones)` : '';

/**
 * The mesh of a configuration (with Ray Train's names) for this many devices. A mesh shape and sizes must agree; the error
 * shows the arithmetic.
 */
export function meshFromConfig(config: SpmdConfig, devices: number): Mesh {
  const { meshShape, dataParallelSize, modelParallelSize, fsdpSize, sequenceParallelSize } = config;
  const sizes: ParallelSizes = {
    ...(dataParallelSize !== undefined && { data: dataParallelSize }),
    ...(fsdpSize !== undefined && { fsdp: fsdpSize }),
    ...(sequenceParallelSize !== undefined && { sequence: sequenceParallelSize }),
    ...(modelParallelSize !== undefined && { model: modelParallelSize }),
  };
  if (!meshShape) return meshOf(Object.keys(sizes).length ? sizes : { data: -1 }, devices, 'the mesh');
  const product = sizeOf(meshShape);
  const shape = `meshShape [${meshShape.join(', ')}] is ${meshShape.join(' x ')} = ${product} devices`;
  if (product !== devices) throw new ArgumentError(`${shape}, and there are ${devices}${instead(product, devices)}`);
  const open = Object.values(sizes).includes(-1);
  const named = Object.entries(sizes);
  const wanted = named.reduce((n, [, size]) => n * size, 1);
  if (named.length && !open && wanted !== product)
    throw new ArgumentError(
      `${shape}, and ${named.map(([axis, size]) => `${axis} ${size}`).join(' x ')} = ${wanted}: ${wanted} is not ${product}`,
    );
  if (named.length) {
    const mesh = meshOf(sizes, devices, 'the mesh');
    const along = (list: readonly number[]) => list.filter((n) => n > 1).join(' x ');
    if (along(mesh.shape) !== along(meshShape))
      throw new ArgumentError(
        `${shape}, and the sizes make ${mesh}: write meshShape [${mesh.shape.join(', ')}], or leave it out`,
      );
    return mesh;
  }
  const axes =
    meshShape.length === 1 ? ['data'] : meshShape.length === 2 ? ['data', 'model'] : ['data', 'fsdp', 'model'];
  if (meshShape.length > 3)
    throw new ArgumentError(
      `meshShape [${meshShape.join(', ')}] has ${meshShape.length} axes: name them: new Mesh(shape, names)`,
    );
  return new Mesh(meshShape, axes);
}

/** The same from the environment: XLA_MESH_SHAPE=2,4, XLA_DATA_PARALLEL_SIZE, and likewise FSDP, MODEL_PARALLEL, SEQUENCE_PARALLEL. */
export function meshFromEnv(devices: number): Mesh {
  const number = (name: string): number | undefined => {
    const text = env(name);
    if (text === undefined) return undefined;
    if (!/^(-1|\d+)$/.test(text)) throw new ArgumentError(`${name}=${text} is not a whole number`);
    return Number(text);
  };
  const shape = env('XLA_MESH_SHAPE');
  if (shape !== undefined && !/^\d+([,x]\d+)*$/.test(shape))
    throw new ArgumentError(`XLA_MESH_SHAPE=${shape} is not a valid shape: write 2,4`);
  const sizes = {
    dataParallelSize: number('XLA_DATA_PARALLEL_SIZE'),
    fsdpSize: number('XLA_FSDP_SIZE'),
    modelParallelSize: number('XLA_MODEL_PARALLEL_SIZE'),
    sequenceParallelSize: number('XLA_SEQUENCE_PARALLEL_SIZE'),
  };
  const known = Object.fromEntries(Object.entries(sizes).filter(([, n]) => n !== undefined));
  return meshFromConfig({ ...(shape && { meshShape: shape.split(/[,x]/).map(Number) }), ...known }, devices);
}
