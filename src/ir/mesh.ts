// Meshes: devices in a grid with named axes; and shardings: which dimension of an array is split along which axes. Both are plain
// data: the devices need not exist on this machine.
import { sizeOf as product } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { Interner, newId } from '../base/intern.js';
import { type Shape, showShape } from '../base/shape.js';

/** For each dimension, the axis of the mesh it is split along, several of them (the first is the coarsest), or null. */
export type PartitionSpec = readonly (string | readonly string[] | null)[];

/** Names of axes whose devices have different examples. */
export const BATCH_AXES: readonly string[] = ['data', 'fsdp'];

export interface MeshOptions {
  /** The ids of the devices, in the mesh's row-major order. Default: 0, 1, 2, ... */
  readonly devices?: readonly number[];
}

export class Mesh {
  readonly size: number;
  readonly devices: readonly number[];
  /** Meshes with equal keys are the same, in every process. */
  readonly key: string;
  /** Whether any mesh was created: without one, searches for meshes are skipped. */
  static exists = false;

  constructor(
    readonly shape: readonly number[],
    readonly axisNames: readonly string[],
    { devices }: MeshOptions = {},
  ) {
    checkMesh(shape, axisNames);
    this.size = product(shape);
    this.devices = devices ?? Array.from({ length: this.size }, (_, i) => i);
    checkDevices(this);
    const order = this.devices.every((id, i) => id === i) ? '' : ` on devices ${this.devices}`;
    this.key = `${axisNames.map((name, i) => `${name}=${shape[i]}`).join(', ')}${order}`;
    Mesh.exists = true;
  }

  /** The number of devices along one or several axes. */
  sizeOf(axes: string | readonly string[]): number {
    return typeof axes === 'string' ? this.shape[this.indexOf(axes)]! : product(axes.map((axis) => this.sizeOf(axis)));
  }

  indexOf(axis: string): number {
    const index = this.axisNames.indexOf(axis);
    if (index < 0)
      throw new ArgumentError(`${axis} is not an axis of the mesh ${this}, which has ${this.axisNames.join(', ')}`);
    return index;
  }

  /** The coordinate along axes of the device at a position, counted over all of them. */
  along(axes: readonly string[], position: number): number {
    return axes.reduce((n, axis) => {
      const i = this.indexOf(axis);
      return n * this.shape[i]! + (Math.floor(position / product(this.shape.slice(i + 1))) % this.shape[i]!);
    }, 0);
  }

  /** Its name in a program: the same in every process. */
  get symbol(): string {
    return `@mesh_${this.axisNames.map((name, i) => `${name}${this.shape[i]}`).join('_')}`;
  }
  get mlir(): string {
    return `sdy.mesh ${this.symbol} = <[${this.axisNames.map((name, i) => `"${name}"=${this.shape[i]}`).join(', ')}]>`;
  }

  toString(): string {
    return this.key;
  }
  toJSON(): string {
    return this.key;
  }
}

const show = (x: unknown): string => (Array.isArray(x) ? `[${x}]` : String(x));
const times = (sizes: readonly number[]): string => sizes.join(' x ');

function checkMesh(shape: readonly number[], axisNames: readonly string[]): void {
  if (!Array.isArray(shape) || !Array.isArray(axisNames))
    throw new ArgumentError(
      `Mesh(${show(shape)}, ${show(axisNames)}): sizes and names are lists: new Mesh([2, 4], ['data', 'model'])`,
    );
  const given = `Mesh([${shape}], [${axisNames}])`;
  if (shape.length !== axisNames.length || !shape.length)
    throw new ArgumentError(
      `${given}: ${shape.length} sizes and ${axisNames.length} names: each axis has a size and a name`,
    );
  const size = shape.find((n) => !Number.isSafeInteger(n) || n < 1);
  if (size !== undefined)
    throw new ArgumentError(`${given}: ${size} devices along an axis: it must be a whole number, at least 1`);
  const name = axisNames.find((x) => !/^[A-Za-z]\w*$/.test(x));
  if (name !== undefined)
    throw new ArgumentError(`${given}: an axis cannot be called '${name}': use letters, digits and _`);
  const twice = axisNames.find((x, i) => axisNames.indexOf(x) !== i);
  if (twice) throw new ArgumentError(`${given}: two axes are called ${twice}`);
}

