// Creates Python environments for slow tests and scripts, in .venv, once for each state of their requirements.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const root = path.join(import.meta.dirname, '..');

/** A folder of .venv for each state of a list: `make` fills it where there is none, and it counts when that has ended. */
export function madeOnce(name: string, list: string, make: (folder: string) => void): string {
  const folder = path.join(root, '.venv', name);
  const wanted = createHash('sha256').update(list).digest('hex');
  const stamp = path.join(folder, '.requirements');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === wanted) return folder;
  fs.rmSync(folder, { recursive: true, force: true });
  make(folder);
  fs.writeFileSync(stamp, wanted);
  return folder;
}

/** A Python environment with what a requirements file lists. */
export function pythonWith(name: string, requirements: string): string {
  return madeOnce(name, fs.readFileSync(requirements, 'utf8'), (folder) => {
    execFileSync('python3', ['-m', 'venv', folder]);
    const install = ['install', '--quiet', '--disable-pip-version-check', '-r', requirements];
    execFileSync(path.join(folder, 'bin/pip'), install, { stdio: 'pipe' }); // an error says what it wrote
  });
}
