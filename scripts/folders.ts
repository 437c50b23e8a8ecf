// The folders of src, from the bottom up: files, lines, and what each imports. npx tsx scripts/folders.ts
// Fails if an import points up, or if files import each other in a circle. test/layers.test.ts asks the same.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// From the bottom up. A folder may import itself and every folder on an earlier line, less the exceptions below.
export const LAYERS = [
  ['base'],
  ['ir', 'lint'],
  ['ops/prim', 'stablehlo', 'pjrt'],
  ['autograd', 'plugins', 'plan/hlo'],
  ['kernels'],
  ['ops'],
  ['runtime'],
  ['observe'],
  ['profiler'],
  ['tensor'],
  ['step'],
  ['func'],
  ['spmd'],
  ['nn'],
  ['optim'],
  ['io'],
  ['distributions', 'fft', 'data', 'plan', 'xm'],
  ['models', 'board'],
  ['quant', 'lora', 'distill'],
  ['backend', 'train'],
  ['recovery'],
  ['plan/workloads', 'export'],
  ['cli'],
  ['.'], // src/index.ts: re-exports only
];
const ONLY: Readonly<Record<string, readonly string[]>> = {
  pjrt: ['base'],
  lint: ['base'],
  plugins: ['base', 'pjrt'],
  'plan/hlo': ['base', 'pjrt'],
  'ops/prim': ['base', 'ir'],
  autograd: ['base', 'ir', 'ops/prim'],
  kernels: ['base', 'ir', 'ops/prim', 'stablehlo'],
  ops: ['base', 'ir', 'ops/prim', 'autograd', 'kernels'],
  stablehlo: ['base', 'ir'],
};

type Graph = ReadonlyMap<string, ReadonlySet<string>>;
export interface Source {
  /** Under src. */
  readonly file: string;
  readonly folder: string;
  readonly lines: number;
  /** Files that are there when this one begins to run; and all others it names: types, and what is loaded later. */
  readonly values: ReadonlySet<string>;
  readonly others: ReadonlySet<string>;
}

const level = (folder: string) => LAYERS.findIndex((l) => l.includes(folder));
/** The folder of LAYERS that a file belongs to: the longest one that is listed. */
function folderOf(file: string): string {
  const parts = path.posix.dirname(file).split('/');
  while (parts.length > 1 && level(parts.join('/')) < 0) parts.pop();
  return parts.join('/');
}

// A statement at the beginning of a line; `import { type A }` loads its module as well, `import type` does not.
const STATIC = /^(?:import|export) (type )?(?:(?:[\w*{][^;'"]*?)? ?from )?'(\.[^']*)';/gm;
const DYNAMIC = /\bimport\('(\.[^']*)'\)/g;

/** The imports of a file's text. */
export function importsOf(file: string, text: string): Pick<Source, 'values' | 'others'> {
  const target = (spec: string) => path.posix.join(path.posix.dirname(file), spec).replace(/\.js$/, '.ts');
  const found = [...text.matchAll(STATIC)].map((m) => ({ to: target(m[2]!), isValue: !m[1] }));
  const later = [...text.matchAll(DYNAMIC)].map((m) => target(m[1]!));
  return {
    values: new Set(found.filter((f) => f.isValue).map((f) => f.to)),
    others: new Set([...found.filter((f) => !f.isValue).map((f) => f.to), ...later]),
  };
}

export function readSources(): Source[] {
  const src = fileURLToPath(new URL('../src', import.meta.url));
  return readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((f) => f.endsWith('.ts'))
    .map((f) => {
      const text = readFileSync(path.join(src, f), 'utf8');
      const file = f.replaceAll(path.sep, '/');
      return { file, folder: folderOf(file), lines: text.split('\n').length - 1, ...importsOf(file, text) };
    });
}

/** Folders that LAYERS does not list, imports of files that do not exist, and imports that point up. */
export function wrongImports(sources: readonly Source[]): string[] {
  const files = new Set(sources.map((s) => s.file));
  return sources.flatMap(({ file, folder, values, others }) => {
    if (level(folder) < 0) return [`src/${file}: LAYERS does not list the folder ${folder}`];
    return [...values, ...others].flatMap((to) => {
      const target = folderOf(to);
      if (!files.has(to)) return [`src/${file} imports ${to}, which does not exist`];
      const isBelow = ONLY[folder]?.includes(target) ?? level(target) < level(folder);
      return target === folder || isBelow ? [] : [`src/${file} imports ${target}/ (${to})`];
    });
  });
}

/** The shortest circle through each group of nodes that lead to each other, as `a -> b -> a`. */
export function cyclesOf(graph: Graph): string[] {
  const seen = new Set<string>(); // those whose circle, if any, was told
  return [...graph.keys()].flatMap((start) => {
    if (seen.has(start)) return [];
    const from = new Map<string, string>(); // the node before, on the shortest way from start
    const queue = [start];
    for (const node of queue) {
      for (const to of graph.get(node) ?? []) {
        if (from.has(to)) continue;
        from.set(to, node);
        queue.push(to);
      }
    }
    if (!from.has(start)) return [];
    const way = [start];
    do way.unshift(from.get(way[0]!)!);
    while (way[0] !== start);
    for (const node of way) seen.add(node);
    return [way.join(' -> ')];
  });
}

/** Which file loads which before it runs. */
export const valueGraph = (sources: readonly Source[]): Graph => new Map(sources.map((s) => [s.file, s.values]));

/** Which folder imports which, types too. */
export function folderGraph(sources: readonly Source[]): Graph {
  const graph = new Map(LAYERS.flat().map((folder) => [folder, new Set<string>()]));
  for (const { folder, values, others } of sources) {
    for (const to of [...values, ...others].map(folderOf)) if (to !== folder) graph.get(folder)?.add(to);
  }
  return graph;
}

function main(): void {
  const sources = readSources();
  const graph = folderGraph(sources);
  const rows = LAYERS.flat().map((folder) => {
    const own = sources.filter((s) => s.folder === folder);
    const lines = own.reduce((n, s) => n + s.lines, 0);
    const imports = [...graph.get(folder)!].sort((a, b) => level(a) - level(b)).join(' ');
    return `${folder.padEnd(16)}${`${own.length}`.padStart(6)}${`${lines}`.padStart(8)}  ${imports}`;
  });
  const lines = sources.reduce((n, s) => n + s.lines, 0);
  console.log(`${'folder'.padEnd(16)} files   lines  imports\n${rows.join('\n')}`);
  console.log(`${'all'.padEnd(16)}${`${sources.length}`.padStart(6)}${`${lines}`.padStart(8)}\n`);
  const wrong = [
    ...wrongImports(sources),
    ...cyclesOf(graph).map((c) => `folder cycle: ${c}`),
    ...cyclesOf(valueGraph(sources)).map((c) => `value cycle between files: ${c}`),
  ];
  console.log(wrong.length ? wrong.join('\n') : 'no folder cycles, no value cycles between files');
  process.exitCode = wrong.length ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
