// What the tests of the disk cache share: programs, folders, and processes that ask the cache.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

export const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-cache-'));
/** A folder with a name of its own, that is there with mode 0700. */
export const folder = (): string => fs.mkdtempSync(path.join(scratch, 'x-'));

/** Adds a number to four others. */
export const adding = (n: number, suffix = ''): string => `module @adding {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<${n.toFixed(1)}> : tensor<4xf32>${suffix}
    %0 = stablehlo.add %a, %c : tensor<4xf32>${suffix}
    return %0 : tensor<4xf32>${suffix}
  }${suffix}
}${suffix}
`;

/** The same, with a quarter of a megabyte of random numbers to keep as well. */
export function addingMuch(n: number): string {
  const numbers = Float32Array.from({ length: 1 << 16 }, Math.random);
  const hex = Buffer.from(numbers.buffer).toString('hex');
  return `module @much {
  func.func public @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<16384x4xf32>) {
    %c = stablehlo.constant dense<${n.toFixed(1)}> : tensor<4xf32>
    %0 = stablehlo.add %a, %c : tensor<4xf32>
    %d = stablehlo.constant dense<"0x${hex}"> : tensor<16384x4xf32>
    %b = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<4xf32>) -> tensor<16384x4xf32>
    %1 = stablehlo.add %b, %d : tensor<16384x4xf32>
    return %0, %1 : tensor<4xf32>, tensor<16384x4xf32>
  }
}
`;
}

export const added = (n: number): number[] => [1, 2, 3, 4].map((x) => x + n);

export function file(text: string): string {
  const name = path.join(folder(), 'program.mlir');
  fs.writeFileSync(name, text);
  return name;
}

export interface Answer {
  readonly tier: 'disk' | 'compiled';
  readonly key: string;
  readonly result?: number[];
}
export interface Asked {
  readonly answers: readonly Answer[];
  readonly compiles: number;
  readonly hits: number;
  readonly misses: number;
  readonly stderr: string;
}

export interface Child {
  readonly process: ChildProcess;
  /** Resolves when it has said a word: 'ready', 'compiling'. */
  said(word: string): Promise<void>;
  go(): void;
  readonly done: Promise<Asked>;
}

const program = path.join(import.meta.dirname, 'fixtures/cache-child.mjs');
/** Starts a process that asks the cache in `dir` for programs. */
export function start(dir: string, files: readonly string[], how = 'now', env: Record<string, string> = {}): Child {
  const child = spawn(process.execPath, [program, how, ...files], {
    env: { ...process.env, TSXLA_CACHE: 'on', XLA_PERSISTENT_CACHE_PATH: dir, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const lines: unknown[] = [];
  let [stderr, changed] = ['', () => {}];
  child.stderr.on('data', (chunk) => (stderr += chunk));
  createInterface(child.stdout).on('line', (line) => {
    lines.push(JSON.parse(line));
    changed();
  });
  return {
    process: child,
    async said(word) {
      while (!lines.includes(word)) {
        if (child.exitCode !== null) throw new Error(`it ended without saying ${word}: ${stderr}`);
        await new Promise<void>((resolve) => {
          changed = resolve;
          child.once('close', () => resolve());
        });
      }
    },
    go: () => void child.stdin.write('go\n'),
    done: once(child, 'close').then(([code]) => {
      if (code !== 0) throw new Error(`it ended with ${code}: ${stderr}`);
      const objects = lines.filter((line) => typeof line === 'object') as (Answer & Asked)[];
      return { ...objects.at(-1)!, answers: objects.slice(0, -1), stderr };
    }),
  };
}

/** The same, to its end. */
export const ask = (dir: string, files: readonly string[], how?: string, env?: Record<string, string>) =>
  start(dir, files, how, env).done;

/** Several at once: all are started, and then told to go. */
export async function askAtOnce(count: number, dir: string, files: readonly string[]): Promise<Asked[]> {
  const children = Array.from({ length: count }, () => start(dir, files, 'wait'));
  await Promise.all(children.map((c) => c.said('ready')));
  for (const c of children) c.go();
  return Promise.all(children.map((c) => c.done));
}
