// Plugins: real pip, real wheels, in temporary stores. Each wrong input is known by the text of its error.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { checkLibrary } from 'tsxla/pjrt';
import {
  cudaMissing,
  findCudaLibraries,
  findPlugin,
  installPlugin,
  listPlugins,
  PLUGINS,
  removePlugin,
  verifyPlugin,
} from 'tsxla/plugins';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-plugins-'));
const folder = (): string => fs.mkdtempSync(path.join(scratch, 'x-'));
const script = (dir: string, name: string, text: string) =>
  fs.writeFileSync(path.join(dir, name), text, { mode: 0o755 });
const here = `${process.platform}-${process.arch}`;
const cpu = PLUGINS.find((p) => p.device === 'cpu')!.fetch!;
const wheel = cpu.wheels[here]!;

beforeEach(() => {
  vi.stubEnv('TSXLA_CACHE_DIR', folder());
  vi.stubEnv('TSXLA_LOG', 'quiet');
  vi.stubEnv('VIRTUAL_ENV', '');
  for (const device of ['CPU', 'CUDA', 'TPU']) vi.stubEnv(`TSXLA_PLUGIN_${device}`, '');
});
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

describe('the store', () => {
  let store: string;
  beforeAll(() => {
    store = folder();
  });
  beforeEach(() => {
    vi.stubEnv('TSXLA_CACHE_DIR', store);
  });

  test('a plugin is fetched once, with progress, and found afterwards', async () => {
    const seen: number[] = [];
    const first = await findPlugin('cpu', { onProgress: (done, total) => seen.push(done / total) });
    expect(first).toMatchObject({
      source: 'fetched',
      package: 'xla-cpu-pjrt',
      version: '0.0.1',
      size: wheel.library.size,
    });
    expect(seen.at(-1)).toBe(1);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(fs.readdirSync(path.dirname(first.path)).sort()).toEqual(['manifest.json', 'xla_cpu_pjrt.so']);
    expect(fs.readdirSync(path.join(store, 'plugins'))).toHaveLength(1);
    vi.stubEnv('PATH', folder()); // no Python from here on
    expect(await findPlugin('cpu')).toEqual({ ...first, source: 'store' });
    await verifyPlugin(first);
    const [listed] = await listPlugins();
    expect(listed).toMatchObject({ device: 'cpu', plugin: { path: first.path }, installed: [{ path: first.path }] });
  });

  test('a library with a new time but its old content is accepted, and its manifest refreshed', async () => {
    const { path: library } = await findPlugin('cpu');
    fs.utimesSync(library, 1e9, 1e9);
    expect((await findPlugin('cpu')).source).toBe('store');
    const manifest = JSON.parse(fs.readFileSync(path.join(path.dirname(library), 'manifest.json'), 'utf8'));
    expect(manifest.mtimeMs).toBe(1e12);
  });

  test('one changed byte is found, and install mends it', async () => {
    const found = await findPlugin('cpu');
    const { atimeMs, mtimeMs } = fs.statSync(found.path);
    const file = fs.openSync(found.path, 'r+');
    fs.writeSync(file, 'X', 1_000_000);
    fs.closeSync(file);
    const complaint = new RegExp(
      `${found.path} is not the library that was installed: its sha256 is [0-9a-f]{64}, expected ${found.sha256}. ` +
        'Mend it with: tsxla plugins install cpu',
    );
    await expect(findPlugin('cpu')).rejects.toThrow(complaint);
    // With its old time put back, only the full check can tell.
    fs.utimesSync(found.path, atimeMs / 1000, mtimeMs / 1000);
    await expect(verifyPlugin(found)).rejects.toThrow(complaint);
    expect((await installPlugin('cpu')).source).toBe('fetched');
    await verifyPlugin(await findPlugin('cpu'));
    expect((await installPlugin('cpu')).source).toBe('store');
  });

  test('a library that is gone is said to be gone', async () => {
    const { path: library } = await findPlugin('cpu');
    fs.renameSync(library, `${library}.away`);
    await expect(findPlugin('cpu')).rejects.toThrow(
      `${library} is gone from the store. Mend it with: tsxla plugins install`,
    );
    fs.renameSync(`${library}.away`, library);
  });

  test('the command prints a path, and only that, where a script wants one', async () => {
    const main = path.join(import.meta.dirname, '../dist/cli/main.js');
    const found = await findPlugin('cpu');
    expect(execFileSync(process.execPath, [main, 'plugins', 'path', 'cpu'], { encoding: 'utf8' })).toBe(
      `${found.path}\n`,
    );
    const list = execFileSync(process.execPath, [main, 'plugins', '--json'], { encoding: 'utf8' });
    expect(JSON.parse(list)[0].plugin.path).toBe(found.path);
  });

  test('a removed plugin is gone, with all that was beside it', async () => {
    const { path: library } = await findPlugin('cpu');
    expect(await removePlugin('cpu')).toEqual([path.dirname(library)]);
    expect(fs.readdirSync(path.join(store, 'plugins'))).toEqual([]);
    expect(await removePlugin('cpu')).toEqual([]);
  });
});