function checkDevices({ shape, size, devices }: Mesh): void {
  if (devices.length !== size)
    throw new ArgumentError(
      `Mesh([${shape}]): ${times(shape)}${shape.length > 1 ? ` = ${size}` : ''} devices are needed, but ${devices.length} are given`,
    );
  const wrong = devices.find((id) => !Number.isSafeInteger(id) || id < 0);
  if (wrong !== undefined)
    throw new ArgumentError(`Mesh([${shape}]): there is no device ${wrong}: devices are numbered from 0`);
  if (new Set(devices).size !== size)
    throw new ArgumentError(`Mesh([${shape}]): devices [${devices}]: an id is repeated`);
}

/** How an array is distributed over the devices of a mesh. Equal ones are the same object. */
export class Sharding {
  private constructor(
    readonly id: number,
    readonly mesh: Mesh,
    /** The axes each dimension is split along, up to the last split one; empty if every device has the whole. */
    readonly axes: readonly (readonly string[])[],
  ) {}

  /** The sharding of an array of this shape; `what` is its name in errors. */
  static of(mesh: Mesh, spec: PartitionSpec, shape: Shape, what = 'a tensor'): Sharding {
    const axes = spec.map((entry) => (entry === null ? [] : typeof entry === 'string' ? [entry] : entry));
    checkSpec(mesh, axes, shape, `${what} ${showShape(shape)} cannot be split as ${showSpec(axes)} over ${mesh}`);
    return Sharding.along(mesh, product(shape) ? axes : []); // XLA does not split empty arrays
  }

  static replicated(mesh: Mesh): Sharding {
    return Sharding.along(mesh, []);
  }

  static along(mesh: Mesh, axes: readonly (readonly string[])[]): Sharding {
    const split = axes.slice(0, axes.findLastIndex((a) => a.length) + 1);
    // A replicated array is the same on every mesh of these devices.
    const key = split.length ? `${mesh.key}: ${showSpec(split)}` : `all of ${mesh.devices}`;
    return interned.get(key, () => new Sharding(newId(), mesh, split));
  }

  get isReplicated(): boolean {
    return !this.axes.length;
  }

  /** The number of parts of each dimension. */
  parts(rank: number): number[] {
    return Array.from({ length: rank }, (_, d) => this.mesh.sizeOf(this.axes[d] ?? []));
  }

  /** The shape of the part on one device. */
  shardShape(shape: Shape): number[] {
    return this.parts(shape.length).map((n, d) => shape[d]! / n);
  }

  /** The start index of the part on the device at a position of the mesh. */
  startOf(shape: Shape, position: number): number[] {
    const part = this.shardShape(shape);
    return part.map((size, d) => size * this.mesh.along(this.axes[d] ?? [], position));
  }

  /** The sharding in Shardy's format, for an array of this rank; `mesh`: another mesh of the same devices, if it is replicated. */
  mlir(rank: number, mesh = this.mesh): string {
    const dims = Array.from({ length: rank }, (_, d) => `{${(this.axes[d] ?? []).map((a) => `"${a}"`).join(', ')}}`);
    return `<${(this.isReplicated ? mesh : this.mesh).symbol}, [${dims.join(', ')}]>`;
  }

  get spec(): PartitionSpec {
    return this.axes.map((a) => (a.length > 1 ? a : (a[0] ?? null)));
  }
  toString(): string {
    return this.isReplicated ? `replicated over ${this.mesh.size} devices` : `${showSpec(this.axes)} over ${this.mesh}`;
  }
  toJSON(): string {
    return this.toString();
  }
}
const interned = new Interner<Sharding>();

