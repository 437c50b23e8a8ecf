// Several processes find each other through the key-value store: real processes, real sockets, and the plugin's side of it called
// as C calls it, from another thread and from the main one.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import koffi from 'koffi';
import { type KeyValueCallbacks, KeyValueStore, type Member } from 'tsxla/pjrt';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { readString, Struct } from '../../dist/pjrt/struct.js';
import { joinOthers, memberFromEnv, watchOthers } from '../../dist/runtime/processes.js';
import { startCpu } from '../support.js';

const HOST = '127.0.0.1';
let port: number;
const children: ChildProcess[] = [];
beforeEach(async () => {
  const server = net.createServer().listen(0, HOST);
  await new Promise((resolve) => server.once('listening', resolve));
  port = (server.address() as net.AddressInfo).port;
  await new Promise((resolve) => server.close(resolve));
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

const member = (rank: number, world: number, timeout = 20): Member => ({ rank, world, host: HOST, port, timeout });

/** A process with a store; what it is told is done at once, in no order. */
function start() {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'store-process.mjs')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  const waiting = new Map<number, (result: string | null) => void>();
  createInterface({ input: child.stdout! }).on('line', (line) => {
    const { id, value = null, error } = JSON.parse(line);
    waiting.get(id)!(error ?? value);
  });
  let next = 0;
  const tell = (name: string, ...args: unknown[]) =>
    new Promise<string | null>((resolve) => {
      waiting.set(next, resolve);
      child.stdin!.write(`${JSON.stringify([next++, name, ...args])}\n`);
    });
  return { tell, pid: child.pid, child };
}
type Process = ReturnType<typeof start>;
const name = ({ pid }: Process) => `${os.hostname()}, pid ${pid}`;

describe('the store', () => {
  test('has for all processes what one of them puts, and a get waits for it', async () => {
    const [zero, one, two] = [start(), start(), start()];
    const late = one.tell('join', member(1, 3)); // before there is anything to join
    const alsoLate = two.tell('join', member(2, 3));
    expect(await Promise.all([zero.tell('join', member(0, 3)), late, alsoLate])).toEqual([null, null, null]);

    const waiting = [zero.tell('get', 'a/b', 10_000), two.tell('get', 'a/b', 10_000)];
    expect(await one.tell('put', 'a/b', 'hello')).toBe(null);
    expect(await Promise.all(waiting)).toEqual(['hello', 'hello']);
    expect(await two.tell('tryGet', 'a/b')).toBe('hello');
    expect(await two.tell('tryGet', 'none')).toBe('NOT_FOUND: nobody has put none');
    expect(await one.tell('get', 'none', 50)).toBe(
      'DEADLINE_EXCEEDED: process 1 of 3 waited 50 ms for none, and nobody put it',
    );
    await two.tell('put', 'empty', '');
    expect(await zero.tell('get', 'empty', 100)).toBe('');
    await zero.tell('put', 'large', '0123456789abcdef', 2 ** 18); // 4 MiB
    expect(await two.tell('get', 'large', 5_000)).toBe('0123456789abcdef'.repeat(2 ** 18));

    two.child.stdin!.end(); // it has nothing to do any more, and ends, store and all
    expect(await new Promise((resolve) => two.child.once('exit', resolve))).toBe(0);
    const unanswered = one.tell('get', 'never', 60_000);
    zero.child.kill('SIGKILL');
    expect(await unanswered).toMatch(
      new RegExp(`^UNAVAILABLE: process 1 of 3: the connection to process 0 at ${HOST}:${port} was lost: `),
    );
  });

  test('says which process is missing, and which had come and gone', async () => {
    const [zero, one] = [start(), start()];
    await Promise.all([zero.tell('hello'), one.tell('hello')]);
    const joining = zero.tell('join', member(0, 3, 2));
    void one.tell('join', member(1, 3));
    await sleep(1000);
    one.child.kill('SIGKILL');
    expect(await joining).toBe(
      `DEADLINE_EXCEEDED: process 0 at ${HOST}:${port} waited 2 s for 3 processes: not there: 1 (it had: ${name(one)}; and ended), 2: ` +
        'see whether they started and can reach this address; TSXLA_RENDEZVOUS_TIMEOUT gives them more seconds',
    );
  });

  test('refuses a rank that another has, another number of processes, and a second process 0', async () => {
    const [zero, one, other] = [start(), start(), start()];
    await Promise.all([zero.tell('hello'), one.tell('hello')]);
    const all = [zero.tell('join', member(0, 3)), one.tell('join', member(1, 3))];
    await sleep(1000);
    expect(await other.tell('join', member(1, 3))).toBe(
      `INVALID_ARGUMENT: RANK=1 is given to two processes: ${name(one)}, which has joined at ${HOST}:${port}, and ${name(other)}: give each its own, 0 to 2`,
    );
    expect(await other.tell('join', member(2, 4))).toBe(
      `INVALID_ARGUMENT: process 2 (${name(other)}) was told that there are 4 processes, and process 0 (${name(zero)}) that there are 3: give all the same WORLD_SIZE`,
    );
    expect(await other.tell('join', member(0, 3))).toBe(
      `UNAVAILABLE: process 0 cannot listen at ${HOST}:${port}: the port is in use, by another process with RANK=0 or another program ` +
        '(torchrun has its own store at MASTER_PORT): set TSXLA_COORDINATOR=host:port, the same in all processes, to a free port of this machine',
    );
    expect(await Promise.all([other.tell('join', member(2, 3)), ...all])).toEqual([null, null, null]); // and nothing is broken
  });

  test('that is not there within the time is an error with its address; and so is another program in its place', async () => {
    await expect(KeyValueStore.join(member(1, 2, 1))).rejects.toThrow(
      `process 1 of 2 did not reach process 0 at ${HOST}:${port} within 1 s (connect ECONNREFUSED ${HOST}:${port}): start it, and see that MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR, name it`,
    );
    const web = net.createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(port, HOST);
    await expect(KeyValueStore.join(member(1, 2, 5))).rejects.toThrow(
      `process 1 of 2: the connection to process 0 at ${HOST}:${port} was lost: what it sends is of another program`,
    );
    web.close();
  });
});

describe('the callbacks of a plugin', () => {
  const CALLBACK = koffi.proto('void*', ['void*']);
  const CALLBACK_ERROR = koffi.proto('void*', ['int', 'void*', 'size_t']);
  const bytes = (text: string) => Buffer.from(text);
  /** The plugin's way of making errors: they are said, and have the address 42. */
  function errors() {
    const said: string[] = [];
    const make = koffi.register((code: number, message: bigint, size: number) => {
      said.push(`${code} ${readString(message, Number(size))}`);
      return 42n;
    }, koffi.pointer(CALLBACK_ERROR));
    const callback_error = Buffer.alloc(8);
    callback_error.writeBigUInt64LE(make);
    return { said, callback_error };
  }
  const call = (callback: bigint) => koffi.decode(callback, CALLBACK);
  const onAnotherThread = (callback: bigint, args: { bytes: Buffer }) =>
    new Promise<bigint | null>((resolve, reject) =>
      call(callback).async(args.bytes, (e: Error | null, result: bigint) => (e ? reject(e) : resolve(result))),
    );
  const putting = (key: string, value: Buffer) =>
    new Struct('PJRT_KeyValuePutCallback_Args', {
      key: bytes(key),
      key_size: key.length,
      value,
      value_size: value.length,
    });
  const getting = (key: string, timeout_in_ms: number, callback_error: Buffer) =>
    new Struct('PJRT_KeyValueGetCallback_Args', {
      key: bytes(key),
      key_size: key.length,
      timeout_in_ms,
      callback_error,
    });
  /** As a plugin takes a value: it copies it, and has it freed. */
  function take(args: Struct<'PJRT_KeyValueGetCallback_Args'>): string {
    const value = readString(args.get('value'), args.get('value_size'));
    koffi.call(args.get('value_deleter_callback'), koffi.proto('void', ['void*']), args.get('value'));
    return value;
  }

  test('put, wait and fail on any thread, and a get that waits holds up no put', async () => {
    using _ = await startCpu(); // as always, XLA is there
    const other = start();
    const joining = other.tell('join', member(1, 2));
    const store = await KeyValueStore.join(member(0, 2));
    await joining;
    const kv: KeyValueCallbacks = await store.callbacks();
    const { said, callback_error } = errors();

    const waiting = getting('ours', 10_000, callback_error);
    const done = onAnotherThread(kv.kv_get_callback, waiting);
    expect(await onAnotherThread(kv.kv_put_callback, putting('ours', bytes('x'.repeat(100_000))))).toBe(null);
    expect(await done).toBe(null);
    expect(take(waiting)).toBe('x'.repeat(100_000));

    // The main thread waits in the plugin, and the plugin for another process.
    const theirs = getting('theirs', 10_000, callback_error);
    void other.tell('follow', 'theirs', 'go', 'there');
    await other.tell('hello');
    expect(call(kv.kv_put_callback)(putting('go', bytes('!')).bytes)).toBe(null);
    expect(call(kv.kv_get_callback)(theirs.bytes)).toBe(null);
    expect(take(theirs)).toBe('there');

    const never = getting('never', 30, callback_error);
    expect(await onAnotherThread(kv.kv_get_callback, never)).toBe(42n);
    const none = new Struct('PJRT_KeyValueTryGetCallback_Args', { key: bytes('never'), key_size: 5, callback_error });
    expect(await onAnotherThread(kv.kv_try_get_callback, none)).toBe(42n);
    expect(said).toEqual(['4 process 0 of 2 waited 30 ms for never, and nobody put it', '5 nobody has put never']);
    store.close();
  });
});

describe('the environment', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });
  const given = (variables: Record<string, string>) => {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  };
  const MASTER = { MASTER_ADDR: 'head', MASTER_PORT: '29500' };

  test.each([
    [{}, undefined],
    [{ WORLD_SIZE: '1', RANK: '0' }, undefined],
    [
      { WORLD_SIZE: '4', RANK: '3', ...MASTER },
      { rank: 3, world: 4, host: 'head', port: 29500, timeout: 300 },
    ],
    [
      { WORLD_SIZE: '2', RANK: '0', ...MASTER, TSXLA_COORDINATOR: '[::1]:77', TSXLA_RENDEZVOUS_TIMEOUT: '9' },
      { rank: 0, world: 2, host: '::1', port: 77, timeout: 9 },
    ],
  ])('%j is understood', (variables, expected) => {
    given(variables);
    expect(memberFromEnv()).toEqual(expected);
  });

  test.each([
    [{ WORLD_SIZE: '4', RANK: '4', ...MASTER }, 'RANK=4 and WORLD_SIZE=4: ranks of 4 processes are 0 to 3'],
    [{ WORLD_SIZE: '4', ...MASTER }, 'WORLD_SIZE=4 and no RANK: set it to 0 in one process, 1 in the next, ...'],
    [{ WORLD_SIZE: 'four' }, 'WORLD_SIZE=four is not understood: give a whole number, 1 or more'],
    [
      { WORLD_SIZE: '2', RANK: '0', MASTER_ADDR: 'head' },
      'WORLD_SIZE=2, and nothing says where process 0 is: set MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR=host:port, the same in all',
    ],
    [
      { WORLD_SIZE: '2', RANK: '0', TSXLA_COORDINATOR: 'head' },
      'TSXLA_COORDINATOR=head is no address: write host:port',
    ],
  ])('%j is an error that says what to set', (variables, message) => {
    given(variables);
    expect(memberFromEnv).toThrow(message);
  });

  test('of a TPU pod is checked, and on the CPU each process computes alone', async () => {
    given({ TPU_WORKER_ID: '2', TPU_WORKER_HOSTNAMES: 'a,b' });
    await expect(joinOthers('tpu')).rejects.toThrow(
      'TPU_WORKER_ID=2, and TPU_WORKER_HOSTNAMES names 2 (a, b): workers are 0 to 1',
    );
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    given({ WORLD_SIZE: '2', RANK: '1', TSXLA_LOG: '' });
    expect(await joinOthers('cpu')).toEqual({});
    expect(said.mock.calls.map(([text]) => text)).toEqual([
      "tsxla: WORLD_SIZE=2: XLA's CPU has no way to compute with other processes: each computes alone\n",
    ]);
  });

  test('of several processes with GPUs gives each its own, by LOCAL_RANK', async () => {
    const other = start();
    given({ WORLD_SIZE: '2', RANK: '0', LOCAL_RANK: '1', TSXLA_COORDINATOR: `${HOST}:${port}` });
    const joining = other.tell('join', member(1, 2));
    const { options, callbacks } = await joinOthers('cuda');
    expect(await joining).toBe(null);
    expect(options).toEqual({ node_id: 0, num_nodes: 2, visible_devices: [1] });
    expect(callbacks!.kv_get_callback).toBeGreaterThan(0n);
    given({ LOCAL_WORLD_SIZE: '1' });
    expect((await joinOthers('cuda')).options).toEqual({ node_id: 0, num_nodes: 2 }); // and it does not join again
    // What others have not compiled is told, and what they have is not.
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    given({ TSXLA_LOG: '' });
    const hash = createHash('sha256').update('a text').digest('hex');
    await other.tell('put', `tsxla program ${hash} of 1`, '1');
    await watchOthers('train', 'a text', 5000);
    expect(said).not.toHaveBeenCalled();
    await watchOthers('train', 'another text', 100);
    expect(said.mock.calls.join()).toContain('train is being compiled or run here, and 0.1 s later not in process 1: ');
    given({ LOCAL_WORLD_SIZE: '2', CUDA_VISIBLE_DEVICES: '2,3', TSXLA_TRAIN_WORKER: '1' }); // all that an engine gave it
    expect((await joinOthers('cuda')).options).toEqual({ node_id: 0, num_nodes: 2 });
  });
});