describe('where plugins come from', () => {
  test('a variable that names no file', async () => {
    vi.stubEnv('TSXLA_PLUGIN_CPU', '/nowhere/plugin.so');
    await expect(findPlugin('cpu')).rejects.toThrow(
      'TSXLA_PLUGIN_CPU names /nowhere/plugin.so, and there is no such file',
    );
  });

  test('a platform without plugins', async () => {
    await expect(findPlugin('cpu', { platform: 'darwin-arm64' })).rejects.toThrow(
      'there is no cpu plugin for darwin-arm64 today (there is one for linux-x64 and linux-arm64). ' +
        'If you have built one, set TSXLA_PLUGIN_CPU to its path',
    );
  });

  test('no such device', async () => {
    await expect(findPlugin('gpu' as 'cuda')).rejects.toThrow("there is no device 'gpu': use one of cpu, cuda, tpu");
  });

  test('fetching is off: the error lists where it looked', async () => {
    const store = path.join(process.env['TSXLA_CACHE_DIR']!, 'plugins', `xla-cpu-pjrt-0.0.1-${here}`);
    await expect(findPlugin('cpu', { fetch: false })).rejects.toThrow(
      `Looked at TSXLA_PLUGIN_CPU (not set), the npm package @tsxla/cpu-${here}, the store ${store}, and the Python ` +
        'packages xla-cpu-pjrt. Install it (60.5 MiB) with: tsxla plugins install cpu',
    );
  });

  test('a Python environment, with any version of the package', async () => {
    const venv = folder();
    const site = path.join(venv, 'lib/python3.12/site-packages');
    const library = path.join(site, 'jax_plugins/xla_cuda12/xla_cuda_plugin.so');
    fs.mkdirSync(path.dirname(library), { recursive: true });
    fs.mkdirSync(path.join(site, 'jax_cuda12_pjrt-0.7.2.dist-info'));
    fs.copyFileSync('/proc/self/exe', library); // any whole ELF file of this architecture
    vi.stubEnv('VIRTUAL_ENV', venv);
    expect(await findPlugin('cuda', { fetch: false })).toMatchObject({
      source: 'python',
      package: 'jax-cuda12-pjrt',
      version: '0.7.2',
      path: library,
    });
  });
});

