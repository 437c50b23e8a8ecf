// Meshes: devices in rows and columns, whose directions have names; and shardings: which dimension of an array is split along
// which of them. Both are plain data: the devices need not be here.
import { sizeOf as product } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { Interner, newId } from '../base/intern.js';
import { type Shape, showShape } from '../base/shape.js';

/** For each dimension, the axis of the mesh it is split along, several of them (the first is the coarsest), or null. */
export type PartitionSpec = readonly (string | readonly string[] | null)[];

export interface MeshOptions {
  /** The ids of the devices, in the mesh's row-major order; 0, 1, 2, ... unless told. */
  readonly devices?: readonly number[];
}

export class Mesh {
  readonly size: number;
  readonly devices: readonly number[];
  /** Equal ones are the same mesh, in every process. */
  readonly key: string;
  /** Whether there is any: without one, nobody looks for them. */
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

  /** How many devices lie along an axis, or along several. */
  sizeOf(axes: string | readonly string[]): number {
    return typeof axes === 'string' ? this.shape[this.indexOf(axes)]! : product(axes.map((axis) => this.sizeOf(axis)));
  }

  indexOf(axis: string): number {
    const index = this.axisNames.indexOf(axis);
    if (index < 0)
      throw new ArgumentError(`${axis} is no axis of the mesh ${this}: it has ${this.axisNames.join(', ')}`);
    return index;
  }

  /** How far along axes the device at a position lies, counted over all of them. */
  along(axes: readonly string[], position: number): number {
    return axes.reduce((n, axis) => {
      const i = this.indexOf(axis);
      return n * this.shape[i]! + (Math.floor(position / product(this.shape.slice(i + 1))) % this.shape[i]!);
    }, 0);
  }

  /** The name it has in a program: the same in every process. */
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
    throw new ArgumentError(`${given}: ${size} devices along an axis: it is a whole number from 1`);
  const name = axisNames.find((x) => !/^[A-Za-z]\w*$/.test(x));
  if (name !== undefined)
    throw new ArgumentError(`${given}: an axis cannot be called '${name}': use letters, digits and _`);
  const twice = axisNames.find((x, i) => axisNames.indexOf(x) !== i);
  if (twice) throw new ArgumentError(`${given}: two axes are called ${twice}`);
}

function checkDevices({ shape, size, devices }: Mesh): void {
  if (devices.length !== size)
    throw new ArgumentError(
      `Mesh([${shape}]): ${times(shape)}${shape.length > 1 ? ` = ${size}` : ''} devices are needed, and ${devices.length} are given`,
    );
  const wrong = devices.find((id) => !Number.isSafeInteger(id) || id < 0);
  if (wrong !== undefined)
    throw new ArgumentError(`Mesh([${shape}]): there is no device ${wrong}: devices are numbered from 0`);
  if (new Set(devices).size !== size)
    throw new ArgumentError(`Mesh([${shape}]): devices [${devices}]: one is there twice`);
}

/** How an array lies on the devices of a mesh. Equal ones are the same object. */
export class Sharding {
  private constructor(
    readonly id: number,
    readonly mesh: Mesh,
    /** The axes each dimension is split along, as far as any is; none: every device has the whole. */
    readonly axes: readonly (readonly string[])[],
  ) {}

  /** Of an array of this shape; `what` is its name in errors. */
  static of(mesh: Mesh, spec: PartitionSpec, shape: Shape, what = 'a tensor'): Sharding {
    const axes = spec.map((entry) => (entry === null ? [] : typeof entry === 'string' ? [entry] : entry));
    checkSpec(mesh, axes, shape, `${what} ${showShape(shape)} cannot be split as ${showSpec(axes)} over ${mesh}`);
    return Sharding.along(mesh, product(shape) ? axes : []); // XLA does not split what has no elements
  }

  static replicated(mesh: Mesh): Sharding {
    return Sharding.along(mesh, []);
  }

  static along(mesh: Mesh, axes: readonly (readonly string[])[]): Sharding {
    const split = axes.slice(0, axes.findLastIndex((a) => a.length) + 1);
    // What every device has whole is the same on every mesh of those devices.
    const key = split.length ? `${mesh.key}: ${showSpec(split)}` : `all of ${mesh.devices}`;
    return interned.get(key, () => new Sharding(newId(), mesh, split));
  }

  get isReplicated(): boolean {
    return !this.axes.length;
  }

  /** Into how many parts each dimension is split. */
  parts(rank: number): number[] {
    return Array.from({ length: rank }, (_, d) => this.mesh.sizeOf(this.axes[d] ?? []));
  }

  /** What one device holds. */
  shardShape(shape: Shape): number[] {
    return this.parts(shape.length).map((n, d) => shape[d]! / n);
  }

  /** Where the part of the device at a position of the mesh begins. */
  startOf(shape: Shape, position: number): number[] {
    const part = this.shardShape(shape);
    return part.map((size, d) => size * this.mesh.along(this.axes[d] ?? [], position));
  }

  /** As Shardy writes it, for an array of that rank; `mesh`: another one of the same devices, for what is whole everywhere. */
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

const showSpec = (axes: readonly (readonly string[])[]): string =>
  `[${axes.map((a) => (a.length > 1 ? `[${a.join(', ')}]` : (a[0] ?? 'null'))).join(', ')}]`;

function checkSpec(mesh: Mesh, axes: readonly (readonly string[])[], shape: Shape, problem: string): void {
  if (axes.length > shape.length)
    throw new ArgumentError(
      `${problem}: the spec has ${axes.length} entries, and there are ${shape.length} dimensions`,
    );
  const all = axes.flat();
  for (const axis of all)
    if (!mesh.axisNames.includes(axis))
      throw new ArgumentError(`${problem}: ${axis} is no axis of the mesh, which has ${mesh.axisNames.join(', ')}`);
  const twice = all.find((axis, i) => all.indexOf(axis) !== i);
  if (twice) throw new ArgumentError(`${problem}: ${twice} is used twice, and an axis can split one dimension`);
  axes.forEach((list, d) => {
    const parts = mesh.sizeOf(list);
    if (shape[d]! % parts)
      throw new ArgumentError(
        `${problem}: dimension ${d} is ${shape[d]}, and ${shape[d]} / ${parts} is no whole number: pad it, or split another dimension`,
      );
  });
}

// ---- what XLA chose

/** How XLA describes a sharding: tiles of an array, and the number of the device that has each. */
export interface Tiling {
  /** 0: every device has the whole; 3: tiles. */
  readonly type: number;
  readonly dims: readonly number[];
  readonly devices: readonly number[];
  /** In place of devices: 0, 1, 2, ... in this shape, transposed. */
  readonly iota: readonly number[];
  readonly permutation: readonly number[];
}

/** The sharding that a tiling of an array is, if it follows the axes of the mesh and divides evenly. */
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

/** Every list of different axes that together have so many devices. */
function orders(mesh: Mesh, parts: number): string[][] {
  const grow = (list: string[]): string[][] =>
    mesh.sizeOf(list) === parts
      ? [list]
      : mesh.axisNames
          .filter((axis) => !list.includes(axis) && mesh.sizeOf(axis) > 1 && parts % mesh.sizeOf([...list, axis]) === 0)
          .flatMap((axis) => grow([...list, axis]));
  return grow([]);
}
