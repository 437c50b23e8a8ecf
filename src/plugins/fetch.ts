// Fetches a plugin: pip downloads the pinned wheel, and its library is unpacked.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { PluginCorruptError, PluginFetchError } from '../base/errors.js';
import { bytes } from '../base/format.js';
import { messageOf } from '../base/thrown.js';
import { PYTHONS } from './python.js';
import { type Fetchable, libraryName, variableOf } from './table.js';

/** Called with the bytes downloaded so far and the bytes of the whole wheel. */
export type OnProgress = (done: number, total: number) => void;

export interface FetchOptions {
  readonly onProgress?: OnProgress | undefined;
  readonly signal?: AbortSignal | undefined;
}

// `python -m pip` that exits when its stdin closes: the pipe closes however this process dies, even by SIGKILL.
const PIP = `
import os, runpy, sys, threading
def end_with_parent():
    os.read(0, 1)
    os._exit(1)
threading.Thread(target=end_with_parent, daemon=True).start()
sys.argv[0] = 'pip'
runpy.run_module('pip', run_name='__main__', alter_sys=True)
`;

/** Downloads the wheel into `folder` and leaves only the library there; returns the library's file name. */
export async function fetchLibrary(what: Fetchable, folder: string, options: FetchOptions = {}): Promise<string> {
  const library = libraryName(what);
  const download = path.join(folder, 'download');
  try {
    await mkdir(download);
    const wheel = await downloadWheel(what, download, options);
    await unpack(what, wheel, folder, options.signal);
    await rm(download, { recursive: true });
    return library;
  } catch (e) {
    throw diskError(e, what, folder) ?? e;
  }
}

/** An error for a disk that is full or not writable; undefined if something else went wrong. */
export function diskError(e: unknown, what: Fetchable, folder: string): PluginFetchError | undefined {
  const { code, syscall } = e as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return new PluginFetchError(noSpace(what, folder), { cause: e });
  if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM' || code === 'ENOTDIR' || syscall === 'mkdir') {
    const text = `cannot write to ${folder}: ${messageOf(e)}. Set TSXLA_CACHE_DIR to a writable folder`;
    return new PluginFetchError(text, { cause: e });
  }
  return undefined;
}

const title = (what: Fetchable): string => `${what.package} ${what.version}`;

function noSpace(what: Fetchable, folder: string): string {
  const { size, library, beside = {} } = what.wheel;
  const unpacked = [library, ...Object.values(beside)].reduce((sum, file) => sum + file.size, 0);
  return `no space left on the disk of ${folder}: installing ${title(what)} needs ${bytes(size + unpacked)} \
(wheel ${bytes(size)}, library ${bytes(unpacked)}). Free some space, or set TSXLA_CACHE_DIR to a folder on another disk`;
}

async function downloadWheel(what: Fetchable, download: string, { onProgress, signal }: FetchOptions): Promise<string> {
  const { pip, size, sha256 } = what.wheel;
  const files = path.join(download, 'files');
  const temporary = path.join(files, 'tmp');
  const wheels = path.join(files, 'wheel');
  await mkdir(temporary, { recursive: true });
  await writeFile(
    path.join(download, 'requirements.txt'),
    `${what.package}==${what.version} --hash=sha256:${sha256}\n`,
  );
  const args = ['download', '--no-deps', '--only-binary=:all:', '--require-hashes', '-r', 'requirements.txt'];
  args.push('--platform', pip.platform, '--python-version', pip.python);
  args.push('--implementation', pip.implementation, '--abi', pip.abi, '--dest', wheels);
  args.push('--no-cache-dir', '--no-input', '--disable-pip-version-check', '--progress-bar', 'off');

  // pip prints no progress to a pipe; the file it writes grows on disk, first in TMPDIR and then in wheels.
  let watching: Promise<void> | undefined;
  const watch = async () => onProgress?.(Math.min(size, await largestFile(files)), size);
  const timer = setInterval(() => {
    watching ??= watch().finally(() => {
      watching = undefined;
    });
  }, 200);
  try {
    await runPip(what, args, download, temporary, signal);
  } finally {
    clearInterval(timer);
    await watching;
  }
  const name = (await readdir(wheels)).find((n) => n.endsWith('.whl'));
  const wheel = path.join(wheels, name ?? '');
  const got = name ? (await stat(wheel)).size : 0;
  if (got !== size) throw new PluginFetchError(halfWritten(what, `${got} of ${size} bytes`));
  onProgress?.(size, size);
  return wheel;
}

const halfWritten = (what: Fetchable, how: string): string =>
  `pip left a half-written wheel of ${title(what)} (${how}). Try again: tsxla plugins install ${what.device}`;

async function largestFile(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const sizes = names.map((name) => stat(path.join(folder, name)).then((s) => (s.isFile() ? s.size : 0)));
  return Math.max(0, ...(await Promise.all(sizes.map((size) => size.catch(() => 0)))));
}

