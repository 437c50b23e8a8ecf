// Arrays in parts, for sharded checkpoints: every process saves its parts, and an index has their locations.
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { putBlock } from '../base/blocks.js';
import {
  type ArrayType,
  byteLength,
  dtypeMistake,
  type HostArray,
  hostArray,
  sameType,
  show,
  sizeOf,
  type TypedArray,
} from '../base/dtype.js';
import { CheckpointError, FileError } from '../base/errors.js';
import { checkJson, list, object, text, whole } from '../base/json.js';
import { type Shape, showShape } from '../base/shape.js';
import type { Sharding } from '../ir/mesh.js';
import { type ArraySource, piecesOf } from './array.js';
import { entryOf, type SafetensorsFile } from './safetensors.js';

/** Of an array: where it begins, and its own shape. */
export interface Part {
  readonly start: Shape;
  readonly shape: Shape;
  readonly data: TypedArray;
}
/** An array as one process saves it. */
export interface SavedArray extends ArrayType {
  parts: readonly Part[];
}
export const wholePart = ({ shape, data }: HostArray): Part => ({ start: shape.map(() => 0), shape, data });
export const isWhole = ({ shape }: ArrayType, part: { readonly shape: Shape }): boolean =>
  sizeOf(part.shape) === sizeOf(shape);

/** What the index says of an array, by its name: its type, and which file has which part under which name. */
export interface IndexEntry extends ArrayType {
  readonly parts: {
    readonly start: Shape;
    readonly shape: Shape;
    readonly file: string;
    readonly key: string;
    readonly sha256: string;
  }[];
}
export type Index = Record<string, IndexEntry>;
type PartEntry = IndexEntry['parts'][number];

/** The name of a part in its file: weight[0:4, 8:16]. */
export const keyOf = (name: string, { start, shape }: Part): string =>
  `${name}[${start.map((from, d) => `${from}:${from + shape[d]!}`).join(', ')}]`;

/** A name that no other array has. */
export function freeName(wanted: string, arrays: ReadonlyMap<string, unknown>): string {
  let name = wanted;
  for (let n = 2; arrays.has(name); n++) name = `${wanted}#${n}`;
  return name;
}

/** The parts of a sharding that a process must save: each part is saved for the first device that has it. */
export function positionsToSave(
  sharding: Sharding,
  shape: Shape,
  process: number,
  processOf: (device: number) => number,
): number[] {
  const { devices } = sharding.mesh;
  const starts = devices.map((_, position) => String(sharding.startOf(shape, position)));
  return [...devices.keys()].filter((p) => starts.indexOf(starts[p]!) === p && processOf(devices[p]!) === process);
}

const PART = object({ start: list(whole()), shape: list(whole()), file: text, key: text, sha256: text });
const ENTRY = object({ dtype: text, shape: list(whole()), parts: list(PART) });

/** An index that was read from a file; `source` names it in errors. */
export function checkIndex(index: object, source: string): asserts index is Index {
  for (const [name, entry] of Object.entries(index)) {
    const { dtype } = checkJson(entry, `${source}: ${name}`, ENTRY);
    const mistake = dtypeMistake(dtype);
    if (mistake) throw new FileError(`${source}: ${name}: ${mistake}`);
  }
}

/** Throws if the parts of an array do not cover each element once. */
export function checkCovered(index: Index): void {
  for (const [name, { parts, ...type }] of Object.entries(index)) {
    const [has, wants] = [parts.reduce((n, p) => n + sizeOf(p.shape), 0), sizeOf(type.shape)];
    if (has !== wants)
      throw new CheckpointError(`${name}, ${show(type)}, has ${wants} elements, and its ${parts.length} parts ${has}`);
    const odd = parts.find((p) => !isInside(p, type.shape)) ?? parts.find((p, i) => overlaps(p, parts.slice(0, i)));
    if (odd)
      throw new CheckpointError(
        `${name}, ${show(type)}: its part ${showShape(odd.shape)} at ${showShape(odd.start)} is not inside it, or inside another part`,
      );
  }
}
type Block = Pick<Part, 'start' | 'shape'>;
const isInside = ({ start, shape }: Block, whole: Shape): boolean =>
  start.length === whole.length && shape.length === whole.length && whole.every((n, d) => start[d]! + shape[d]! <= n);
