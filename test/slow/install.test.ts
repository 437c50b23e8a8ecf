// Installing under stress: many processes at once, processes killed half-way, and the npm packages without Python.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { times } from '../repeat.js';

const KILLS = times(6, 20);
const root = path.join(import.meta.dirname, '../..');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-install-'));
const wheels = path.join(scratch, 'wheels');
const wheelTag = process.arch === 'arm64' ? 'manylinux_2_27_aarch64' : 'manylinux_2_27_x86_64';

// The wheel is downloaded once; from then on the real pip takes it from this folder.
beforeAll(() => {
  const args = ['-m', 'pip', 'download', '--no-deps', '--only-binary=:all:', '--platform', wheelTag, '-d', wheels];
  execFileSync('python3', [...args, 'xla-cpu-pjrt==0.0.1'], { stdio: 'ignore' });
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

const environment = (store: string) => ({
  ...process.env,
  TSXLA_CACHE_DIR: store,
  TSXLA_LOG: 'quiet',
  TSXLA_PLUGIN_CPU: '',
  PIP_NO_INDEX: '1',
  PIP_FIND_LINKS: wheels,
});

/** A Node process that runs `code` with tsxla/plugins at hand, and prints the value as JSON. */
function node(code: string, env: NodeJS.ProcessEnv, cwd = root): ChildProcess {
  const program = `import * as plugins from 'tsxla/plugins'; console.log(JSON.stringify(await (${code})(plugins) ?? null));`;
  return spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function result(child: ChildProcess) {
  let text = '';
  child.stdout!.on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  expect(code).toBe(0);
  return JSON.parse(text);
}

test('ten processes at once run pip once', async () => {
  const store = path.join(scratch, 'ten');
  const bin = path.join(scratch, 'bin');
  const log = path.join(scratch, 'pip.log');
  const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim();
  fs.mkdirSync(bin);
  const count = `#!/bin/sh\ncase "$*" in *--require-hashes*) echo run >> ${log};; esac\nexec ${python} "$@"\n`;
  fs.writeFileSync(path.join(bin, 'python3'), count, { mode: 0o755 });
  const env = { ...environment(store), PATH: `${bin}:${process.env['PATH']}` };
  const found = await Promise.all(Array.from({ length: 10 }, () => result(node(`p => p.findPlugin('cpu')`, env))));
  expect(fs.readFileSync(log, 'utf8')).toBe('run\n');
  expect(found.filter((f) => f.source === 'fetched')).toHaveLength(1);
  expect(found.filter((f) => f.source === 'store')).toHaveLength(9);
  expect(new Set(found.map((f) => f.path)).size).toBe(1);
  const entry = `xla-cpu-pjrt-0.0.1-${process.platform}-${process.arch}`;
  expect(fs.readdirSync(path.join(store, 'plugins')).sort()).toEqual([entry, `${entry}.verified`]);
});

test(`killed at ${KILLS} random moments, it installs the next time`, async () => {
  const store = path.join(scratch, 'killed');
  const env = environment(store);
  const folders = () => (fs.existsSync(`${store}/plugins`) ? fs.readdirSync(`${store}/plugins`) : []);
  const temporary = () => folders().filter((name) => name.includes('.tmp-'));
  /** Processes with the store in their arguments: pip, if it outlives the process that started it. */
  const orphans = () =>
    fs.readdirSync('/proc').filter((pid) => {
      try {
        return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(store);
      } catch {
        return false; // it ended meanwhile
      }
    });
  const began = performance.now();
  await result(node(`p => p.installPlugin('cpu')`, env));
  const duration = performance.now() - began;

  let survived = 0;
  for (let kills = 0; kills < KILLS; ) {
    if (kills === KILLS / 2) await result(node(`p => p.removePlugin('cpu')`, env)); // half over an old one, half from nothing
    const before = new Set(temporary());
    const child = node(`p => p.installPlugin('cpu', { force: true })`, env);
    // Its work starts when it has the lock, which the one killed before may still seem to hold for some seconds.
    while (!temporary().some((name) => !before.has(name)) && child.exitCode === null) await sleep(5);
    await sleep(Math.random() * duration);
    if (!child.kill('SIGKILL')) continue; // it was done before
    kills++;
    await once(child, 'close');
    while (orphans().length > 0) await sleep(50); // pip ends with the process that started it
    // What a kill leaves is either nothing or the whole library.
    const check = `async p => { const s = (await p.listPlugins())[0]; if (s.plugin) await p.verifyPlugin(s.plugin); return s; }`;
    const { plugin, problem } = await result(node(check, env));
    if (plugin) survived++;
    else expect(problem).toMatch(/^no cpu plugin was found/);
  }
  console.log(
    `${survived} of ${KILLS} kills found a whole plugin in place; an installation takes ${Math.round(duration)} ms`,
  );
  const found = await result(
    node(`async p => { const f = await p.installPlugin('cpu'); await p.verifyPlugin(f); return f; }`, env),
  );
  const entry = path.basename(path.dirname(found.path));
  // Beside the record of a check, which is written when the library is next looked for.
  expect(folders().filter((name) => name !== `${entry}.verified`)).toEqual([entry]);
});

test('the plugin for Apple GPUs is fetched for its platform, with the kernels beside it', async () => {
  const { PIP_NO_INDEX: _, PIP_FIND_LINKS: __, ...env } = environment(path.join(scratch, 'mps'));
  const at = `{ platform: 'darwin-arm64' }`;
  const installed = await result(node(`p => p.installPlugin('mps', ${at})`, env));
  expect(installed).toMatchObject({ source: 'fetched', package: 'jax-mps', version: '0.11.1', size: 31_820_024 });
  const folder = path.dirname(installed.path);
  expect(fs.readdirSync(folder).sort()).toEqual(['libpjrt_plugin_mps.dylib', 'manifest.json', 'mlx.metallib']);
  const find = `async p => { const f = await p.findPlugin('mps', ${at}); await p.verifyPlugin(f); return f; }`;
  expect((await result(node(find, env))).source).toBe('store'); // a whole library for macOS on arm64, by its header
  const failure = `async p => { try { await p.findPlugin('mps', ${at}); } catch (e) { return e.message; } }`;
  const kernels = path.join(folder, 'mlx.metallib');
  const file = fs.openSync(kernels, 'r+');
  fs.writeSync(file, 'X', 1_000_000);
  fs.closeSync(file);
  expect(await result(node(failure, env))).toMatch(
    /mlx\.metallib is not the library that was installed: its sha256 is/,
  );
  fs.rmSync(kernels);
  expect(await result(node(failure, env))).toBe(
    `${kernels} is missing from the store. Repair it with: tsxla plugins install mps`,
  );
  expect((await result(node(`p => p.installPlugin('mps', ${at})`, env))).source).toBe('fetched');
  // Loading it is not for this machine.
  const loading = await result(
    node(
      `async p => { const { Client } = await import('tsxla/pjrt'); return Client.create(${JSON.stringify(installed.path)}).catch((e) => e.message); }`,
      env,
    ),
  );
  expect(loading).toMatch(/is a library for macOS, but this process runs on linux/);
  expect(await result(node(`p => p.removePlugin('mps')`, env))).toEqual([folder]);
  expect(fs.readdirSync(path.dirname(folder))).toEqual([]);
});

test('the npm packages bring a CPU to a machine without Python', async () => {
  const platform = `${process.platform}-${process.arch}`;
  execFileSync('npx', ['tsx', 'scripts/release.ts', '--only', platform], {
    cwd: root,
    stdio: 'ignore',
    env: environment(scratch),
  });
  const { version } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
  const tarballs = [`tsxla-cpu-${platform}-0.0.1.tgz`, `tsxla-${version}.tgz`].map((name) =>
    path.join(root, 'release', name),
  );
  const project = path.join(scratch, 'project');
  fs.mkdirSync(project);
  fs.writeFileSync(path.join(project, 'package.json'), '{ "private": true }');
  execFileSync('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: project, stdio: 'ignore' });
  const env = { ...environment(path.join(scratch, 'unused')), PATH: path.join(scratch, 'nothing') };
  const find = `async p => { const f = await p.findPlugin('cpu'); await p.verifyPlugin(f); return f; }`;
  const found = await result(node(find, env, project));
  expect(found).toMatchObject({ source: 'npm', package: 'xla-cpu-pjrt', version: '0.0.1' });
  expect(found.path).toBe(fs.realpathSync(path.join(project, `node_modules/@tsxla/cpu-${platform}/xla_cpu_pjrt.so`)));
  expect(fs.existsSync(path.join(scratch, 'unused'))).toBe(false);
});