/** Runs pip with the first Python that has it. */
async function runPip(what: Fetchable, args: string[], cwd: string, TMPDIR: string, signal?: AbortSignal) {
  const otherwise = `or set ${variableOf(what.device)} to the path of a library`;
  let withoutPip: string | undefined;
  for (const python of PYTHONS) {
    const child = spawn(python, ['-c', PIP, ...args], {
      cwd, // our own folder: a file of the user's could shadow a Python module
      env: { ...process.env, TMPDIR, PIP_REQUIRE_VIRTUALENV: '0' },
      stdio: ['pipe', 'pipe', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    });
    const result = await outcome(child);
    if (result === undefined) continue;
    if (result.code === 0) return;
    if (!/No module named '?pip/.test(result.output)) throw pipError(what, result.output, cwd);
    withoutPip ??= python;
  }
  const reason = withoutPip
    ? `${withoutPip} has no pip. Install it (python3 -m ensurepip, or apt-get install python3-pip)`
    : 'there is no Python on PATH. Install it (apt-get install python3-pip; used only for this download)';
  throw new PluginFetchError(`cannot fetch ${title(what)}: pip is needed to download it, and ${reason}, ${otherwise}`);
}

/** The exit code of a child and the tail of its output; undefined if there is no such program. */
async function outcome(child: ChildProcess): Promise<{ code: number | null; output: string } | undefined> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-20_000);
    });
  }
  child.stdin?.on('error', () => undefined); // the child may exit first
  return new Promise((resolve, reject) => {
    child.on('error', (e: NodeJS.ErrnoException) => (e.code === 'ENOENT' ? resolve(undefined) : reject(e)));
    child.on('close', (code) => resolve({ code, output }));
  });
}

/** The error that pip's output stands for. */
function pipError(what: Fetchable, output: string, cwd: string): Error {
  const lines = output.split('\n').filter((line) => line.trim());
  const said = (lines.findLast((line) => /ERROR|Error:/.test(line)) ?? lines.at(-1) ?? 'nothing').trim();
  const got = /Got\s+([0-9a-f]{64})/.exec(output)?.[1];
  if (got) {
    return new PluginCorruptError(
      `the wheel of ${title(what)} that pip downloaded is not the pinned one: its sha256 is ${got}, expected \
${what.wheel.sha256}. The package index or a proxy sent another file or only part of it; nothing was installed`,
    );
  }
  if (/Errno (28|122)\b/.test(output)) return new PluginFetchError(noSpace(what, path.dirname(cwd)));
  if (/No matching distribution|Could not find a version|ConnectionError|NewConnectionError|Max retries/.test(output)) {
    return new PluginFetchError(
      `cannot fetch ${title(what)}: pip could not reach a package index, or the index has no such package. Check the \
network and pip's settings (pip config list), or set ${variableOf(what.device)} to the path of a library. pip said: ${said}`,
    );
  }
  return new PluginFetchError(`cannot fetch ${title(what)}: pip failed. pip said: ${said}`);
}

/** Writes the library, and what lies beside it, into the folder; throws unless each is what the table pins. */
async function unpack(what: Fetchable, wheel: string, folder: string, signal?: AbortSignal): Promise<void> {
  const { library, beside = {} } = what.wheel;
  const inside = path.posix.dirname(what.member);
  const pins = new Map([[what.member, library.sha256]]);
  for (const [name, { sha256 }] of Object.entries(beside)) pins.set(path.posix.join(inside, name), sha256);
  const found = new Map<string, string>();
  try {
    const { default: yauzl } = await import('yauzl'); // not needed once the plugin is installed
    const zip = await yauzl.openPromise(wheel, { autoClose: false });
    try {
      for await (const entry of zip.eachEntry()) {
        if (!pins.has(entry.fileName)) continue;
        const hash = createHash('sha256');
        const hashed = async function* (source: AsyncIterable<Buffer>) {
          for await (const chunk of source) {
            hash.update(chunk);
            yield chunk;
          }
        };
        const out = createWriteStream(path.join(folder, path.basename(entry.fileName)), {
          highWaterMark: 1 << 20,
          mode: 0o644,
        });
        await pipeline(await zip.openReadStreamPromise(entry), hashed, out, signal ? { signal } : {});
        found.set(entry.fileName, hash.digest('hex'));
        if (found.size === pins.size) break;
      }
    } finally {
      zip.close();
    }
  } catch (e) {
    // File system errors have a `syscall`; others come from yauzl or zlib and concern the zip.
    if ((e as NodeJS.ErrnoException).syscall || signal?.aborted) throw e;
    throw new PluginFetchError(halfWritten(what, messageOf(e)), { cause: e });
  }
  for (const [member, expected] of pins) {
    const actual = found.get(member);
    if (actual === expected) continue;
    const how = actual ? `has sha256 ${actual}, expected ${expected}` : 'is missing';
    throw new PluginCorruptError(`${member} in the wheel of ${title(what)} ${how}`);
  }
}
