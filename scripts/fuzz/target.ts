// What a target is: valid files, how they are damaged, how they are read, and what a reader may say of them then.
import fs from 'node:fs';
import path from 'node:path';
import type { Mutate } from './bytes.js';
import type { Random } from './random.js';

/** The files of one folder, by name. */
export type Files = Map<string, Buffer>;

export interface Case {
  /** The files before and after. */
  readonly before: Files;
  readonly after: Files;
  /** What was read of them. */
  readonly base: unknown;
  readonly value: unknown;
}

export interface Target {
  readonly name: string;
  /** What it reads, for --list. */
  readonly about: string;
  /** Public readers that it calls, as "tsxla/io readNpz". */
  readonly covers: readonly string[];
  /** Valid files: each set is one seed. */
  readonly make: () => Promise<readonly Files[]> | readonly Files[];
  /** How a file of that name is mutated. */
  readonly mutate: (name: string) => Mutate;
  /** Makes checksums and lengths right again after a mutation, so that what lies behind them is reached. */
  readonly seal?: (files: Files) => void;
  /** Reads all there is. What it gives is compared with the undamaged read. */
  readonly read: (folder: string, files: Files) => Promise<unknown>;
  /** Why a value that differs from the undamaged one is wrong; undefined where the change is one of content. */
  readonly legal: (c: Case) => string | undefined;
  /** Whether it reserves addresses that it does not use, as WebAssembly does. Default: false. */
  readonly reserves?: boolean;
  /** Whether an error must name a file or its folder. Default: true. */
  readonly named?: boolean;
}

export interface MutantFiles {
  readonly files: Files;
  readonly seed: number;
  readonly what: string;
}

/** Writes the files of a case in the place of those of another. */
export function writeFiles(dir: string, files: Files): string {
  fs.rmSync(dir, { recursive: true, force: true });
  fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
  for (const [name, bytes] of files) {
    fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
    fs.writeFileSync(path.join(dir, name), bytes, { mode: 0o600 });
  }
  return dir;
}

/** The files of a case: a pure function of the seeds and the random choices. */
export function mutantOf(target: Target, seeds: readonly Files[], random: Random): MutantFiles {
  const seed = random.below(seeds.length);
  const files = new Map(seeds[seed]!);
  const done: string[] = [];
  for (let n = random.pick([1, 1, 1, 2, 3]); n > 0; n--) {
    const name = random.pick([...files.keys()]);
    if (name === undefined) break;
    if (files.size > 1 && random.once(25)) {
      const other = random.pick([...files.keys()]);
      if (random.once(2)) files.delete(name);
      else files.set(name, files.get(other)!);
      done.push(files.has(name) ? `${name} is a copy of ${other}` : `${name} removed`);
      continue;
    }
    const alike = seeds.flatMap((s) => [...s].filter(([n]) => kindOf(n) === kindOf(name)).map(([, b]) => b));
    const mutant = target.mutate(name)(files.get(name)!, random, alike)!;
    files.set(name, mutant.bytes);
    done.push(files.size > 1 ? `${name}: ${mutant.what}` : mutant.what);
  }
  if (target.seal && !random.once(4)) {
    target.seal(files);
    done.push('re-sealed');
  }
  return { files, seed, what: done.join('; ') };
}
const kindOf = (name: string): string => name.slice(name.indexOf('.'));
