// TSXLA_LOG=debug says what a run is set up on: a program of eight devices, in a process of its own.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

const program = path.join(import.meta.dirname, `../examples/.setup-log-${process.pid}.mjs`); // finds itself by name there
const CODE = `
import * as tx from 'tsxla';
import { Mesh, parallelize, shardBatch } from 'tsxla/spmd';

const mesh = new Mesh([2, 4], ['fsdp', 'model'], { devices: [0, 2, 4, 6, 1, 3, 5, 7] });
const model = new tx.nn.Sequential(new tx.nn.Linear(512, 256), new tx.nn.Tanh(), new tx.nn.Linear(256, 8));
parallelize(model, mesh, { '0.weight': 0, '0.bias': 0, '2.weight': 1 });
const loss = tx.compile(function loss(x) { return model.forward(x).square().mean(); });
await (await loss(shardBatch(tx.randn([8, 512]), mesh))).item();
console.log('done');
`;
const SECRETS = { TSXLA_RENDEZVOUS_TOKEN: 'hush-1', TPU_API_KEY: 'hush-2', HF_TOKEN: 'hush-3', JAX_PASSWORD: 'hush-4' };
const flags = '--xla_force_host_platform_device_count=8';

async function run(log: string): Promise<string[]> {
  const env = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'],
    TSXLA_CACHE_DIR: process.env['TSXLA_CACHE_DIR'],
    TSXLA_CACHE: 'off',
    PJRT_DEVICE: 'CPU',
    XLA_FLAGS: flags,
    LIBTPU_INIT_ARGS: '--xla_tpu_x=1 --some_token=hush-5 --from=http://user:hush-6@host/',
    MEGASCALE_NUM_SLICES: '2',
    TSXLA_LOG: log,
    UNRELATED: 'not for the log',
    ...SECRETS,
  };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program], { env });
  expect(stdout).toBe('done\n');
  return stderr
    .trim()
    .split('\n')
    .filter((line) => line.startsWith('tsxla: '))
    .map((line) => line.slice(7));
}

let lines: string[];
beforeAll(async () => {
  fs.writeFileSync(program, CODE);
  lines = await run('debug');
});
afterAll(() => fs.rmSync(program, { force: true }));

/** The line that begins so, and the indented ones below it. */
function section(begin: string): string[] {
  const at = lines.findIndex((line) => line.startsWith(begin));
  expect(at, `${begin} in\n${lines.join('\n')}`).toBeGreaterThanOrEqual(0);
  const rest = lines.slice(at + 1);
  const end = rest.findIndex((line) => !line.startsWith('  '));
  return [lines[at]!, ...(end < 0 ? rest : rest.slice(0, end)).map((line) => line.trim())];
}

test('the device, its plugin with version and path, and the platform', () => {
  expect(lines).toContain('using cpu: PJRT_DEVICE=CPU');
  expect(section('plugin for cpu')[0]).toMatch(/^plugin for cpu: xla-cpu-pjrt \d+\.\d+\.\d+, from \w+: \/.*\.so$/);
  expect(section('platform')[0]).toMatch(/^platform: cpu, PJRT C API \d+\.\d+; /);
  expect(section('devices')[0]).toBe('devices: 8 (cpu), 8 of them in this process, process 0 of 1');
});

test('the variables that matter, without secrets', () => {
  expect(section('environment')).toEqual([
    'environment:',
    'LIBTPU_INIT_ARGS=--xla_tpu_x=1 --some_token=... --from=http://...@host/',
    'MEGASCALE_NUM_SLICES=2',
    'PJRT_DEVICE=CPU',
    'TSXLA_CACHE=off',
    ...(process.env['TSXLA_CACHE_DIR'] ? [`TSXLA_CACHE_DIR=${process.env['TSXLA_CACHE_DIR']}`] : []),
    'TSXLA_LOG=debug',
    `XLA_FLAGS=${flags}`,
  ]);
  expect(lines.join('\n')).not.toMatch(/hush|_TOKEN|_KEY|PASSWORD|UNRELATED/);
});

test('the mesh once, with its order of devices', () => {
  expect(section('mesh')).toEqual([
    'mesh: shape [2, 4], axes [fsdp, model], devices in this order, model along a row:',
    '0 2 4 6',
    '1 3 5 7',
  ]);
  expect(lines.filter((line) => line.startsWith('mesh'))).toHaveLength(1);
});

test('how parameters lie, by partition spec: as each way of splitting left them', () => {
  const mesh = 'fsdp=2, model=4 on devices 0,2,4,6,1,3,5,7';
  expect(section('tensorParallel')).toEqual([
    `tensorParallel along model: 4 tensors over ${mesh}`,
    '[model]: 2 tensors, 513 KiB, 128 KiB a device: 0.weight f32[256, 512], 0.bias f32[256]',
    '[null, model]: 1 tensor, 8.00 KiB, 2.00 KiB a device: 2.weight f32[8, 256]',
    'whole on every device: 1 tensor, 32 B, 32 B a device: 2.bias f32[8]',
  ]);
  expect(section('fsdp along fsdp')[1]).toBe(
    '[model, fsdp]: 1 tensor, 512 KiB, 64.0 KiB a device: 0.weight f32[256, 512]',
  );
  const [head, ...specs] = section('program loss:');
  expect(head).toBe(`program loss: 5 inputs over ${mesh}`);
  expect(specs).toContain('[fsdp]: 1 tensor, 16.0 KiB, 8.00 KiB a device: f32[8, 512]');
  expect(specs).toContain('[model, fsdp]: 1 tensor, 512 KiB, 64.0 KiB a device: f32[256, 512]');
});

test('without it only the device is named, and quiet says nothing', async () => {
  expect(await run('')).toEqual(['using cpu: PJRT_DEVICE=CPU']);
  expect(await run('quiet')).toEqual([]);
});
