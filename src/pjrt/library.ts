// Library files: checks whether this process can load one, and loads those that a plugin needs before it.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import type { LibraryHandle } from 'koffi';
import { PluginLoadError } from '../base/errors.js';
import { giveStack } from '../base/native.js';
import { koffi } from '../base/packages.js';
import { messageOf } from '../base/thrown.js';

/** Of ELF headers. */
const MACHINES: Record<number, [name: string, arch: string]> = {
  3: ['x86', 'ia32'],
  40: ['arm', 'arm'],
  62: ['x86_64', 'x64'],
  183: ['aarch64', 'arm64'],
  243: ['riscv64', 'riscv64'],
};

/** Of Mach-O headers, macOS's. */
const APPLE_MACHINES: Record<number, [name: string, arch: string]> = {
  16777223: ['x86_64', 'x64'],
  16777228: ['arm64', 'arm64'],
};
const [MACHO, UNIVERSAL, SEGMENT] = [0xfeedfacf, 0xbebafeca, 0x19];

/**
 * Throws a PluginLoadError unless `file` is a whole shared library for a platform, by default that of this process. Its
 * header tells: dlopen's own answer for another architecture is "No such file or directory".
 */
export function checkLibrary(file: string, platform = `${process.platform}-${process.arch}`): void {
  const head = Buffer.alloc(1 << 16);
  let size: number;
  try {
    const fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)); // a pipe would wait for its writer
    try {
      size = fstatSync(fd).size;
      readSync(fd, head);
    } finally {
      closeSync(fd);
    }
  } catch (e) {
    throw new PluginLoadError(`cannot read ${file}: ${messageOf(e)}`, { cause: e });
  }
  const [os, arch] = platform.split('-') as [string, string];
  if (os === 'linux') checkElf(file, head, size, arch);
  if (os === 'darwin') checkMachO(file, head, size, arch);
}

const isMachO = (head: Buffer): boolean => [MACHO, UNIVERSAL].includes(head.readUInt32LE(0));

function checkElf(file: string, header: Buffer, size: number, wanted: string): void {
  if (isMachO(header))
    throw new PluginLoadError(`${file} is a library for macOS, but this process runs on ${process.platform}`);
  if (header.toString('latin1', 0, 4) !== '\x7fELF') {
    throw new PluginLoadError(`${file} is not a shared library: it does not start with an ELF header`);
  }
  const machine = header.readUInt16LE(18);
  const [name, arch] = MACHINES[machine] ?? [`machine ${machine}`, ''];
  if (arch !== wanted) throw new PluginLoadError(`${file} is built for ${name}, but this process is ${wanted}`);
  // The section table is the end of a library, so its end is the expected size of the file.
  const end = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60);
  checkWhole(file, size, Math.max(end, 64));
}

function checkMachO(file: string, header: Buffer, size: number, wanted: string): void {
  if (!isMachO(header))
    throw new PluginLoadError(`${file} is not a shared library: it does not start with a Mach-O header`);
  if (header.readUInt32LE(0) === UNIVERSAL) return; // of several architectures: the loader chooses
  const machine = header.readUInt32LE(4);
  const [name, arch] = APPLE_MACHINES[machine] ?? [`machine ${machine}`, ''];
  if (arch !== wanted) throw new PluginLoadError(`${file} is built for ${name}, but this process is ${wanted}`);
  // Load commands follow the header of 32 bytes; those of segments say which bytes of the file are theirs.
  let end = 32;
  for (let at = 32, left = header.readUInt32LE(16); left > 0 && at + 72 <= header.length; left--) {
    if (header.readUInt32LE(at) === SEGMENT)
      end = Math.max(end, Number(header.readBigUInt64LE(at + 40) + header.readBigUInt64LE(at + 48)));
    at += Math.max(8, header.readUInt32LE(at + 4));
  }
  checkWhole(file, size, end);
}

function checkWhole(file: string, size: number, end: number): void {
  if (size < end) throw new PluginLoadError(`${file} is cut short: it has ${size} of ${end} bytes`);
}

/**
 * Loads a library for the lifetime of the process. koffi unloads a library on garbage collection and when Node exits, while
 * XLA's threads still run in it; one opened with RTLD_NODELETE stays loaded.
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

// Parameters of glibc's mallopt.
const [TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD] = [-1, -2, -3];
/**
 * Lets this process keep freed memory, up to 1 GiB, for reuse. XLA's CPU client allocates the temporaries of a program at every
 * run; glibc returns such large blocks to the system, which zeroes them again page by page: a fifth of a small training step.
 * MALLOC_... in the environment takes precedence.
 */
export function keepFreedMemory(): void {
  if (process.platform !== 'linux' || Object.keys(process.env).some((name) => /^MALLOC_\w+_$/.test(name))) return;
  try {
    const mallopt = koffi().load(null).func('int mallopt(int parameter, int value)');
    mallopt(MMAP_THRESHOLD, 2 ** 30);
    mallopt(TRIM_THRESHOLD, 2 ** 30);
    mallopt(TOP_PAD, 2 ** 26);
  } catch {
    // another C library: keep its behaviour
  }
}

/** Loads libraries in order, so that a plugin that opens them by name finds them loaded. */
export function preload(paths: readonly string[]): void {
  for (const path of paths) loadLibrary(path, true);
}
