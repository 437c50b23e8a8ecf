// Reads a file of scripts/golden/opinfo.py: entries of PyTorch's operator database with samples and torch's answers.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

/** An argument as JSON: see `encode` in scripts/golden/opinfo.py. */
export type Node =
  | null
  | boolean
  | number
  | string
  | readonly Node[]
  | { readonly t: number; readonly g?: 1 }
  | { readonly w: number }
  | { readonly f: string }
  | { readonly i: string }
  | { readonly c: readonly [number, number] }
  | { readonly dtype: string }
  | { readonly d: Readonly<Record<string, Node>> }
  | { readonly s: readonly [Node, Node, Node] }
  | { readonly e: 1 }
  | { readonly x: string };
/** A result: a tensor with the distance of torch's f32 from f64 (`n`), a value that is no tensor, or nothing. */
export type Expected = { readonly t: number; readonly n?: number } | { readonly v: Node } | null;
export interface Call {
  readonly a: readonly Node[];
  readonly k?: Readonly<Record<string, Node>>;
}
export interface Case extends Call {
  readonly out?: readonly Expected[];
  readonly grad?: readonly Expected[];
  readonly grad2?: readonly Expected[];
  /** dtypes and shapes of results whose values are random. */
  readonly random?: readonly (readonly [string, readonly number[]])[];
}
export interface ErrorCase extends Call {
  /** What torch says. */
  readonly message: string;
}
export type Sampled = 'f32' | 'i64' | 'bool';
export interface Samples {
  /** How many the database has; `cases` are at most 25 of them, spread over the list. */
  readonly samples: number;
  readonly cases: readonly Case[];
  readonly skipped: Readonly<Record<string, number>>;
  readonly tolerance: readonly [rtol: number, atol: number];
}
export interface Entry {
  readonly name: string;
  readonly variant: string;
  readonly torch: string;
  readonly dtypes: Readonly<Partial<Record<Sampled, Samples>>>;
  readonly errors: readonly ErrorCase[];
  readonly errorsSkipped: Readonly<Record<string, number>>;
  readonly upToSign?: readonly number[];
}
export interface Golden {
  readonly version: string;
  readonly private: readonly string[];
  readonly tensors: readonly (readonly [dtype: string, shape: readonly number[], offset: number])[];
  readonly entries: readonly Entry[];
  readonly bytes: Uint8Array;
}

export function readGolden(file: string): Golden {
  const all = gunzipSync(readFileSync(file));
  const length = all.readUInt32LE(0);
  const bytes = new Uint8Array(all.subarray(4 + length)); // a copy: aligned
  return { ...(JSON.parse(all.toString('utf8', 4, 4 + length)) as Omit<Golden, 'bytes'>), bytes };
}

export const titleOf = ({ name, variant }: Entry): string => (variant ? `${name}.${variant}` : name);