export const showSpec = (axes: readonly (readonly string[])[]): string =>
  `[${axes.map((a) => (a.length > 1 ? `[${a.join(', ')}]` : (a[0] ?? 'null'))).join(', ')}]`;

function checkSpec(mesh: Mesh, axes: readonly (readonly string[])[], shape: Shape, problem: string): void {
  if (axes.length > shape.length)
    throw new ArgumentError(`${problem}: the spec has ${axes.length} entries for ${shape.length} dimensions`);
  const all = axes.flat();
  for (const axis of all)
    if (!mesh.axisNames.includes(axis))
      throw new ArgumentError(`${problem}: ${axis} is not an axis of the mesh, which has ${mesh.axisNames.join(', ')}`);
  const twice = all.find((axis, i) => all.indexOf(axis) !== i);
  if (twice) throw new ArgumentError(`${problem}: ${twice} is used twice, but an axis can split only one dimension`);
  axes.forEach((list, d) => {
    const parts = mesh.sizeOf(list);
    if (shape[d]! % parts)
      throw new ArgumentError(
        `${problem}: dimension ${d} has size ${shape[d]}, which is not divisible by ${parts}: pad it, or split another dimension`,
      );
  });
}

// ---- shardings chosen by XLA

/** XLA's description of a sharding: tiles of an array, and the id of the device that has each. */
export interface Tiling {
  /** 0: every device has the whole; 3: tiles. */
  readonly type: number;
  readonly dims: readonly number[];
  readonly devices: readonly number[];
  /** In place of devices: 0, 1, 2, ... in this shape, transposed. */
  readonly iota: readonly number[];
  readonly permutation: readonly number[];
}

/** The sharding for a tiling of an array, if it follows the axes of the mesh and divides evenly. */
export function shardingOfTiling(mesh: Mesh, shape: Shape, tiling: Tiling): Sharding | undefined {
  if (mesh.size === 1 || tiling.type === 0 || !product(shape)) return Sharding.replicated(mesh);
  if (tiling.type !== 3) return undefined;
  const tileOf = new Map(devicesOf(tiling).map((device, tile) => [device, tile]));
  const axes = shape.map((size, d): readonly string[] | undefined => {
    const parts = tiling.dims[d]!;
    const inner = product(tiling.dims.slice(d + 1));
    if (size % parts) return undefined;
    return orders(mesh, parts).find((list) =>
      mesh.devices.every((_, p) => Math.floor(tileOf.get(p)! / inner) % parts === mesh.along(list, p)),
    );
  });
  return axes.every((a) => a !== undefined) ? Sharding.along(mesh, axes) : undefined;
}

function devicesOf({ dims, devices, iota, permutation }: Tiling): readonly number[] {
  if (devices.length) return devices;
  const sizes = permutation.map((i) => iota[i]!);
  return Array.from({ length: product(dims) }, (_, at) => {
    let rest = at;
    const index = new Array<number>(iota.length).fill(0);
    for (let i = sizes.length - 1; i >= 0; i--) {
      index[permutation[i]!] = rest % sizes[i]!;
      rest = Math.floor(rest / sizes[i]!);
    }
    return index.reduce((n, x, i) => n * iota[i]! + x, 0);
  });
}

/** Every list of distinct axes with this total number of devices. */
function orders(mesh: Mesh, parts: number): string[][] {
  const grow = (list: string[]): string[][] =>
    mesh.sizeOf(list) === parts
      ? [list]
      : mesh.axisNames
          .filter((axis) => !list.includes(axis) && mesh.sizeOf(axis) > 1 && parts % mesh.sizeOf([...list, axis]) === 0)
          .flatMap((axis) => grow([...list, axis]));
  return grow([]);
}
