// Library files: can this process load one, and loading those that a plugin needs before it.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import type { LibraryHandle } from 'koffi';
import { PluginLoadError } from '../base/errors.js';
import { giveStack } from '../base/native.js';
import { koffi } from '../base/packages.js';
import { messageOf } from '../base/thrown.js';

const MACHINES: Record<number, [name: string, arch: string]> = {
  3: ['x86', 'ia32'],
  40: ['arm', 'arm'],
  62: ['x86_64', 'x64'],
  183: ['aarch64', 'arm64'],
  243: ['riscv64', 'riscv64'],
};

/**
 * Throws a PluginLoadError unless `file` is a whole shared library for this process's architecture. Its ELF header
 * tells: dlopen's own answer for another architecture is "No such file or directory".
 */
export function checkLibrary(file: string): void {
  const header = Buffer.alloc(64);
  let size: number;
  try {
    const fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)); // a pipe would wait for its writer
    try {
      size = fstatSync(fd).size;
      readSync(fd, header);
    } finally {
      closeSync(fd);
    }
  } catch (e) {
    throw new PluginLoadError(`cannot read ${file}: ${messageOf(e)}`, { cause: e });
  }
  if (process.platform !== 'linux') return; // only Linux has ELF libraries
  if (header.toString('latin1', 0, 4) !== '\x7fELF') {
    throw new PluginLoadError(`${file} is not a shared library: it does not start with an ELF header`);
  }
  const machine = header.readUInt16LE(18);
  const [name, arch] = MACHINES[machine] ?? [`machine ${machine}`, ''];
  if (arch !== process.arch) {
    throw new PluginLoadError(`${file} is built for ${name}, but this process is ${process.arch}`);
  }
  // The table of sections ends a library, so where it should end tells how long the file should be.
  const end = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60);
  if (size < 64 || size < end) {
    throw new PluginLoadError(`${file} is cut short: it has ${size} of ${Math.max(end, 64)} bytes`);
  }
}

/**
 * Loads a library for the life of the process. koffi unloads one when it is garbage collected and when Node ends, with
 * XLA's threads still running in it; a library opened with RTLD_NODELETE stays.
 */
export function loadLibrary(path: string, global = false): LibraryHandle {
  giveStack();
  const library = koffi().load(path, { lazy: true, global });
  const noDelete = { linux: 0x1000, darwin: 0x80 }[process.platform as string];
  if (noDelete) koffi().load(null).func('void* dlopen(const char* path, int flags)')(path, RTLD_LAZY | noDelete);
  return library;
}
const RTLD_LAZY = 1;

/** Ends the process at once, without waiting for its threads. */
export const exitNow = (code: number): void => void koffi().load(null).func('void _exit(int code)')(code);

// Of glibc's mallopt.
const [TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD] = [-1, -2, -3];
/**
 * Lets this process keep memory that it frees, up to a gibibyte, for what comes next. XLA's CPU client allocates the
 * temporaries of a program at every run; glibc gives such large pieces back to the system and has them zeroed again, page by
 * page, which is a fifth of a small training step. Whoever sets MALLOC_... in the environment decides himself.
 */
export function keepFreedMemory(): void {
  if (process.platform !== 'linux' || Object.keys(process.env).some((name) => /^MALLOC_\w+_$/.test(name))) return;
  try {
    const mallopt = koffi().load(null).func('int mallopt(int parameter, int value)');
    mallopt(MMAP_THRESHOLD, 2 ** 30);
    mallopt(TRIM_THRESHOLD, 2 ** 30);
    mallopt(TOP_PAD, 2 ** 26);
  } catch {
    // another C library: it does as it does
  }
}

/** Loads libraries in order, so that a plugin which asks for them by name finds them already there. */
export function preload(paths: readonly string[]): void {
  for (const path of paths) loadLibrary(path, true);
}
