// Several processes that compute together: reads their environment (torchrun's, JAX's or Cloud TPU's variables), joins them, and
// reports missing ones.
import { createHash } from 'node:crypto';
import { MOST_SECONDS } from '../base/check.js';
import { env, envInteger } from '../base/env.js';
import { ArgumentError, type RendezvousError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { type Client, type KeyValueCallbacks, KeyValueStore, type Member, type Options } from '../pjrt/index.js';
import type { DeviceType } from '../plugins/index.js';

/** This process's place, from RANK, WORLD_SIZE and the address of process 0; undefined if there is one process. */
export function memberFromEnv(): Member | undefined {
  const world = envInteger('WORLD_SIZE', 1, 1);
  if (world === 1) return undefined;
  const rank = envInteger('RANK', -1, -1);
  if (rank < 0)
    throw new ArgumentError(`WORLD_SIZE=${world}, but RANK is not set: set it to 0 in one process, 1 in the next, ...`);
  if (rank >= world)
    throw new ArgumentError(`RANK=${rank}, but WORLD_SIZE=${world}: ranks of ${world} processes are 0 to ${world - 1}`);
  const timeout = envInteger('TSXLA_RENDEZVOUS_TIMEOUT', 300, 1, MOST_SECONDS);
  const token = env('TSXLA_RENDEZVOUS_TOKEN');
  return { rank, world, ...coordinator(world), timeout, ...(token && { token }) };
}

function coordinator(world: number): { host: string; port: number } {
  const name = ['TSXLA_COORDINATOR', 'JAX_COORDINATOR_ADDRESS'].find(env);
  const [host, port] = [env('MASTER_ADDR'), env('MASTER_PORT')];
  if (!name && !(host && port))
    throw new ArgumentError(
      `WORLD_SIZE=${world}, but the address of process 0 is not set: set MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR=host:port, to the same in all processes`,
    );
  const text = name ? env(name)! : `${host!.includes(':') ? `[${host}]` : host}:${port}`;
  const [, plain, bracketed, number] = /^(?:([^:[\]]+)|\[(.+)\]):(\d+)$/.exec(text) ?? [];
  if (number && Number(number) < 65536 && Number(number) > 0)
    return { host: plain ?? bracketed!, port: Number(number) };
  throw new ArgumentError(`${name ?? 'MASTER_ADDR:MASTER_PORT'}=${text} is not an address: write host:port`);
}

let joined: Promise<{ store: KeyValueStore; callbacks: KeyValueCallbacks; member: Member }> | undefined; // a process joins once
/** Joins the other processes if the plugin needs help with that; returns options for the plugin. */
export async function joinOthers(device: DeviceType): Promise<{ options?: Options; callbacks?: KeyValueCallbacks }> {
  if (device === 'tpu') checkPod();
  const world = envInteger('WORLD_SIZE', 1, 1);
  if ((device === 'cpu' || device === 'mps') && world > 1 && !env('TSXLA_TRAIN_WORKER'))
    // TorchTrainer averages gradients of CPU workers, and reports it itself
    notice(
      `WORLD_SIZE=${world}: XLA on the ${device === 'cpu' ? 'CPU' : 'Apple GPU'} cannot compute with other processes: each process computes alone`,
    );
  const member = device === 'cuda' ? memberFromEnv() : undefined;
  if (!member) return {};
  joined ??= KeyValueStore.join(member).then(async (store) => ({ store, callbacks: await store.callbacks(), member }));
  joined.catch(() => (joined = undefined)); // the next one tries again
  const { rank: node_id, world: num_nodes } = member;
  return { options: { node_id, num_nodes, ...ownGpu() }, callbacks: (await joined).callbacks };
}

const PATIENCE = 30_000; // milliseconds
/**
 * Watches whether the other processes compile a shared program too. XLA waits for them silently, so processes that have not
 * reached it after a while are named.
 */
export async function watchOthers(name: string, text: string, patience = PATIENCE): Promise<void> {
  if (!joined) return; // TPUs: libtpu has its own store
  const { store, member } = await joined;
  const hash = createHash('sha256').update(text).digest('hex');
  const keyOf = (rank: number) => `tsxla program ${hash} of ${rank}`;
  await store.put(keyOf(member.rank), Buffer.of(1)).catch(() => {}); // fails if the key exists from an earlier compile
  const isLate = (rank: number) =>
    store.get(keyOf(rank), patience).then(
      () => false,
      (e: RendezvousError) => e.code === 'DEADLINE_EXCEEDED', // other errors: the run is over
    );
  const found = await Promise.all(Array.from({ length: member.world }, (_, rank) => isLate(rank)));
  const late = found.flatMap((isLate, rank) => (isLate ? [rank] : []));
  if (late.length)
    notice(
      `${name} is compiled or run by this process, but ${patience / 1000} s later not by process ${late.join(', ')}: processes that compute ` +
        'together must run the same programs in the same order, on batches of the same shapes and dtypes',
    );
}

/** With several processes on a machine, each uses the GPU of its LOCAL_RANK, unless only its own GPU is visible. */
export function ownGpu(): { visible_devices?: number[] } {
  const seen = env('CUDA_VISIBLE_DEVICES')?.split(',');
  const alone = envInteger('LOCAL_WORLD_SIZE', 0, 0) === 1 || seen?.length === 1;
  const isGiven = seen && env('TSXLA_TRAIN_WORKER'); // set by TorchTrainer
  const local = envInteger('LOCAL_RANK', -1, -1);
  return local < 0 || alone || isGiven ? {} : { visible_devices: [local] };
}

/** Checks the variables by which libtpu joins the processes of a pod (it may also use the machine's metadata). */
function checkPod(): void {
  const hosts = env('TPU_WORKER_HOSTNAMES')?.split(',');
  const id = envInteger('TPU_WORKER_ID', 0, 0);
  if (hosts && id >= hosts.length)
    throw new ArgumentError(
      `TPU_WORKER_ID=${id}, but TPU_WORKER_HOSTNAMES lists ${hosts.length} hosts (${hosts.join(', ')}): workers are 0 to ${hosts.length - 1}`,
    );
}

/** The number of processes a client's devices belong to. */
export const processesOf = ({ devices }: Client): number => new Set(devices.map((d) => d.processIndex)).size;

/** Whether some of these devices belong to another process. */
export const spansProcesses = ({ addressableDevices }: Client, ids: readonly number[]): boolean =>
  ids.some((id) => !addressableDevices.some((d) => d.id === id));

/** Prints which of several processes this is. */
export function sayWhich(client: Client): void {
  const [count, { platform, processIndex, devices, addressableDevices }] = [processesOf(client), client];
  const world = envInteger('WORLD_SIZE', 1, 1);
  if (count > 1)
    notice(
      `process ${processIndex} of ${count}, with ${addressableDevices.length} of ${devices.length} ${platform} devices`,
    );
  else if (platform === 'tpu' && world > 1)
    notice(
      `WORLD_SIZE=${world}, but libtpu has found one process: it joins others by TPU_WORKER_ID and TPU_WORKER_HOSTNAMES, not by RANK`,
    );
}