describe('libraries that cannot be loaded', () => {
  const elf = fs.readFileSync(process.execPath);
  const library = (content: Buffer | string): string => {
    const file = path.join(folder(), 'plugin.so');
    fs.writeFileSync(file, content);
    return file;
  };
  const otherMachine = (): Buffer => {
    const copy = Buffer.from(elf);
    copy.writeUInt16LE(process.arch === 'x64' ? 183 : 62, 18);
    return copy;
  };
  test.each([
    ['text', () => library('hello'), /is not a shared library: it does not start with an ELF header/],
    ['cut short', () => library(elf.subarray(0, 100_000)), /is cut short: it has 100000 of \d+ bytes/],
    ['another architecture', () => library(otherMachine()), /is built for \w+, but this process is \w+/],
    ['a folder', () => folder(), /cannot read .*EISDIR/],
  ])('%s', async (_, make, complaint) => {
    const file = make();
    expect(() => checkLibrary(file)).toThrow(complaint);
    vi.stubEnv('TSXLA_PLUGIN_CPU', file);
    await expect(findPlugin('cpu')).rejects.toThrow(complaint);
  });
  test('a good one passes', () => checkLibrary(library(elf)));
});

describe('fetching that fails', () => {
  const noIndex = () => {
    vi.stubEnv('PIP_CONFIG_FILE', '/dev/null');
    vi.stubEnv('PIP_EXTRA_INDEX_URL', '');
    vi.stubEnv('PIP_FIND_LINKS', '');
  };
  const nothingLeft = () => expect(fs.readdirSync(path.join(process.env['TSXLA_CACHE_DIR']!, 'plugins'))).toEqual([]);

  test('no Python', async () => {
    vi.stubEnv('PATH', folder());
    await expect(findPlugin('cpu')).rejects.toThrow(
      'cannot fetch xla-cpu-pjrt 0.0.1: pip is needed to download it and there is no Python on PATH',
    );
    nothingLeft();
  });

  test('a Python without pip', async () => {
    const venv = folder();
    execFileSync('python3', ['-m', 'venv', '--without-pip', venv]);
    vi.stubEnv('PATH', path.join(venv, 'bin'));
    await expect(findPlugin('cpu')).rejects.toThrow('python3 has no pip. Install it (python3 -m ensurepip');
    nothingLeft();
  });

  test('an index that cannot be reached', async () => {
    noIndex();
    vi.stubEnv('PIP_INDEX_URL', 'http://127.0.0.1:9/simple');
    vi.stubEnv('PIP_RETRIES', '0');
    vi.stubEnv('NO_PROXY', '127.0.0.1');
    await expect(findPlugin('cpu')).rejects.toThrow(
      /pip could not reach a package index.*No matching distribution found/,
    );
    nothingLeft();
  });

  test('another file under the same name', async () => {
    noIndex();
    const links = folder();
    fs.writeFileSync(path.join(links, `xla_cpu_pjrt-0.0.1-py3-none-${wheel.pip.platform}.whl`), 'not the wheel');
    vi.stubEnv('PIP_NO_INDEX', '1');
    vi.stubEnv('PIP_FIND_LINKS', links);
    await expect(findPlugin('cpu')).rejects.toThrow(
      new RegExp(
        `is not the one tsxla knows: its sha256 is [0-9a-f]{64}, expected ${wheel.sha256}.*nothing was installed`,
      ),
    );
    nothingLeft();
  });

  test('a half-written wheel', async () => {
    const bin = folder();
    script(
      bin,
      'python3',
      '#!/bin/sh\nfor a; do [ "$last" = --dest ] && mkdir -p "$a" && echo half > "$a/x.whl"; last=$a; done\n',
    );
    vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
    await expect(installPlugin('cpu')).rejects.toThrow(
      `pip left a half-written wheel of xla-cpu-pjrt 0.0.1 (5 of ${wheel.size} bytes)`,
    );
    nothingLeft();
  });

  test('a cache folder that cannot be written to', async () => {
    const file = path.join(folder(), 'file');
    fs.writeFileSync(file, '');
    vi.stubEnv('TSXLA_CACHE_DIR', path.join(file, 'cache'));
    await expect(findPlugin('cpu')).rejects.toThrow(/cannot write to .*ENOTDIR.*Set TSXLA_CACHE_DIR to a folder/);
  });

  // The first is full while pip downloads, the second while the library is unpacked.
  test.for(['20m', '150m'])('a disk of %s', async (size, { skip }) => {
    const disk = folder();
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      skip('making a small disk needs root');
    }
    try {
      vi.stubEnv('TSXLA_CACHE_DIR', disk);
      await expect(findPlugin('cpu')).rejects.toThrow(
        /no space left on the disk of .*xla-cpu-pjrt 0.0.1 needs 308 MiB there.*the wheel 60.5 MiB, the library 247 MiB/,
      );
      nothingLeft();
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});

describe('CUDA libraries', () => {
  const CU13 = ['libcudart.so.13', 'libnvJitLink.so.13', 'libnvrtc.so.13', 'libcublasLt.so.13', 'libcublas.so.13'];
  const touch = (file: string) => {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, '');
    return file;
  };
  /** A virtual environment with some of NVIDIA's packages; only where the files are matters here. */
  const environment = () => {
    const venv = folder();
    const site = path.join(venv, 'lib/python3.12/site-packages');
    for (const name of CU13.toReversed()) touch(path.join(site, 'nvidia/cu13/lib', name));
    touch(path.join(site, 'nvidia/cudnn/lib/libcudnn.so.9'));
    for (const tool of ['bin/ptxas', 'bin/nvlink', 'nvvm/libdevice/libdevice.10.bc'])
      touch(path.join(site, 'nvidia/cu13', tool));
    vi.stubEnv('VIRTUAL_ENV', venv);
    vi.stubEnv('LD_LIBRARY_PATH', '');
    return site;
  };
  const RUNPATH = '\x7fELF...\0$ORIGIN/../../nvidia/cu13/lib:$ORIGIN/../../nvidia/cudnn/lib\0';

  test('a plugin beside them finds them by itself', async () => {
    const site = environment();
    const plugin = touch(path.join(site, 'jax_plugins/xla_cuda13/xla_cuda_plugin.so'));
    fs.writeFileSync(plugin, RUNPATH);
    const { found, preload, dataDir } = await findCudaLibraries(plugin);
    expect(found).toContainEqual({
      soname: 'libcublas.so.13',
      path: path.join(site, 'nvidia/cu13/lib/libcublas.so.13'),
    });
    expect(preload.filter((file) => file.startsWith(site))).toEqual([]);
    expect(dataDir).toBe(path.join(site, 'nvidia/cu13'));
  });

  test('a plugin elsewhere needs them loaded before it, those that others need first', async () => {
    const site = environment();
    const plugin = path.join(folder(), 'xla_cuda_plugin.so');
    fs.writeFileSync(plugin, RUNPATH);
    const libraries = await findCudaLibraries(plugin);
    expect(libraries.preload.filter((file) => file.startsWith(site))).toEqual([
      ...CU13.map((name) => path.join(site, 'nvidia/cu13/lib', name)),
      path.join(site, 'nvidia/cudnn/lib/libcudnn.so.9'),
    ]);
    expect(libraries.dataDir).toBe(path.join(site, 'nvidia/cu13'));
  });

  test('what is missing, and how to get it', () => {
    expect(cudaMissing({ missing: [] })).toBeUndefined();
    const missing = [
      { soname: 'libcuda.so.1', package: 'the NVIDIA driver' },
      { soname: 'libcublasLt.so.13', package: 'nvidia-cublas' },
      { soname: 'libcublas.so.13', package: 'nvidia-cublas' },
    ];
    expect(cudaMissing({ missing })).toBe(
      'the CUDA plugin needs libcuda.so.1, libcublasLt.so.13, libcublas.so.13, not found on this machine. libcuda.so.1 ' +
        'comes with the NVIDIA driver (apt-get install nvidia-driver-580; it needs a GPU). Get the rest with: python3 -m ' +
        'pip install nvidia-cublas',
    );
  });
});
