// Which device to use, and starting it.
import fs from 'node:fs';
import { checkWhole } from '../base/check.js';
import { env, envInteger } from '../base/env.js';
import { ArgumentError, PluginLoadError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { Api, Client, type KeyValueCallbacks, keepFreedMemory, type Options, preload } from '../pjrt/index.js';
import {
  cudaMissing,
  DEVICE_TYPES,
  type DeviceType,
  type FoundPlugin,
  findCudaLibraries,
  findPlugin,
} from '../plugins/index.js';
import { defaultFlags } from './flags.js';
import { joinOthers, sayWhich } from './processes.js';

/**
 * The environment in which libtpu compiles where there is no TPU. Without it, libtpu asks a cloud server what machine
 * this is (for minutes, where there is none), admits one process a machine, and writes log files.
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
/** Whether the machine has such a device, by the files its driver makes. */
const present: Readonly<Record<DeviceType, () => boolean>> = {
  cpu: () => true,
  cuda: () => exists('/dev/nvidia0') || exists('/dev/dxg'),
  tpu: () => exists('/dev/accel0') || (exists('/dev/vfio/0') && hasPciVendor(GOOGLE)), // others use vfio too
};

/** Files with such names, as drivers make one for each device. */
export const filesLike = (folder: string, pattern: RegExp): number =>
  exists(folder) ? fs.readdirSync(folder).filter((name) => pattern.test(name)).length : 0;
/** GPUs of this machine that this process may see, as CUDA_VISIBLE_DEVICES has them. */
export const visibleGpus = (): string[] =>
  env('CUDA_VISIBLE_DEVICES')?.split(',') ??
  Array.from({ length: filesLike('/dev', /^nvidia\d+$/) }, (_, i) => String(i));

/** That it has none, and by what one knows. */
export const absence: Readonly<Record<DeviceType, string>> = {
  cpu: 'this machine has no CPU',
  cuda: 'this machine has no NVIDIA GPU (no /dev/nvidia0)',
  tpu: 'this machine has no TPU (no /dev/accel0, no TPU under /dev/vfio)',
};

/** What `device` chose, and what tensors are computed on since the first of them was. */
let chosen: DeviceType | undefined;
let started: DeviceType | undefined;

/** By the names of PJRT_DEVICE and of torch: gpu, cuda:0. */
export const deviceNamed = (name: string): DeviceType | undefined => {
  const plain = name.toLowerCase().replace(/:0$/, '');
  return DEVICE_TYPES.find((device) => device === (plain === 'gpu' ? 'cuda' : plain));
};

/**
 * What tensors are computed on: a process has one device. With a name it is chosen, before anything is computed; 'auto' is
 * PJRT_DEVICE if set, else a TPU, else a GPU, else the CPU.
 */
export function device(name?: DeviceType | 'auto'): DeviceType {
  if (name === undefined) return started ?? chooseDevice().device;
  const wanted = name === 'auto' ? autoDevice().device : deviceNamed(String(name));
  if (!wanted) throw new ArgumentError(`device: ${name} is not a device: use auto, ${DEVICE_TYPES.join(', ')}`);
  if (started && started !== wanted && name !== 'auto')
    throw new ArgumentError(
      `device: ${wanted} is asked for, and tensors are already computed on ${started}: a process has one device: choose it before anything is computed, or set PJRT_DEVICE`,
    );
  if (started) return started;
  checkPresent(wanted);
  chosen = name === 'auto' ? undefined : wanted;
  return wanted;
}
/** The device is not chosen again from now on. */
export const settleDevice = (): void => void (started ??= chooseDevice().device);

/** The device to use: what `device` chose, else what 'auto' means here. */
export const chooseDevice = (): Choice => (chosen ? { device: chosen, why: `tx.device('${chosen}')` } : autoDevice());

function autoDevice(): Choice {
  const wanted = env('PJRT_DEVICE');
  if (wanted) {
    const device = deviceNamed(wanted);
    if (device) return { device, why: `PJRT_DEVICE=${wanted}` };
    throw new ArgumentError(`PJRT_DEVICE=${wanted} is not a device: use CPU, CUDA or TPU`);
  }
  if (present.tpu()) return { device: 'tpu', why: 'this machine has a TPU' };
  if (present.cuda()) return { device: 'cuda', why: 'this machine has an NVIDIA GPU' };
  return { device: 'cpu', why: 'this machine has no TPU and no NVIDIA GPU' };
}
/** Whether it was asked for by its name, and not found. */
export const isChosen = (): boolean => chosen !== undefined || Boolean(env('PJRT_DEVICE'));
export const isPresent = (device: DeviceType): boolean => present[device]();

/** XLA numbers the CPU devices of a process from 2048 times the process's own number. */
export const MOST_CPU_DEVICES = 2048;

/** As how many devices the CPU appears, in PyTorch/XLA's words or in JAX's. */
export const virtualDevices = (): number =>
  envInteger(
    'CPU_NUM_DEVICES',
    Number(/--xla_force_host_platform_device_count=(\d+)/.exec(env('XLA_FLAGS') ?? '')?.[1] ?? 1),
    1,
  );

let isAnnounced = false;
/** The user knows which device is used, and why: it is not said when that is started. */
export const announceDevice = (): void => void (isAnnounced = true);

export interface OpenOptions {
  /** How many devices the CPU should appear to be. */
  readonly cpuDevices?: number;
  readonly onProgress?: (done: number, total: number) => void;
  /** More options for the plugin. */
  readonly options?: Options;
  /** How the plugin reaches other processes. */
  readonly callbacks?: KeyValueCallbacks;
}

/** Finds the plugin of a device, fetching it if need be, and starts it, together with the other processes if there are any. */
export async function openClient(
  name: DeviceType | 'auto' = 'auto',
  o: OpenOptions = {},
): Promise<{ client: Client; plugin: FoundPlugin }> {
  const { device, why } = name === 'auto' ? chooseDevice() : { device: name, why: undefined };
  if (why && !isAnnounced) notice(`using ${device}: ${why}`);
  checkPresent(device);
  const plugin = await findPlugin(device, o.onProgress ? { onProgress: o.onProgress } : {});
  const { options, callbacks } = await joinOthers(device);
  const all = { ...o, options: { ...options, ...o.options }, ...(callbacks && { callbacks }) };
  const client = await startClient(device, plugin.path, all);
  sayWhich(client);
  return { client, plugin };
}

/** Before anything is fetched or started: libtpu would look for a TPU for many minutes. */
function checkPresent(device: DeviceType): void {
  if (isPresent(device)) return;
  throw new ArgumentError(`${absence[device]}: use another device; tsxla doctor tells which there are`);
}

export async function startClient(device: DeviceType, path: string, o: OpenOptions = {}): Promise<Client> {
  const { cpuDevices = 1 } = o;
  checkWhole('cpuDevices', cpuDevices, 1, MOST_CPU_DEVICES);
  if (device === 'cuda') await prepareCuda(path);
  const defaults: Options = {
    // The default takes three quarters of the card at once and says nothing.
    ...(device === 'cuda' && { allocator: 'bfc', preallocate: false }),
    ...(device === 'cpu' && { cpu_device_count: cpuDevices }),
  };
  const api = Api.load(path);
  if (device === 'cpu') keepFreedMemory();
  return Client.create(api, { ...defaults, ...o.options }, { xlaFlags: defaultFlags(device) }, o.callbacks);
}

/** NVIDIA's libraries and compiler tools, where the plugin finds them. It would end the process over one it misses. */
async function prepareCuda(path: string): Promise<void> {
  const libraries = await findCudaLibraries(path);
  const missing = cudaMissing(libraries);
  if (missing) throw new PluginLoadError(missing);
  preload(libraries.preload);
  const flag = '--xla_gpu_cuda_data_dir';
  const flags = env('XLA_FLAGS') ?? '';
  if (libraries.dataDir && !flags.includes(flag))
    process.env.XLA_FLAGS = `${flags} ${flag}=${libraries.dataDir}`.trim();
}
