// The package as a user gets it: packed, and installed in an empty project. For tests and for scripts/runtimes.ts.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const root = path.join(import.meta.dirname, '..');
export const INSTALLED = path.join(root, 'test/fixtures/installed');

/** Packs the built package, or that of a folder under packages/; returns the tarball. */
export function pack(into: string, name = '.'): string {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', into];
  return path.join(into, execFileSync('npm', args, { cwd: path.join(root, name), encoding: 'utf8' }).trim());
}

/** A project with these packages and nothing else. */
export function project(folder: string, packages: readonly string[], about: object = { type: 'module' }): string {
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ private: true, ...about }));
  fs.writeFileSync(path.join(folder, '.npmrc'), 'fund=false\naudit=false\n');
  execFileSync('npm', ['install', '--loglevel=error', ...packages], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return folder;
}

/** The programs that try a runtime, with the examples that need nothing but the package. */
export function addPrograms(folder: string): void {
  fs.cpSync(INSTALLED, folder, { recursive: true });
  for (const name of EXAMPLES) fs.copyFileSync(path.join(root, `examples/${name}.ts`), path.join(folder, `${name}.ts`));
  fs.copyFileSync(path.join(root, 'examples/plot.ts'), path.join(folder, 'plot.ts'));
}
export const EXAMPLES = ['sine', 'kernel', 'tpu-backend', 'images'] as const;
