// Library files: can this process load one, and loading those that a plugin needs before it.
import fs from 'node:fs';
import koffi, { type LibraryHandle } from 'koffi';
import { messageOf, PluginLoadError } from '../base/errors.js';

const MACHINES: Record<number, string> = { 3: 'ia32', 40: 'arm', 62: 'x64', 183: 'arm64', 243: 'riscv64' };

/**
 * Throws a PluginLoadError that says why `path` cannot be loaded, if its ELF header tells: dlopen's own answer for a
 * library of another architecture is "No such file or directory".
 */
export function checkLibrary(path: string): void {
  const header = Buffer.alloc(64);
  let length: number;
  let size: number;
  try {
    const file = fs.openSync(path, 'r');
    try {
      length = fs.readSync(file, header);
      size = fs.fstatSync(file).size;
    } finally {
      fs.closeSync(file);
    }
  } catch (e) {
    throw new PluginLoadError(`cannot load ${path}: ${messageOf(e)}`, { cause: e });
  }
  if (process.platform !== 'linux') return;
  if (header.toString('latin1', 0, 4) !== '\x7fELF') {
    throw new PluginLoadError(`cannot load ${path}: it is not a shared library (no ELF header)`);
  }
  const machine = MACHINES[header.readUInt16LE(18)] ?? `machine ${header.readUInt16LE(18)}`;
  if (machine !== process.arch) {
    throw new PluginLoadError(`cannot load ${path}: it is built for ${machine}, and this process is ${process.arch}`);
  }
  // The section table is at the end of the file, so its offset tells whether all of the file is there.
  const end = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60);
  if (length < 64 || end > size) {
    throw new PluginLoadError(`cannot load ${path}: it is cut short (${size} bytes of ${end}); fetch it again`);
  }
}

/**
 * Loads a library for the life of the process. koffi unloads one when it is garbage collected and when Node ends, with
 * XLA's threads still running in it; a library opened with RTLD_NODELETE stays.
 */
export function loadLibrary(path: string, global = false): LibraryHandle {
  const library = koffi.load(path, { lazy: true, global });
  const noDelete = { linux: 0x1000, darwin: 0x80 }[process.platform as string];
  if (noDelete) koffi.load(null).func('void* dlopen(const char* path, int flags)')(path, RTLD_LAZY | noDelete);
  return library;
}
const RTLD_LAZY = 1;

/** Loads libraries in order, so that a plugin which asks for them by name finds them already there. */
export function preload(paths: readonly string[]): void {
  for (const path of paths) loadLibrary(path, true);
}
