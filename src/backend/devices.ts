// Lists devices: from the plugin, or, before it was started, from the machine and the environment.
import { env, envInteger } from '../base/env.js';
import { parseTopology } from '../base/slices.js';
import type { Device } from '../pjrt/index.js';
import type { DeviceType } from '../plugins/index.js';
import { device, filesLike, virtualDevices, visibleGpus } from '../runtime/device.js';
import { ownGpu } from '../runtime/processes.js';
import { checkRuns } from '../runtime/turn.js';
import { defaultClient, startedClient } from '../runtime/value.js';
import { sync } from '../step/sync.js';
import { TPUDeviceError } from './errors.js';

/** The number of devices of all processes, as far as known without starting the plugin. */
const expected: Readonly<Record<DeviceType, () => number>> = {
  cpu: virtualDevices,
  cuda: () => {
    const processes = envInteger('WORLD_SIZE', 1, 1);
    const own = processes > 1 ? ownGpu().visible_devices : undefined;
    return processes * (own ?? visibleGpus()).length;
  },
  tpu: () => {
    const slice = env('TPU_ACCELERATOR_TYPE'); // Cloud TPU's own: v5litepod-16
    if (slice) return parseTopology(slice).devices;
    return Math.max(1, filesLike('/dev', /^accel\d+$/) || filesLike('/dev/vfio', /^\d+$/));
  },
  mps: () => 1,
};

/** The number of devices of all processes. */
export const worldSize = (): number => startedClient()?.devices.length ?? expected[device()]();

/** The ids of this process's devices. */
const ownIds = (): number[] =>
  startedClient()?.addressableDevices.map(({ id }) => id) ?? Array.from({ length: worldSize() }, (_, i) => i);
/** Names of this process's devices: cpu:0, cpu:1, ... */
export const deviceNames = (): string[] => ownIds().map((id) => `${device()}:${id}`);

/** The index of this process's first device among all. */
export function worldRank(): number {
  const client = startedClient();
  if (!client) return device() === 'cuda' ? envInteger('RANK', 0, 0) : 0;
  const [first] = ownIds();
  return Math.max(
    0,
    client.devices.findIndex(({ id }) => id === first),
  );
}

/** A device of this process, by its index. */
export async function deviceAt(index: number): Promise<Device> {
  const { addressableDevices: all } = await defaultClient();
  const found = all[index];
  if (found) return found;
  throw new TPUDeviceError(`there is no device ${index}: this process has ${all.length}, counted from 0`, {
    details: { index, devices: all.length },
  });
}

/** Computes pending operations, and waits until the devices are done. Throws the error of failed work, once. */
export async function allComputed(): Promise<void> {
  await sync({ wait: true });
  checkRuns();
}
