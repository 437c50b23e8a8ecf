// Which devices there are: as the plugin lists them, or, before it was started, as the machine and the environment tell.
import { env, envInteger } from '../base/env.js';
import { parseTopology } from '../base/slices.js';
import type { Device } from '../pjrt/index.js';
import type { DeviceType } from '../plugins/index.js';
import { device, filesLike, virtualDevices, visibleGpus } from '../runtime/device.js';
import { ownGpu } from '../runtime/processes.js';
import { allDone, checkRuns, inTurn } from '../runtime/turn.js';
import { defaultClient, startedClient } from '../runtime/value.js';
import { TPUDeviceError } from './errors.js';

/** Of all processes, by what can be known without starting the plugin. */
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
};

/** The devices of all processes. */
export const worldSize = (): number => startedClient()?.devices.length ?? expected[device()]();

/** The numbers of this process's devices. */
const ownIds = (): number[] =>
  startedClient()?.addressableDevices.map(({ id }) => id) ?? Array.from({ length: worldSize() }, (_, i) => i);
/** cpu:0, cpu:1, ... those of this process. */
export const deviceNames = (): string[] => ownIds().map((id) => `${device()}:${id}`);

/** The number of this process's first device among all. */
export function worldRank(): number {
  const client = startedClient();
  if (!client) return device() === 'cuda' ? envInteger('RANK', 0, 0) : 0;
  const [first] = ownIds();
  return Math.max(
    0,
    client.devices.findIndex(({ id }) => id === first),
  );
}

/** A device of this process, by its place among them. */
export async function deviceAt(index: number): Promise<Device> {
  const { addressableDevices: all } = await defaultClient();
  const found = all[index];
  if (found) return found;
  throw new TPUDeviceError(`there is no device ${index}: this process has ${all.length}, from 0`, {
    details: { index, devices: all.length },
  });
}

/** Waits until the devices have computed all that was asked of them. What failed there is thrown here, once. */
export async function allComputed(): Promise<void> {
  await inTurn(allDone);
  checkRuns();
}
