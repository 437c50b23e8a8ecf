// The Python found on PATH: used only to locate its packages and to run pip.
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { env } from '../base/env.js';
import { list, parseJson, text } from '../base/json.js';

export const PYTHONS = ['python3', 'python'] as const;

// Run in '/': Python looks for modules in its folder first, and the user's may hold a json.py.
const ASK = 'import json, sys; print(json.dumps([p for p in sys.path if p.endswith("-packages")]))';

/** The folders Python packages are installed in: the active virtual environment's first, then python3's own. */
export async function sitePackages(): Promise<string[]> {
  const dirs: string[] = [];
  const venv = env('VIRTUAL_ENV');
  if (venv) {
    const lib = path.join(venv, 'lib');
    const pythons = (await readdir(lib).catch(() => [])).filter((name) => name.startsWith('python3'));
    dirs.push(...pythons.map((name) => path.join(lib, name, 'site-packages')));
  }
  for (const python of PYTHONS) {
    try {
      const { stdout } = await promisify(execFile)(python, ['-c', ASK], { cwd: '/', timeout: 20_000 });
      dirs.push(...parseJson(stdout, python, list(text)));
      break;
    } catch {
      // No Python, or a broken one: it has no packages to use.
    }
  }
  return [...new Set(dirs)];
}

/** The version of an installed package, which is in the name of its dist-info folder. */
export async function installedVersion(site: string, name: string): Promise<string | undefined> {
  const pattern = new RegExp(`^${name.replace(/-/g, '[-_.]')}-(.+)\\.dist-info$`, 'i');
  for (const folder of await readdir(site).catch(() => [])) {
    const version = pattern.exec(folder)?.[1];
    if (version) return version;
  }
  return undefined;
}
