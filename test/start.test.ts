// What a program loads, and when. How long that takes: npm run bench:start.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { pointingAt } from '../dist/ir/source.js';

const root = path.resolve(import.meta.dirname, '..');
const files = (folder: string, ends: RegExp) =>
  fs.readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).filter((f) => ends.test(f));

/** Bundles and packages that a program has loaded at its end, as dist/nn/bundle.cjs and node_modules/koffi. */
function loadedBy(...args: string[]): string[] {
  const list = "process.on('exit', () => console.error('LOADED', JSON.stringify(Object.keys(require.cache))))";
  const preload = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-start-')), 'list.cjs');
  fs.writeFileSync(preload, list);
  try {
    const { status, stderr } = spawnSync(process.execPath, ['--require', preload, ...args], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(stderr).toContain('LOADED');
    expect(status).toBe(0);
    const all: string[] = JSON.parse(/LOADED (.*)/.exec(stderr)![1]!);
    const names = all.map((file) => path.relative(root, file).replace(/^(node_modules\/(@[^/]*\/)?[^/]*).*/, '$1'));
    return [...new Set(names)].filter((name) => !name.endsWith('list.cjs')).sort();
  } finally {
    fs.rmSync(path.dirname(preload), { recursive: true });
  }
}
const program = (text: string) => ['--input-type=module', '-e', text];
const LANGUAGE = [
  'dist/base/bundle.cjs',
  'dist/bundle.cjs',
  'dist/helpers.cjs',
  'dist/rolldown-runtime.cjs',
  'node_modules/valibot',
  'package.json', // the version
];

test('import loads the language; a namespace loads when it is touched, and what it needs', () => {
  expect(loadedBy(...program("import 'tsxla'"))).toEqual(LANGUAGE);
  expect(loadedBy(...program("import * as tx from 'tsxla'; Object.keys(tx.nn); 'Linear' in tx.nn"))).toEqual(LANGUAGE);
  const touched = loadedBy(...program("import * as tx from 'tsxla'; tx.nn.Linear"));
  expect(touched).toContain('dist/nn/bundle.cjs');
  // nn.utils clips gradients, which is optim's.
  expect(touched.filter((name) => /data|recovery|train|plan|models/.test(name))).toEqual([]);
});

test('help and version load nothing of the library but its lowest layer; a command loads what it needs', () => {
  for (const args of [['--help'], ['--version'], ['help']])
    expect(loadedBy('dist/cli/main.js', ...args)).not.toContain('dist/bundle.cjs');
  expect(loadedBy('dist/cli/main.js', 'plugins', 'list')).not.toContain('dist/recovery/bundle.cjs');
});

const namespaces = [
  ...fs.readFileSync(path.join(root, 'src/index.ts'), 'utf8').matchAll(/^export \* as (\w+) from '\.\/(.*)';/gm),
];
test.each(namespaces.map(([, name, module]) => [name!, module!]))('tx.%s is the module %s', async (name, module) => {
  const lazy = (tx as unknown as Record<string, Record<string, unknown>>)[name]!;
  const own: Record<string, unknown> = await import(pathToFileURL(path.join(root, 'dist', module)).href);
  expect(Object.keys(lazy)).toEqual(Object.keys(own));
  for (const key of Object.keys(own)) expect(lazy[key], key).toBe(own[key]);
  expect(Object.prototype.toString.call(lazy)).toBe('[object Module]');
  expect(() => Object.assign(lazy, { [Object.keys(own)[0]!]: 1 })).toThrow(TypeError);
});

test('every module of src is in dist, with the names and the classes it exports', async () => {
  const modules = files('src', /\.ts$/).filter(
    (f) => !/^cli\/main|-(thread|child|callback|network)\.ts|^data\/worker\.ts|^board\/client\//.test(f), // board/client is one file, for browsers
  );
  for (const module of modules) {
    const own: Record<string, unknown> = await import(
      pathToFileURL(path.join(root, 'dist', module.replace(/\.ts$/, '.js'))).href
    );
    for (const [name, value] of Object.entries(own))
      if (typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value)))
        expect(value.name, `${module}: ${name}`).not.toMatch(/\$\d+$/); // bundles rename what two modules declare
  }
  expect(modules.length).toBeGreaterThan(300);
});

test('stack traces point at the sources', () => {
  const code = "import * as tx from 'tsxla'; tx.ones([2, 3]).matmul(tx.ones([2, 3]))";
  const { stderr } = spawnSync(process.execPath, ['--enable-source-maps', ...program(code)], {
    cwd: root,
    encoding: 'utf8',
  });
  const [, file, line] = /at checkInner \((.*):(\d+):\d+\)/.exec(stderr) ?? [];
  expect(file).toBe(path.join(root, 'src/ops/matmul.ts'));
  expect(fs.readFileSync(file!, 'utf8').split('\n')[Number(line) - 1]).toContain('throw');
});

test('a line of our own models is that of src, not of a bundle', () => {
  const { source } = pointingAt(['nn'], () => new tx.nn.Linear(2, 2).forward(tx.ones([1, 2]))).expr;
  expect(String(source)).toMatch(/src\/nn\/linear\.ts:\d+$/);
});