/** Two blocks share an element if they do in every dimension. */
const overlaps = (a: Block, others: readonly Block[]): boolean =>
  others.some((b) => a.shape.every((n, d) => a.start[d]! < b.start[d]! + b.shape[d]! && b.start[d]! < a.start[d]! + n));

const CHUNK = 4 * 2 ** 20; // bytes that are hashed at once: a few milliseconds

/** The hash of an array's bytes, which come one after the other. Others have their turn meanwhile. */
export async function sha256(arrays: Iterable<TypedArray> | AsyncIterable<TypedArray>): Promise<string> {
  const hash = createHash('sha256');
  for await (const array of arrays)
    for (const piece of piecesOf(array))
      for (let at = 0; at < piece.length; at += CHUNK) {
        hash.update(piece.subarray(at, at + CHUNK));
        await setImmediate();
      }
  return hash.digest('hex');
}

/** Arrays of an index, read in any blocks: each is put together from the parts that it overlaps. Parts are verified. */
export class PartedArrays implements ArraySource {
  readonly entries: ReadonlyMap<string, IndexEntry>;
  readonly #verified = new Set<PartEntry>();

  constructor(
    readonly path: string,
    index: Index,
    private readonly open: (file: string) => Promise<SafetensorsFile>,
  ) {
    this.entries = new Map(Object.entries(index));
  }

  async read(name: string): Promise<HostArray> {
    const { shape } = entryOf(this.path, this.entries, name);
    return this.readBlock(
      name,
      shape.map(() => 0),
      shape,
    );
  }

  async readBlock(name: string, start: Shape, block: Shape): Promise<HostArray> {
    const { dtype, parts } = entryOf(this.path, this.entries, name);
    let data: TypedArray | undefined;
    for (const part of parts) {
      const from = start.map((s, d) => Math.max(s, part.start[d]!));
      const shape = start.map((s, d) => Math.min(s + block[d]!, part.start[d]! + part.shape[d]!) - from[d]!);
      if (shape.some((n) => n <= 0)) continue;
      const piece = await this.#read({ dtype, shape }, name, part, from);
      if (isWhole({ dtype, shape: block }, { shape })) return { dtype, shape: block, data: piece };
      data ??= hostArray({ dtype, shape: block });
      putBlock(
        data,
        block,
        from.map((f, d) => f - start[d]!),
        shape,
        piece,
      );
    }
    return { dtype, shape: block, data: data ?? hostArray({ dtype, shape: block }) };
  }

  /** A block of a part; it begins at `from` in the array. */
  async #read({ dtype, shape }: ArrayType, name: string, part: PartEntry, from: Shape): Promise<TypedArray> {
    const file = await this.open(part.file);
    const type = { dtype, shape: part.shape };
    const stored = file.entries.get(part.key);
    if (!stored || !sameType(stored, type))
      throw new CheckpointError(`${part.file} has no ${part.key}, ${show(type)}: it belongs to another checkpoint`);
    const verify = async (arrays: Iterable<TypedArray> | AsyncIterable<TypedArray>) => {
      if ((await sha256(arrays)) !== part.sha256)
        throw new CheckpointError(`${name} in ${part.file} has changed since it was saved`);
      this.#verified.add(part);
    };
    if (isWhole(type, { shape })) {
      const { data } = await file.read(part.key);
      await verify([data]);
      return data;
    }
    if (!this.#verified.has(part)) await verify(rowsOf(file, part.key, type));
    return (
      await file.readBlock(
        part.key,
        from.map((f, d) => f - part.start[d]!),
        shape,
      )
    ).data;
  }
}

/** An array's rows, some at a time. */
async function* rowsOf(file: SafetensorsFile, key: string, type: ArrayType): AsyncGenerator<TypedArray> {
  const rows = type.shape[0]!;
  const step = Math.max(1, Math.floor((CHUNK * rows) / byteLength(type)));
  for (let i = 0; i < rows; i += step) yield (await file.readRange(key, i, Math.min(i + step, rows))).data;
}
