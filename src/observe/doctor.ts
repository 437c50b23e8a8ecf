// Diagnoses what works on this machine, by running each plugin in a separate process.
import { existsSync } from 'node:fs';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { cacheDir, env, platform, runtime } from '../base/env.js';
import { PluginNotFoundError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { isolated } from '../base/isolated.js';
import { messageOf } from '../base/thrown.js';
import { distrustFolder } from '../base/trust.js';
import { version } from '../base/version.js';
import { Api, type Client, type Device, type DeviceMemory } from '../pjrt/index.js';
import {
  DEVICE_TYPES,
  type DeviceType,
  type FoundPlugin,
  findPlugin,
  variableOf,
  verifyPlugin,
} from '../plugins/index.js';
import { cacheLimit, programsDir } from '../runtime/cache.js';
import {
  type Choice,
  chooseDevice,
  isPresent,
  LIBTPU_WITHOUT_TPU,
  startClient,
  virtualDevices,
} from '../runtime/device.js';

export interface CheckedDevice {
  readonly name: string;
  readonly memory?: DeviceMemory;
  /** The test matmul: its size, whether every element was right, and the time of one run. */
  readonly size: number;
  readonly correct: boolean;
  readonly seconds: number;
}

export interface DeviceReport {
  readonly device: DeviceType;
  readonly state: 'ok' | 'absent' | 'failed';
  readonly summary: string;
  readonly plugin?: FoundPlugin & { readonly api?: string };
  readonly chips: readonly CheckedDevice[];
  readonly advice?: string;
}

export interface Report {
  readonly ok: boolean;
  readonly tsxla: string;
  readonly runtime: string;
  readonly node: string;
  readonly platform: string;
  readonly cores: number;
  readonly memory: { readonly total: number; readonly free: number };
  readonly defaultDevice: Choice;
  readonly devices: readonly DeviceReport[];
  readonly caches: readonly { readonly path: string; readonly bytes: number; readonly free?: number }[];
  /** The cache of compiled programs; `refused` is the reason if it is not used. */
  readonly programs: {
    readonly path: string;
    readonly bytes: number;
    readonly limit: number;
    readonly refused?: string;
  };
  readonly advice?: string;
}

export async function diagnose(options: { onProgress?: (done: number, total: number) => void } = {}): Promise<Report> {
  const defaultDevice = chooseDevice();
  const devices: DeviceReport[] = [];
  for (const device of DEVICE_TYPES)
    devices.push(await diagnoseDevice(device, device === defaultDevice.device, options));
  const chosen = devices.find((d) => d.device === defaultDevice.device)!;
  return {
    ok: chosen.state === 'ok',
    tsxla: version,
    runtime: runtime(),
    node: process.versions.node,
    platform: platform(),
    cores: os.availableParallelism(),
    memory: { total: os.totalmem(), free: os.freemem() },
    defaultDevice,
    devices,
    caches: [await folder(cacheDir())],
    programs: await programs(),
    ...(chosen.advice && { advice: chosen.advice }),
  };
}

const UNTRIED =
  "tsxla's tests have not run on Apple GPUs yet: compare results with another device's, and report what differs";

async function diagnoseDevice(
  device: DeviceType,
  isDefault: boolean,
  options: { onProgress?: (done: number, total: number) => void },
): Promise<DeviceReport> {
  let found: FoundPlugin | undefined;
  let plugin: DeviceReport['plugin'];
  const result = (state: DeviceReport['state'], summary: string, more: Partial<DeviceReport> = {}): DeviceReport => ({
    device,
    state,
    summary,
    chips: [],
    ...(plugin && { plugin }),
    ...more,
  });
  try {
    found = plugin = await findPlugin(device, { fetch: isDefault && device === 'cpu', ...options });
    await verifyPlugin(found);
  } catch (e) {
    const isAbsent = e instanceof PluginNotFoundError && !env(variableOf(device)) && !(isDefault && device === 'cpu');
    if (!isAbsent) return result('failed', messageOf(e));
    const advice = `Install one: tsxla plugins install ${device}`;
    if (isDefault) return result('failed', 'no plugin', { advice: `${advice}; or use the CPU: PJRT_DEVICE=CPU` });
    if (device === 'mps' && !isPresent(device)) return result('absent', 'for macOS 14 or later on arm64');
    return isPresent(device)
      ? result('absent', 'no plugin, but the machine has such a device', { advice })
      : result('absent', 'no plugin');
  }
  const run = <T>(name: string, timeoutSeconds: number) =>
    isolated<T>(import.meta.url, name, [device, found.path], {
      what: `starting ${device}`,
      timeoutSeconds,
      env: device === 'tpu' && !isPresent(device) ? LIBTPU_WITHOUT_TPU : {},
    });
  try {
    plugin = { ...found, api: await run<string>('apiVersion', 120) };
    if (!isPresent(device)) {
      return result(
        'absent',
        device === 'tpu'
          ? 'no TPU here; compiling for one works (tsxla hlo compile)'
          : 'no such device on this machine',
      );
    }
    const chips = await run<CheckedDevice[]>('checkDevices', 300);
    const wrong = chips.filter((c) => !c.correct);
    if (wrong.length) return result('failed', `wrong results on ${wrong.map((c) => c.name).join(', ')}`, { chips });
    const advice = device === 'mps' ? UNTRIED : undefined;
    return result('ok', plural(chips.length, 'device'), { chips, ...(advice && { advice }) });
  } catch (e) {
    return result(
      'failed',
      messageOf(e),
      isDefault && device !== 'cpu' ? { advice: 'To use the CPU: PJRT_DEVICE=CPU' } : {},
    );
  }
}

/** Runs in a child process: only loads the library. */
export const apiVersion = (_device: DeviceType, path: string): string => {
  const { major, minor } = Api.load(path).version;
  return `${major}.${minor}`;
};

/** Runs in a child process: starts the client, runs a matmul on each device, and checks every element. */
export async function checkDevices(device: DeviceType, path: string): Promise<CheckedDevice[]> {
  using client = await startClient(device, path, { cpuDevices: virtualDevices() });
  const chips: CheckedDevice[] = [];
  for (const chip of client.addressableDevices) chips.push(await checkDevice(client, chip));
  return chips;
}

async function checkDevice(client: Client, device: Device): Promise<CheckedDevice> {
  const n = 256;
  const type = { dtype: 'f32', shape: [n, n] } as const;
  const t = `tensor<${n}x${n}xf32>`;
  const executable = await client.compile(
    `module @doctor { func.func public @main(%a: ${t}, %b: ${t}) -> ${t} {
       %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (${t}, ${t}) -> ${t}
       return %0 : ${t} } }`,
    { deviceIds: [device.id] },
  );
  // Small whole numbers: every product and sum is exact, in tf32 and bf16 too.
  const a = Float32Array.from({ length: n * n }, (_, i) => ((i * 7) % 5) - 2);
  const b = Float32Array.from({ length: n * n }, (_, i) => ((i * 11) % 7) - 3);
  const args = [a, b].map((data) => client.bufferFromHost(data, type, device));
  await executable.execute(args).done; // the first run may include set-up
  const start = performance.now();
  const { outputs, done } = executable.execute(args);
  await done;
  const elapsed = (performance.now() - start) / 1000;
  const c = await outputs[0]!.toHost<Float32Array>();
  const memory = device.memory();
  return { name: String(device), size: n, correct: isProduct(a, b, c, n), seconds: elapsed, ...(memory && { memory }) };
}

function isProduct(a: Float32Array, b: Float32Array, c: Float32Array, n: number): boolean {
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let k = 0; k < n; k++) sum += a[i * n + k]! * b[k * n + j]!;
      if (c[i * n + j] !== sum) return false;
    }
  }
  return true;
}

async function programs(): Promise<Report['programs']> {
  const dir = programsDir();
  const refused = existsSync(dir) ? distrustFolder(dir) : undefined;
  return { ...(await folder(dir)), limit: cacheLimit(), ...(refused && { refused }) };
}

/** A folder's size, and the free space on its disk. */
async function folder(dir: string): Promise<{ path: string; bytes: number; free?: number }> {
  const names = await fs.readdir(dir, { recursive: true }).catch(() => []);
  const files = await Promise.all(names.map((name) => fs.stat(path.join(dir, name)).catch(() => undefined)));
  const total = files.reduce((sum, file) => sum + (file?.isFile() ? file.size : 0), 0);
  const disk = await fs.statfs(dir).catch(() => undefined);
  return { path: dir, bytes: total, ...(disk && { free: disk.bavail * disk.bsize }) };
}
