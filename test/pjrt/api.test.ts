// Libraries that are not what they should be, and the one call point.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { Api, PjrtError, PluginLoadError, PluginVersionError } from 'tsxla/pjrt';
import { afterAll, describe, expect, test } from 'vitest';
import { cpuPlugin } from '../support.js';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-api-'));
afterAll(() => fs.rmSync(dir, { recursive: true }));

test('the plugin tells its version and what it has', () => {
  const api = Api.load(cpuPlugin);
  expect(api.version).toEqual({ major: 0, minor: 81 });
  expect(api.has('PJRT_Client_Compile')).toBe(true);
  expect(Api.load(cpuPlugin)).toBe(api); // a library is initialised once
});

test('an error of XLA is typed, with its code and the function that gave it', () => {
  const api = Api.load(cpuPlugin);
  try {
    api.call('PJRT_TopologyDescription_Create', { topology_name: Buffer.from('moon'), topology_name_size: 4 });
    expect.unreachable();
  } catch (e) {
    expect(e).toBeInstanceOf(PjrtError);
    expect(e).toMatchObject({ code: 'UNIMPLEMENTED', call: 'PJRT_TopologyDescription_Create' });
  }
});

test('a library that is no plugin', () => {
  const addon = createRequire(import.meta.url).resolve(`@koromix/koffi-linux-${process.arch}`);
  const library = path.join(path.dirname(addon), `linux_${process.arch}`, 'koffi.node');
  expect(() => Api.load(library)).toThrow(PluginLoadError);
  expect(() => Api.load(library)).toThrow(/koffi\.node: it has no GetPjrtApi, so it is not a PJRT plugin$/);
});

test('a library that needs one that is not there', () => {
  const bytes = fs.readFileSync(
    createRequire(import.meta.url)
      .resolve('koffi')
      .replace(/koffi\/index.*/, `@koromix/koffi-linux-${process.arch}/linux_${process.arch}/koffi.node`),
  );
  const at = bytes.indexOf('libc.so.6\0');
  bytes.write('libz_.so.6', at, 'latin1');
  fs.writeFileSync(path.join(dir, 'lonely.so'), bytes);
  expect(() => Api.load(path.join(dir, 'lonely.so'))).toThrow(/lonely\.so: .*libz_\.so\.6/);
});

const hasCompiler = (() => {
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();
describe.runIf(hasCompiler)('a plugin of another version', () => {
  /** A plugin whose table says it is of `version`, and holds `functions` of them, each of which does nothing. */
  function plugin(name: string, version: [number, number], functions: number): string {
    const source = path.join(dir, `${name}.c`);
    fs.writeFileSync(
      source,
      `#include <stddef.h>
       static void* nothing(void* args) { return 0; }
       static struct { size_t size; void* ext; struct { size_t size; void* ext; int major, minor; } version; void* f[${functions}]; } api;
       const void* GetPjrtApi(void) {
         api.size = sizeof api; api.version.major = ${version[0]}; api.version.minor = ${version[1]};
         for (int i = 0; i < ${functions}; i++) api.f[i] = nothing;
         return &api;
       }`,
    );
    execFileSync('cc', ['-shared', '-fPIC', '-o', path.join(dir, `${name}.so`), source]);
    return path.join(dir, `${name}.so`);
  }

  test('older than tsxla needs', () => {
    const old = plugin('old', [0, 23], 20);
    expect(() => Api.load(old)).toThrow(PluginVersionError);
    expect(() => Api.load(old)).toThrow(
      'old.so has PJRT C API 0.23, but tsxla needs 0.70 or a later 0.x: install a newer plugin',
    );
  });
  test('of a future with another ABI', () => {
    expect(() => Api.load(plugin('next', [1, 0], 20))).toThrow(
      'has PJRT C API 1.0, but tsxla needs 0.70 or a later 0.x',
    );
  });
  test('new enough, but without a function that is asked for', () => {
    const api = Api.load(plugin('short', [0, 80], 20));
    expect(api.has('PJRT_Plugin_Initialize')).toBe(true);
    expect(api.has('PJRT_Client_CreateAliasBuffer')).toBe(false);
    expect(() => api.call('PJRT_Client_CreateAliasBuffer')).toThrow(
      /short\.so has no PJRT_Client_CreateAliasBuffer: its PJRT C API is 0\.80, tsxla knows 0\.81$/,
    );
  });
});
