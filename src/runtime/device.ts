// Chooses the device to use, and starts its client.
import fs from 'node:fs';
import os from 'node:os';
import { checkWhole } from '../base/check.js';
import { env, envInteger, platform } from '../base/env.js';
import { ArgumentError, PluginLoadError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { setEnvironment } from '../base/native.js';
import { Api, Client, type KeyValueCallbacks, keepFreedMemory, type Options, preload } from '../pjrt/index.js';
import {
  cudaMissing,
  DEVICE_TYPES,
  type DeviceType,
  type FoundPlugin,
  findCudaLibraries,
  findPlugin,
} from '../plugins/index.js';
import { events } from './events.js';
import { defaultFlags } from './flags.js';
import { joinOthers, sayWhich } from './processes.js';

/**
 * The environment variables libtpu needs to compile on a machine without a TPU. Without them, libtpu asks a cloud server
 * about the machine (for minutes, if there is none), admits one process per machine, and writes log files.
 */
export const LIBTPU_WITHOUT_TPU = { TPU_SKIP_MDS_QUERY: '1', ALLOW_MULTIPLE_LIBTPU_LOAD: '1', TPU_LOG_DIR: 'disabled' };

export interface Choice {
  readonly device: DeviceType;
  readonly why: string;
}

const exists = (path: string): boolean => fs.existsSync(path);
const GOOGLE = '0x1ae0';
const hasPciVendor = (vendor: string): boolean => {
  const devices = '/sys/bus/pci/devices';
  const vendorOf = (device: string) => fs.readFileSync(`${devices}/${device}/vendor`, 'utf8').trim();
  return exists(devices) && fs.readdirSync(devices).some((device) => vendorOf(device) === vendor);
};
const MACOS_14 = 23; // the release of its kernel
/** Whether the machine has a device of this type, by the files of its driver. */
const present: Readonly<Record<DeviceType, () => boolean>> = {
  cpu: () => true,
  cuda: () => exists('/dev/nvidia0') || exists('/dev/dxg'),
  tpu: () => exists('/dev/accel0') || (exists('/dev/vfio/0') && hasPciVendor(GOOGLE)), // others use vfio too
  mps: () => platform() === 'darwin-arm64' && Number.parseInt(os.release(), 10) >= MACOS_14, // each of them has a GPU
};

/** The number of files with matching names: drivers create one for each device. */
export const filesLike = (folder: string, pattern: RegExp): number =>
  exists(folder) ? fs.readdirSync(folder).filter((name) => pattern.test(name)).length : 0;
/** GPUs of this machine that this process may use, as in CUDA_VISIBLE_DEVICES. */
export const visibleGpus = (): string[] =>
  env('CUDA_VISIBLE_DEVICES')?.split(',') ??
  Array.from({ length: filesLike('/dev', /^nvidia\d+$/) }, (_, i) => String(i));

/** Messages for a missing device, with the files that were checked. */
export const absence: Readonly<Record<DeviceType, string>> = {
  cpu: 'this machine has no CPU',
  cuda: 'this machine has no NVIDIA GPU (no /dev/nvidia0)',
  tpu: 'this machine has no TPU (no /dev/accel0, no TPU under /dev/vfio)',
  mps: `this machine has no Apple GPU that mps can use (it needs macOS 14 or later on arm64, and this is ${platform()})`,
};

/** The device chosen by `device`, and the one in use since the first computation. */
let chosen: DeviceType | undefined;
let started: DeviceType | undefined;

/** A device type by the names of PJRT_DEVICE and torch: gpu, cuda:0. */
export const deviceNamed = (name: string): DeviceType | undefined => {
  const plain = name.toLowerCase().replace(/:0$/, '');
  return DEVICE_TYPES.find((device) => device === (plain === 'gpu' ? 'cuda' : plain));
};

/**
 * The device that tensors are computed on; a process has one. With a name, chooses it; this must happen before anything is
 * computed. 'auto' is PJRT_DEVICE if set, else a TPU, else a GPU (NVIDIA's or Apple's), else the CPU.
 */
export function device(name?: DeviceType | 'auto'): DeviceType {
  if (name === undefined) return started ?? chooseDevice().device;
  const wanted = name === 'auto' ? autoDevice().device : deviceNamed(String(name));
  if (!wanted) throw new ArgumentError(`device: ${name} is not a device: use auto, ${DEVICE_TYPES.join(', ')}`);
  if (started && started !== wanted && name !== 'auto')
    throw new ArgumentError(
      `device: cannot switch to ${wanted}, since tensors are already computed on ${started} and a process has one device: choose it before anything is computed, or set PJRT_DEVICE`,
    );
  if (started) return started;
  checkPresent(wanted);
  chosen = name === 'auto' ? undefined : wanted;
  return wanted;
}
/** Fixes the choice of the device. */
export const settleDevice = (): void => void (started ??= chooseDevice().device);

/** The device to use: the one chosen by `device`, else that of 'auto'. */
export const chooseDevice = (): Choice => (chosen ? { device: chosen, why: `tx.device('${chosen}')` } : autoDevice());

function autoDevice(): Choice {
  const wanted = env('PJRT_DEVICE');
  if (wanted) {
    const device = deviceNamed(wanted);
    if (device) return { device, why: `PJRT_DEVICE=${wanted}` };
    throw new ArgumentError(`PJRT_DEVICE=${wanted} is not a device: use CPU, CUDA, TPU or MPS`);
  }
  if (present.tpu()) return { device: 'tpu', why: 'this machine has a TPU' };
  if (present.cuda()) return { device: 'cuda', why: 'this machine has an NVIDIA GPU' };
  if (present.mps()) return { device: 'mps', why: 'this machine has an Apple GPU' };
  return { device: 'cpu', why: 'this machine has no TPU and no NVIDIA GPU' };
}
/** Whether the user named the device, rather than leaving it to detection. */
export const isChosen = (): boolean => chosen !== undefined || Boolean(env('PJRT_DEVICE'));
export const isPresent = (device: DeviceType): boolean => present[device]();

/** XLA numbers the CPU devices of a process from 2048 times the process's own number. */
export const MOST_CPU_DEVICES = 2048;

/** The number of virtual CPU devices, from the variable of PyTorch/XLA or JAX's flag. */
export const virtualDevices = (): number =>
  envInteger(
    'CPU_NUM_DEVICES',
    Number(/--xla_force_host_platform_device_count=(\d+)/.exec(env('XLA_FLAGS') ?? '')?.[1] ?? 1),
    1,
  );

let isAnnounced = false;
/** Suppresses the notice when the device is started: the user knows already which one is used. */
export const announceDevice = (): void => void (isAnnounced = true);

export interface OpenOptions {
  /** The number of virtual CPU devices. Default: 1. */
  readonly cpuDevices?: number;
  readonly onProgress?: (done: number, total: number) => void;
  /** More options for the plugin. */
  readonly options?: Options;
  /** Callbacks through which the plugin reaches other processes. */
  readonly callbacks?: KeyValueCallbacks;
}

/** Finds the plugin of a device, fetches it if needed, and starts it, together with other processes if there are any. */
export async function openClient(
  name: DeviceType | 'auto' = 'auto',
  o: OpenOptions = {},
): Promise<{ client: Client; plugin: FoundPlugin }> {
  const { device, why } = name === 'auto' ? chooseDevice() : { device: name, why: undefined };
  if (why && !isAnnounced) notice(`using ${device}: ${why}`);
  checkPresent(device);
  const plugin = await findPlugin(device, o.onProgress ? { onProgress: o.onProgress } : {});
  events.clientStarting(plugin);
  const { options, callbacks } = await joinOthers(device);
  const all = { ...o, options: { ...options, ...o.options }, ...(callbacks && { callbacks }) };
  const client = await startClient(device, plugin.path, all);
  sayWhich(client);
  events.clientStarted(client);
  return { client, plugin };
}

/** Throws if the device is missing, before anything is fetched or started: libtpu would look for a TPU for many minutes. */
function checkPresent(device: DeviceType): void {
  if (isPresent(device)) return;
  throw new ArgumentError(`${absence[device]}: use another device; tsxla doctor lists them`);
}

export async function startClient(device: DeviceType, path: string, o: OpenOptions = {}): Promise<Client> {
  const { cpuDevices = 1 } = o;
  checkWhole('cpuDevices', cpuDevices, 1, MOST_CPU_DEVICES);
  if (device === 'cuda') await prepareCuda(path);
  const defaults: Options = {
    // By default, the plugin would allocate three quarters of the GPU's memory at once, without a message.
    ...(device === 'cuda' && { allocator: 'bfc', preallocate: false }),
    ...(device === 'cpu' && { cpu_device_count: cpuDevices }),
  };
  const api = Api.load(path);
  if (device === 'cpu') keepFreedMemory();
  return Client.create(api, { ...defaults, ...o.options }, { xlaFlags: defaultFlags(device) }, o.callbacks);
}

/** Makes NVIDIA's libraries and tools available to the plugin, which would end the process if one were missing. */
async function prepareCuda(path: string): Promise<void> {
  const libraries = await findCudaLibraries(path);
  const missing = cudaMissing(libraries);
  if (missing) throw new PluginLoadError(missing);
  preload(libraries.preload);
  const flag = '--xla_gpu_cuda_data_dir';
  const flags = env('XLA_FLAGS') ?? '';
  if (libraries.dataDir && !flags.includes(flag))
    setEnvironment('XLA_FLAGS', `${flags} ${flag}=${libraries.dataDir}`.trim());
}
