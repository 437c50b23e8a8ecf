// Plugins: real pip, real wheels, in temporary stores. Each wrong input is known by the text of its error.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as tx from 'tsxla';
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
import { diagnose } from '../dist/observe/doctor.js';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-plugins-'));
const folder = (): string => fs.mkdtempSync(path.join(scratch, 'x-'));
const script = (dir: string, name: string, text: string) =>
  fs.writeFileSync(path.join(dir, name), text, { mode: 0o755 });
const here = `${process.platform}-${process.arch}`;
const cpu = PLUGINS.find((p) => p.device === 'cpu')!.fetch!;
const wheel = cpu.wheels[here]!;
const wheels = folder();
/** Lets pip find the wheel that the index has given once, instead of loading 60 MB again. */
const fromDisk = () => {
  if (fs.readdirSync(wheels).length === 0) return; // this test runs alone
  vi.stubEnv('PIP_NO_INDEX', '1');
  vi.stubEnv('PIP_FIND_LINKS', wheels);
};

beforeEach(() => {
  vi.stubEnv('TSXLA_CACHE_DIR', folder());
  vi.stubEnv('TSXLA_LOG', 'quiet');
  vi.stubEnv('VIRTUAL_ENV', '');
  for (const device of ['CPU', 'CUDA', 'TPU', 'MPS']) vi.stubEnv(`TSXLA_PLUGIN_${device}`, '');
});
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

