// PyTorch/XLA's torch_xla.core.xla_model (usually imported as xm), for ported code: the same names in camelCase, each a thin
// wrapper of tsxla's own function. docs/xm.md has the table.
import { envInteger } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { chooseDevice } from '../runtime/device.js';
import { allDone, inTurn } from '../runtime/turn.js';
import { defaultClient } from '../runtime/value.js';
import { afterStep } from '../step/closures.js';
import { sync } from '../step/sync.js';
import { defaultGenerator, manualSeed } from '../tensor/random.js';
import { Tensor } from '../tensor/tensor.js';

/** xm.metrics_report: every metric and counter. */
export { report as metricsReport } from '../observe/metrics.js';
/** xm.mark_step (and the alias xla_mark_step): computes pending operations and ends the step. */
export { type SyncOptions, sync as markStep, sync as xlaMarkStep } from '../step/sync.js';
export { getStablehlo } from '../tensor/graph.js';

// ---- the device

/** The device that holds the tensors: PyTorch/XLA's `xla:0`, on any hardware. */
export interface XlaDevice {
  readonly type: 'xla';
  readonly index: 0;
  /** The type of hardware: PJRT_DEVICE if set, else detected on this machine. */
  readonly hardware: 'CPU' | 'CUDA' | 'TPU' | 'MPS';
  toString(): string;
}

/** xm.xla_device. A process computes on one device, so tensors never have to be moved to it. */
export function xlaDevice(n = 0): XlaDevice {
  if (n !== 0) throw new ArgumentError(`xlaDevice: there is no xla:${n}: a process computes on one device, xla:0`);
  const hardware = chooseDevice().device.toUpperCase() as XlaDevice['hardware'];
  return Object.freeze({ type: 'xla', index: 0, hardware, toString: () => 'xla:0' });
}

/** Whether a device, or its name, is one of XLA's. */
export const isXlaDevice = (device: unknown): boolean => String(device).toLowerCase().includes('xla');

export interface MemoryInfo {
  readonly bytesUsed: number;
  /** undefined if the plugin does not report it (CPU). */
  readonly bytesLimit: number | undefined;
  readonly peakBytesUsed: number | undefined;
}

/** xm.get_memory_info: as reported by the device; if the plugin reports nothing (CPU), the bytes of all live buffers. */
export async function getMemoryInfo(device: XlaDevice | string = xlaDevice()): Promise<MemoryInfo> {
  if (!/^xla(:0)?$/.test(String(device)))
    throw new ArgumentError(`getMemoryInfo: there is no device ${device}: use xlaDevice()`);
  const client = await defaultClient();
  const memory = client.defaultDevice.memory();
  return {
    bytesUsed: memory?.bytesInUse ?? client.live.bytes,
    bytesLimit: memory?.bytesLimit,
    peakBytesUsed: memory?.peakBytesInUse,
  };
}

// ---- steps

export interface OptimizerStepOptions {
  /**
   * Waits until the changes are computed, with all other pending operations, as markStep does. Not needed for speed: the
   * optimizer's step() ends the step and queues its computation itself.
   */
  readonly barrier?: boolean;
}

/** xm.optimizer_step: calls the optimizer's step() and returns its result; with `barrier`, once its changes are computed. */
export function optimizerStep<R>(optimizer: { step(): R }, options?: { readonly barrier?: false }): R;
export function optimizerStep<R>(optimizer: { step(): R }, options: OptimizerStepOptions): Promise<Awaited<R>>;
export function optimizerStep<R>(optimizer: { step(): R }, { barrier = false }: OptimizerStepOptions = {}) {
  if (typeof optimizer?.step !== 'function')
    throw new ArgumentError(`optimizerStep: takes an object with a step() method, got ${describe(optimizer)}`);
  const result = optimizer.step();
  return barrier ? Promise.resolve(result).then((value) => sync().then(() => value)) : result;
}

/** xm.add_step_closure: calls a function with these arguments when the step's results are ready, without blocking the loop. */
export const addStepClosure = <A extends unknown[]>(
  closure: (...args: A) => unknown,
  args: readonly [...A] = [] as unknown as [...A],
): void => afterStep(closure, ...(args as A));

/** xm.wait_device_ops: waits until the device has finished all work requested before. */
export const waitDeviceOps = (): Promise<void> => inTurn(allDone);

// ---- random numbers

/** xm.get_rng_state: the key and the counter of the default generator, u32[4], for setRngState. */
export const getRngState = (): Tensor => defaultGenerator.getState();
/** xm.set_rng_state: takes a seed, or a state from getRngState. */
export function setRngState(state: number | bigint | Tensor): void {
  if (state instanceof Tensor) defaultGenerator.setState(state);
  else manualSeed(state);
}

// ---- processes

/** xr.world_size: the number of processes of this job on this machine (PJRT_LOCAL_PROCESS_COUNT). */
export const worldSize = (): number => envInteger('PJRT_LOCAL_PROCESS_COUNT', 1, 1);
/** xm.xrt_world_size: the old name of worldSize. */
export const xrtWorldSize = worldSize;
/** xm.get_ordinal: the rank of this process among them (PJRT_LOCAL_PROCESS_RANK). */
export const getOrdinal = (): number => envInteger('PJRT_LOCAL_PROCESS_RANK', 0, 0);
/** xm.is_master_ordinal: whether this process has rank 0. */
export const isMasterOrdinal = (): boolean => getOrdinal() === 0;

/** xm.master_print: console.log on the first process only. */
export function masterPrint(...args: unknown[]): void {
  if (isMasterOrdinal()) console.log(...args);
}

/** xm.rendezvous: ends the step and returns the payload of each process. Only one process is supported. */
export async function rendezvous(tag: string, payload: Uint8Array = new Uint8Array()): Promise<Uint8Array[]> {
  if (!(payload instanceof Uint8Array))
    throw new ArgumentError(`rendezvous ${tag}: the payload is ${describe(payload)}: it must be a Uint8Array`);
  if (worldSize() > 1)
    throw new ArgumentError(
      `rendezvous ${tag}: this is one of ${worldSize()} processes (PJRT_LOCAL_PROCESS_COUNT), and they cannot communicate: ` +
        'run one process',
    );
  await sync({ wait: true });
  return [payload];
}
