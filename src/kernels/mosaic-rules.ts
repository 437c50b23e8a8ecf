// What a TPU asks of a kernel's blocks: whole tiles, and room in the memory of the core (VMEM).
import { TPU_TILE } from '../base/chips.js';
import { DTYPES, type DType, show, sizeOf } from '../base/dtype.js';
import type { Region } from './block.js';
import { isKind, type KernelProgram, type Placed } from './program.js';
import { Unsupported } from './unsupported.js';

/** What Mosaic keeps in memory. Booleans lie there as i32. */
const DTYPES_THERE = new Set<DType>(['f32', 'bf16', 'i32', 'u32', 'i16', 'u16', 'i8', 'u8', 'bool']);
export const inMemory = (dtype: DType): DType => (dtype === 'bool' ? 'i32' : dtype);
const bytesOf = (dtype: DType): number => DTYPES[inMemory(dtype)].bytes;
/** Rows of a tile: 8 of 32 bits, 16 of 16 bits, 32 of 8 bits. */
const rowsOf = (dtype: DType): number => (TPU_TILE.rows * 4) / bytesOf(dtype);

/** What the compiler gives a kernel unless it asks for more: libtpu's default on all generations is at least this. */
export const VMEM = 16 * 2 ** 20;

/** Whether every program has the same block, the whole array: it is fetched once. */
export const isWhole = ({ array, block, index, lead }: Placed): boolean =>
  !lead.some(Boolean) &&
  block.every((n, d) => n === array.shape[d]) &&
  index.results.every((r) => constantOf(index, r) === 0);
const constantOf = (region: Region, b: Region['results'][number]): unknown => {
  const s = region.body.find((each) => each.outs[0] === b);
  return s && isKind(s, 'constant') ? s.attrs.value : undefined;
};

const sizesOf = (p: Placed): number[] => p.block.map((n) => n ?? 1);
/** Bytes of a block in VMEM, where its last two dimensions are whole tiles. */
function roomOf(shape: readonly number[], dtype: DType): number {
  const [row = 1, column = 1] = [shape.at(-2), shape.at(-1)];
  const up = (n: number, to: number) => Math.ceil(n / to) * to;
  const rows = row === 1 ? 1 : up(row, rowsOf(dtype));
  return sizeOf(shape.slice(0, -2)) * rows * up(column, TPU_TILE.columns) * bytesOf(dtype);
}

/** Throws `Unsupported` with what to choose instead. */
export function checkForTpu(kernel: KernelProgram): void {
  for (const p of kernel.placed) checkTiles(p);
  for (const r of kernel.scratch) {
    checkDType(String(r), r.dtype);
    if (!r.shape.length) throw new Unsupported(`${r}: a scalar does not lie in VMEM: give it the shape [1, 1]`);
  }
  const rooms = [
    ...kernel.placed.map((p) => ({
      what: String(p.ref),
      bytes: roomOf(sizesOf(p), p.array.dtype) * (isWhole(p) ? 1 : 2),
    })),
    ...kernel.scratch.map((r) => ({ what: String(r), bytes: roomOf(r.shape, r.dtype) })),
  ];
  const total = rooms.reduce((n, r) => n + r.bytes, 0);
  if (total <= VMEM) return;
  const largest = rooms.sort((a, b) => b.bytes - a.bytes).slice(0, 3);
  const mib = (n: number) => `${(n / 2 ** 20).toFixed(1)} MiB`;
  throw new Unsupported(
    `its blocks take ${mib(total)} of VMEM, where ${mib(VMEM)} fit (each block twice: one is fetched while the other is used): choose smaller blocks; the largest are ${largest.map((r) => `${r.what}, ${mib(r.bytes)}`).join('; ')}`,
  );
}

function checkDType(what: string, dtype: DType): void {
  if (!DTYPES_THERE.has(dtype))
    throw new Unsupported(`${what}: a TPU's kernels take ${[...DTYPES_THERE].join(', ')}: convert ${dtype} outside`);
}

function checkTiles(p: Placed): void {
  const { array, block } = p;
  const what = `${p.ref.role} ${p.ref.index}`;
  checkDType(what, array.dtype);
  const said = `${what}: blocks of shape [${block.map((n) => n ?? 'null').join(', ')}] of ${show(array)}`;
  if (!array.rank) throw new Unsupported(`${what} is a scalar: give the kernel a tensor of shape [1, 1]`);
  const fits = (d: number, tile: number) => (block[d] ?? 1) % tile === 0 || (block[d] ?? 1) === array.shape[d];
  const rule = (d: number, tile: number) =>
    `${said}: dimension ${d} must be a multiple of ${tile}, or the whole ${array.shape[d]}: choose ${nearest(block[d] ?? 1, tile, array.shape[d]!)}${block[d] === null ? ', or move the dimension further to the front' : ''}`;
  if (array.rank === 1) {
    const tile = (TPU_TILE.columns * 4) / bytesOf(array.dtype);
    if (!fits(0, tile)) throw new Unsupported(rule(0, tile));
    return;
  }
  if (!fits(array.rank - 1, TPU_TILE.columns)) throw new Unsupported(rule(array.rank - 1, TPU_TILE.columns));
  const rows = rowsOf(array.dtype);
  if (!fits(array.rank - 2, rows)) throw new Unsupported(rule(array.rank - 2, rows));
}
const nearest = (n: number, tile: number, all: number): number => {
  const up = Math.ceil(n / tile) * tile;
  return Math.min(up, all);
};
