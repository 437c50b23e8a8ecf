// What the tests of files share: golden files, what Python says they hold, a folder of one's own.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { HostArray } from 'tsxla/io';
import type { DType } from 'tsxla/pjrt';
import { afterAll } from 'vitest';
import { hostArray } from '../../dist/base/dtype.js';

export const golden = (name: string): string => fileURLToPath(new URL(`../golden/io/${name}`, import.meta.url));

/** [dtype, shape, bytes in hex] */
export type Told = readonly [DType, readonly number[], string];
// biome-ignore lint/suspicious/noExplicitAny: JSON
export const expected: any = JSON.parse(fs.readFileSync(golden('expected.json'), 'utf8'));

export const told = ({ dtype, shape, data }: HostArray): Told => [
  dtype,
  shape,
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex'),
];
export const toldAll = (arrays: ReadonlyMap<unknown, unknown>): Record<string, Told> =>
  Object.fromEntries([...arrays].map(([name, a]) => [name, told(a as HostArray)]));

/** An array of that type, with bytes that differ. */
export function array(dtype: DType, ...shape: number[]): HostArray {
  const data = hostArray({ dtype, shape });
  new Uint8Array(data.buffer).forEach((_, i, bytes) => (bytes[i] = i * 29));
  return { dtype, shape, data };
}

/** A folder that is gone after the tests of a file. */
export function temporaryFolder(): string {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-io-'));
  afterAll(() => fs.rmSync(dir, { recursive: true }));
  return dir;
}
