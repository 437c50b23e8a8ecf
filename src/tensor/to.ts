// x.to(device): a process computes on one device, so the device is only checked; nothing is moved.
import { ArgumentError } from '../base/errors.js';
import { isPlain } from '../base/tree.js';
import { deviceNamed, device as deviceOf } from '../runtime/device.js';

const DEVICE = /^(cpu|cuda|gpu|tpu|xla)(:\d+)?$/;
const isDevice = (x: unknown): boolean =>
  (typeof x === 'string' || (typeof x === 'object' && x !== null && 'index' in x)) && DEVICE.test(String(x));

function checkDevice(given: unknown): void {
  const [name, index = '0'] = String(given).split(':') as [string, string?];
  const device = deviceOf();
  if (index !== '0')
    throw new ArgumentError(`to: no device ${String(given)}: a process computes on one device, ${device}`);
  if (name !== 'xla' && deviceNamed(name) !== device)
    throw new ArgumentError(
      `to: this process computes on ${device} and cannot move tensors to '${String(given)}': choose the device before the first computation with tx.device('${name}'). To read values: await x.tolist()`,
    );
}
/** Checks the devices among the arguments of `to`, and returns the others. */
export function withoutDevices(args: readonly unknown[]): unknown[] {
  return args.flatMap((x) => {
    if (isDevice(x)) {
      checkDevice(x);
      return [];
    }
    if (!isPlain(x) || !('device' in x)) return [x];
    const { device, ...rest } = x;
    if (device != null) checkDevice(device);
    return Object.keys(rest).length ? [rest] : [];
  });
}