describe('the store', () => {
  let store: string;
  beforeAll(() => {
    store = path.join(folder(), 'cache');
    fs.mkdirSync(store);
  });
  beforeEach(() => {
    vi.stubEnv('TSXLA_CACHE_DIR', store);
  });

  /** Links the wheel from where pip leaves it until it is unpacked. */
  const keepWheel = () => {
    const file = fs
      .readdirSync(store, { recursive: true, encoding: 'utf8' })
      .find((name) => /wheel\/.*\.whl$/.test(name));
    const kept = path.join(wheels, path.basename(file ?? ''));
    if (file && !fs.existsSync(kept)) fs.linkSync(path.join(store, file), kept);
  };

  test('a plugin is fetched once, with progress, and found afterwards', async () => {
    const seen: number[] = [];
    const first = await findPlugin('cpu', {
      onProgress: (done, total) => {
        seen.push(done / total);
        if (done === total) keepWheel();
      },
    });
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

  const record = () => path.join(store, 'plugins', `xla-cpu-pjrt-0.0.1-${here}.verified`);

  test('a library is hashed again when it has changed in any way, and not otherwise', async () => {
    const { path: library, sha256 } = await findPlugin('cpu');
    fs.utimesSync(library, 1e9, 1e9);
    await sleep(1100); // nothing is remembered of a file that changed within the last second
    expect((await findPlugin('cpu')).source).toBe('store');
    const said = fs.readFileSync(record(), 'utf8');
    expect(said.split(' ').at(-1)).toBe(sha256);
    // A wrong hash in the record shows when the record is believed, and when it is not.
    const lie = said.replace(/\w+$/, 'a'.repeat(64));
    fs.writeFileSync(record(), lie);
    await expect(findPlugin('cpu')).rejects.toThrow(`its sha256 is ${'a'.repeat(64)}, expected ${sha256}`);
    fs.chmodSync(record(), 0o666);
    await findPlugin('cpu');
    expect(fs.readFileSync(record(), 'utf8')).toBe(said);
    fs.writeFileSync(record(), lie);
    fs.utimesSync(library, 2e9, 2e9);
    expect((await findPlugin('cpu')).sha256).toBe(sha256);
  });

  describe('tampered with', () => {
    const main = path.join(import.meta.dirname, '../dist/cli/main.js');
    const failed = (complaint: RegExp) => ({
      ok: false,
      devices: [
        { device: 'cpu', state: 'failed', summary: expect.stringMatching(complaint) },
        { device: 'cuda' },
        { device: 'tpu' },
        { device: 'mps', state: 'absent', summary: 'for macOS 14 or later on arm64' },
      ],
    });
    /** Loading refuses, and so does what `tsxla doctor` prints, with the same words. */
    const refused = async (complaint: RegExp) => {
      await expect(findPlugin('cpu')).rejects.toThrow(complaint);
      const { PATH } = process.env;
      vi.stubEnv('PJRT_DEVICE', 'CPU').stubEnv('PATH', folder()); // no Python to ask for other plugins
      expect(await diagnose()).toMatchObject(failed(complaint));
      vi.stubEnv('PATH', PATH);
    };
    const manifestOf = (library: string) => path.join(path.dirname(library), 'manifest.json');
    const change = (file: string, changes: object) => {
      const before = fs.readFileSync(file, 'utf8');
      fs.writeFileSync(file, JSON.stringify({ ...JSON.parse(before), ...changes }));
      return () => fs.writeFileSync(file, before);
    };
    const mend = 'Repair it with: tsxla plugins install cpu';

    test('one changed byte, with the old time of change', async () => {
      const { path: library, sha256 } = await findPlugin('cpu');
      await sleep(1100);
      await findPlugin('cpu'); // it is remembered as good
      expect(fs.existsSync(record())).toBe(true);
      const { atimeMs, mtimeMs } = fs.statSync(library);
      const file = fs.openSync(library, 'r+');
      fs.writeSync(file, 'X', 1_000_000);
      fs.closeSync(file);
      fs.utimesSync(library, atimeMs / 1000, mtimeMs / 1000);
      expect(fs.statSync(library).mtimeMs).toBe(mtimeMs);
      const complaint = `${library} is not the library that was installed: its sha256 is [0-9a-f]{64}, expected ${sha256}. ${mend}`;
      await refused(new RegExp(complaint));
      const env = { ...process.env, PJRT_DEVICE: 'CPU' };
      const doctor = spawnSync(process.execPath, [main, 'doctor', '--json'], { encoding: 'utf8', env });
      expect(doctor.status).toBe(1);
      expect(JSON.parse(doctor.stdout)).toMatchObject(failed(new RegExp(complaint)));
      fromDisk();
      expect((await installPlugin('cpu')).source).toBe('fetched');
      await verifyPlugin(await findPlugin('cpu'));
      expect((await installPlugin('cpu')).source).toBe('store');
    });

    test('library and manifest both replaced', async () => {
      const { path: library, sha256 } = await findPlugin('cpu');
      fs.renameSync(library, `${library}.away`);
      fs.copyFileSync(process.execPath, library);
      fs.chmodSync(library, 0o644);
      const { size, mtimeMs } = fs.statSync(library);
      const other = createHash('sha256').update(fs.readFileSync(library)).digest('hex');
      const restore = change(manifestOf(library), { size, mtimeMs, sha256: other });
      await refused(/manifest.json was changed: size is \d+, expected \d+\. Repair it with: tsxla plugins install cpu/);
      restore();
      await refused(new RegExp(`its sha256 is ${other}, expected ${sha256}`)); // a manifest that still tells of the first
      fs.renameSync(`${library}.away`, library);
      await findPlugin('cpu');
    });

    test('a manifest that leads out of the store', async () => {
      const { path: library } = await findPlugin('cpu');
      fs.copyFileSync(process.execPath, path.join(path.dirname(store), 'good.so'));
      const restore = change(manifestOf(library), { library: '../../../good.so' });
      await refused(
        /library is "\.\.\/\.\.\/\.\.\/good\.so", expected "xla_cpu_pjrt\.so"\. Repair it with: tsxla plugins install cpu/,
      );
      const [listed] = await listPlugins();
      for (const entry of listed!.installed) expect(path.dirname(entry.path)).toBe(path.dirname(library));
      restore();
    });

    test('a link in place of the library', async () => {
      const { path: library } = await findPlugin('cpu');
      const away = path.join(folder(), 'library.so');
      fs.renameSync(library, away);
      fs.symlinkSync(away, library);
      await refused(/is not a regular file\. Repair it with/);
      fs.rmSync(library);
      fs.renameSync(away, library);
    });

    const places: [string, (library: string) => string][] = [
      ['the library', (library) => library],
      ['its folder', (library) => path.dirname(library)],
      ['the store', () => path.join(store, 'plugins')],
      ['the cache folder', () => store],
      ['the folder above', () => path.dirname(store)],
    ];
    test.each(places)('others can write to %s', async (_, of) => {
      const { path: library } = await findPlugin('cpu');
      const place = of(library);
      const { mode } = fs.statSync(place);
      fs.chmodSync(place, 0o777);
      await refused(new RegExp(`not loaded: (others|every user) can write to ${place}\\b.*: run chmod g?o-w on it`));
      fs.chmodSync(place, mode);
      await findPlugin('cpu');
    });

    test.runIf(process.getuid!() === 0).each(places.slice(0, 4))('%s belongs to another user', async (_, of) => {
      const { path: library } = await findPlugin('cpu');
      const place = of(library);
      fs.chownSync(place, 12345, 12345);
      await refused(/not loaded: .* belongs to another user \(uid 12345, this process is 0\)/);
      fs.chownSync(place, 0, 0);
      await findPlugin('cpu');
    });

    test('nothing is installed into a store that others can write to; an open entry is replaced', async () => {
      const { path: library } = await findPlugin('cpu');
      const plugins = path.join(store, 'plugins');
      fs.chmodSync(plugins, 0o777);
      await expect(installPlugin('cpu', { force: true })).rejects.toThrow(
        `plugins in ${plugins} were not loaded: others can write to ${plugins} (mode 777): run chmod go-w on it. ` +
          'Or set TSXLA_CACHE_DIR to a folder that only you can write to',
      );
      fs.chmodSync(plugins, 0o755);
      fs.chmodSync(path.dirname(library), 0o777);
      fromDisk();
      expect((await installPlugin('cpu')).source).toBe('fetched');
      expect(fs.statSync(path.dirname(library)).mode & 0o777).toBe(0o755);
    });
  });

  test('a library that is gone is said to be gone', async () => {
    const { path: library } = await findPlugin('cpu');
    fs.renameSync(library, `${library}.away`);
    await expect(findPlugin('cpu')).rejects.toThrow(
      `${library} is missing from the store. Repair it with: tsxla plugins install`,
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
    await expect(findPlugin('cpu')).rejects.toThrow('TSXLA_PLUGIN_CPU is /nowhere/plugin.so, which does not exist');
  });

  test('a platform without plugins', async () => {
    await expect(findPlugin('cpu', { platform: 'darwin-arm64' })).rejects.toThrow(
      'there is no cpu plugin for darwin-arm64 (available for: linux-x64, linux-arm64). ' +
        'If you have built one, set TSXLA_PLUGIN_CPU to its path',
    );
  });

  test('no such device', async () => {
    await expect(findPlugin('gpu' as 'cuda')).rejects.toThrow(
      "there is no device 'gpu': use one of cpu, cuda, tpu, mps",
    );
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

  test('a library that everybody can write to is refused, however it was named; one owned by another user is not', async () => {
    const library = path.join(folder(), 'plugin.so');
    fs.copyFileSync('/proc/self/exe', library);
    vi.stubEnv('TSXLA_PLUGIN_CPU', library);
    expect((await findPlugin('cpu')).source).toBe('environment');
    if (process.getuid!() === 0) {
      fs.chownSync(library, 12345, 12345);
      expect((await findPlugin('cpu')).source).toBe('environment');
    }
    fs.chmodSync(library, 0o777);
    await expect(findPlugin('cpu')).rejects.toThrow(
      `${library} was not loaded: every user can write to it (mode 777): run chmod o-w on it. Or copy it to a folder that only`,
    );
    fs.chmodSync(library, 0o755);
    const link = path.join(folder(), 'link.so');
    fs.symlinkSync(library, link);
    vi.stubEnv('TSXLA_PLUGIN_CPU', link);
    expect((await findPlugin('cpu')).path).toBe(link);
    fs.chmodSync(path.dirname(library), 0o777); // where the link leads
    await expect(findPlugin('cpu')).rejects.toThrow(`every user can write to ${path.dirname(library)}, and so replace`);
  });

  test('a pipe in place of a library does not keep us waiting', async () => {
    const pipe = path.join(folder(), 'plugin.so');
    execFileSync('mkfifo', [pipe]);
    vi.stubEnv('TSXLA_PLUGIN_CPU', pipe);
    await expect(findPlugin('cpu')).rejects.toThrow(`${pipe} is not a shared library`);
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

  /** A Mach-O header with one segment, which ends at `end`, as the linker of macOS writes it; and that many bytes. */
  const machO = (machine: number, end: number): Buffer => {
    const file = Buffer.alloc(end);
    file.writeUInt32LE(0xfeedfacf, 0);
    file.writeUInt32LE(machine, 4);
    file.writeUInt32LE(1, 16); // load commands
    file.writeUInt32LE(0x19, 32); // LC_SEGMENT_64
    file.writeUInt32LE(72, 36);
    file.writeBigUInt64LE(BigInt(end - 100), 72); // where its bytes begin in the file
    file.writeBigUInt64LE(100n, 80);
    return file;
  };
  const arm64 = 0x0100000c;
  test.each([
    ['one for macOS, on Linux', machO(arm64, 500), 'linux-x64', /is a library for macOS, but this process runs on/],
    ['one for Linux, on macOS', elf, 'darwin-arm64', /is not a shared library: it does not start with a Mach-O header/],
    ['one of Intel', machO(0x01000007, 500), 'darwin-arm64', /is built for x86_64, but this process is arm64/],
    ['cut short', machO(arm64, 500).subarray(0, 499), 'darwin-arm64', /is cut short: it has 499 of 500 bytes/],
  ])('macOS: %s', (_, content, platform, complaint) => {
    expect(() => checkLibrary(library(content), platform)).toThrow(complaint);
  });
  test('macOS: a good one passes, and so does one for several architectures', () => {
    checkLibrary(library(machO(arm64, 500)), 'darwin-arm64');
    checkLibrary(library(Buffer.from('cafebabe00000002'.padEnd(200, '0'), 'hex')), 'darwin-arm64');
  });
});

// What can be said of Apple GPUs without one. Fetching the wheel is in test/slow/install.test.ts.
describe('mps', () => {
  test('there is one for macOS on arm64, and none for other platforms', async () => {
    const { fetchable } = (await listPlugins()).find((p) => p.device === 'mps')!;
    expect(fetchable).toBe(undefined); // here
    await expect(installPlugin('mps')).rejects.toThrow(
      `there is no mps plugin for ${here} (available for: darwin-arm64). If you have built one, set TSXLA_PLUGIN_MPS`,
    );
    const { version, wheels } = PLUGINS.find((p) => p.device === 'mps')!.fetch!;
    expect([version, Object.keys(wheels)]).toEqual(['0.11.1', ['darwin-arm64']]);
    await expect(findPlugin('mps', { platform: 'darwin-arm64', fetch: false })).rejects.toThrow(
      'the Python packages jax-mps. Install it (42.7 MiB) with: tsxla plugins install mps',
    );
  });

  test('it is no device of a machine with Linux, by any name', () => {
    const ask = (env: Record<string, string>, code: string) =>
      spawnSync(process.execPath, ['--input-type=module', '-e', `import * as tx from 'tsxla'; ${code}`], {
        encoding: 'utf8',
        env: { ...process.env, ...env },
        cwd: path.join(import.meta.dirname, '..'),
      });
    const absent =
      /this machine has no Apple GPU that mps can use \(it needs macOS 14 or later on arm64, and this is linux/;
    expect(ask({ PJRT_DEVICE: 'MPS' }, 'await tx.ones([2]).data()').stderr).toMatch(absent);
    expect(ask({}, `tx.device('mps')`).stderr).toMatch(absent);
    expect(ask({}, `console.log(tx.device())`).stdout).toBe('cpu\n');
  });

  test('a dtype that Apple GPUs lack is an error when a program is written, not f32 in silence', () => {
    const f = tx.compile((x: tx.Tensor) => x.to('f64').mul(2).to('f32'));
    const spec = tx.ones([4]);
    expect(f.stablehlo([spec], { platform: 'cpu' })).toContain('tensor<4xf64>');
    const complaint = 'mps has no f64: use another dtype (f32, f16, bf16, c64), or another device';
    expect(() => f.stablehlo([spec], { platform: 'mps' })).toThrow(complaint);
    const g = tx.compile((x: tx.Tensor) => x.mul(2));
    expect(() => g.stablehlo([tx.ones([4], { dtype: 'f64' })], { platform: 'mps' })).toThrow(complaint);
    expect(g.stablehlo([tx.ones([4], { dtype: 'bf16' })], { platform: 'mps' })).toContain('tensor<4xbf16>');
  });
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
      'cannot fetch xla-cpu-pjrt 0.0.1: pip is needed to download it, and there is no Python on PATH',
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
      new RegExp(`is not the pinned one: its sha256 is [0-9a-f]{64}, expected ${wheel.sha256}.*nothing was installed`),
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
    await expect(findPlugin('cpu')).rejects.toThrow(
      /cannot write to .*ENOTDIR.*Set TSXLA_CACHE_DIR to a writable folder/,
    );
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
      if (size === '150m') fromDisk();
      vi.stubEnv('TSXLA_CACHE_DIR', disk);
      await expect(findPlugin('cpu')).rejects.toThrow(
        /no space left on the disk of .*xla-cpu-pjrt 0.0.1 needs 308 MiB.*wheel 60.5 MiB, library 247 MiB/,
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
      'the CUDA plugin needs libcuda.so.1, libcublasLt.so.13, libcublas.so.13: not found on this machine. libcuda.so.1 ' +
        'comes with the NVIDIA driver (apt-get install nvidia-driver-580; it needs a GPU). Install the rest with: python3 -m ' +
        'pip install nvidia-cublas',
    );
  });
});
