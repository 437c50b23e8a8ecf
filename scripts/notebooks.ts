// Runs the notebooks headless, each in an empty folder, and stores their outputs without details of this machine.
//   npx tsx scripts/notebooks.ts [NAME ...]
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { madeOnce, pythonWith } from './python.js';

const root = path.join(import.meta.dirname, '..');
export const folder = path.join(root, 'notebooks');
/** Their kernels, and what they find in their folder. */
export const NOTEBOOKS: Readonly<Record<string, 'python3' | 'deno'>> = {
  tpu_lora_kd_wikitext1024: 'python3',
  'first-steps': 'deno',
};

export interface Output {
  readonly output_type: 'stream' | 'display_data' | 'execute_result' | 'error';
  readonly name?: 'stdout' | 'stderr';
  readonly text?: string | readonly string[];
  readonly data?: Readonly<Record<string, string | readonly string[]>>;
}
export interface Cell {
  readonly cell_type: 'markdown' | 'code';
  readonly source: string | readonly string[];
  readonly outputs?: readonly Output[];
}
export interface Notebook {
  readonly cells: readonly Cell[];
  readonly metadata: object;
}
export const textOf = (text: string | readonly string[] = ''): string =>
  typeof text === 'string' ? text : text.join('');
export const read = (file: string): Notebook => JSON.parse(fs.readFileSync(file, 'utf8'));

/** Deno, of npm: its kernel runs TypeScript. */
const DENO = 'deno@2.9.6';
function deno(): string {
  const at = madeOnce('deno', DENO, (place) => {
    fs.mkdirSync(place, { recursive: true });
    fs.writeFileSync(path.join(place, 'package.json'), '{}');
    const install = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', DENO];
    execFileSync('npm', install, { cwd: place, stdio: 'pipe' });
    execFileSync(process.execPath, ['install.cjs'], { cwd: path.join(place, 'node_modules/deno'), stdio: 'pipe' });
  });
  return path.join(at, 'node_modules/deno');
}

export interface Ran {
  readonly notebook: Notebook;
  /** Texts of this machine: what stands for them elsewhere. */
  readonly places: readonly (readonly [text: string, name: string])[];
}

/** Runs a notebook as a user who has a clone: in a folder of its own, with a home of its own. An error of a cell is thrown. */
export async function run(name: string): Promise<Ran> {
  const kernel = NOTEBOOKS[name]!;
  const venv = pythonWith('notebooks', path.join(folder, 'requirements.txt'));
  const scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-notebook-')));
  const cache = process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache');
  const bins = [path.join(venv, 'bin'), path.dirname(process.execPath)];
  if (kernel === 'deno') bins.push(deno());
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    HOME: scratch,
    XDG_CACHE_HOME: cache, // of plugins; compiled programs are its own
    TSXLA_CACHE: 'on',
    XLA_PERSISTENT_CACHE_PATH: path.join(scratch, 'programs'),
    PATH: [...bins, process.env['PATH']].join(path.delimiter),
    JUPYTER_PREFER_ENV_PATH: '1',
    TSXLA: root,
    TINY: '1',
    PJRT_DEVICE: 'CPU',
    TSXLA_LOG: '',
  };
  for (const name of ['NO_COLOR', 'FORCE_COLOR']) delete env[name]; // the kernel says
  try {
    // `import 'tsxla'` finds the clone.
    fs.mkdirSync(path.join(scratch, 'node_modules'));
    fs.symlinkSync(root, path.join(scratch, 'node_modules/tsxla'));
    fs.writeFileSync(path.join(scratch, 'package.json'), '{ "type": "module" }');
    if (kernel === 'deno') execFileSync('deno', ['jupyter', '--install'], { env, stdio: 'pipe' });
    const target = path.join(scratch, `${name}.ipynb`);
    const script = path.join(import.meta.dirname, 'run_notebook.py');
    const args = [script, path.join(folder, `${name}.ipynb`), target, scratch, kernel];
    await promisify(execFile)(path.join(venv, 'bin/python'), args, { env }); // an error has what it wrote
    const places = [
      [scratch, '~/notebooks'],
      [root, '~/tsxla'],
      [cache, '~/.cache'],
      [venv, '~/venv'],
      [os.homedir(), '~'],
    ] as const;
    return { notebook: read(target), places: places.filter(([text]) => text.length > 1) };
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

/** Without colours, machine paths, and lines of progress but the last of a command. */
export function cleaned(text: string, places: Ran['places']): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours of terminals
  let clean = text.replace(/\x1b\[[\d;]*m/g, '');
  for (const [place, name] of places) clean = clean.replaceAll(place, name);
  const lines = clean.split('\n');
  const kindOf = (line: string | undefined) => /^([\w-]+): (\d+ of \d+|.* done)/.exec(line ?? '')?.[1];
  return lines.filter((line, i) => !kindOf(line) || kindOf(line) !== kindOf(lines[i + 1])).join('\n');
}

/** What a stream wrote in a row, as one. */
function joined(outputs: readonly Output[]): Output[] {
  const all: Output[] = [];
  for (const output of outputs) {
    const last = all.at(-1);
    if (output.output_type === 'stream' && last?.name === output.name && last?.output_type === 'stream')
      all[all.length - 1] = { ...last, text: textOf(last.text) + textOf(output.text) };
    else all.push(output);
  }
  return all;
}

/** The notebook with these outputs, as it is committed. */
export function withOutputs(own: Notebook, { notebook, places }: Ran): Notebook {
  const clean = (text: string | readonly string[]) => cleaned(textOf(text), places).split(/(?<=\n)/);
  const cells = own.cells.map((cell, i) => {
    if (cell.cell_type !== 'code') return cell;
    const outputs = joined(notebook.cells[i]!.outputs!).map((output) => ({
      ...output,
      ...(output.text && { text: clean(output.text) }),
      ...(output.data && {
        data: Object.fromEntries(Object.entries(output.data).map(([type, text]) => [type, clean(text)])),
      }),
    }));
    const count = own.cells.slice(0, i + 1).filter((c) => c.cell_type === 'code').length;
    return {
      ...cell,
      execution_count: count,
      outputs: outputs.map((o) => ('execution_count' in o ? { ...o, execution_count: count } : o)),
    };
  });
  return { ...own, cells };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const names = process.argv.slice(2);
  for (const name of names.length ? names : Object.keys(NOTEBOOKS)) {
    const file = path.join(folder, `${name}.ipynb`);
    const began = performance.now();
    fs.writeFileSync(file, `${JSON.stringify(withOutputs(read(file), await run(name)), null, 1)}\n`);
    console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(0)} s`);
  }
}
