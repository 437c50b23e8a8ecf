// Several processes find each other through the key-value store: real processes, real sockets, and the plugin's side of it called
// as C calls it, from another thread and from the main one.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import koffi from 'koffi';
import { type KeyValueCallbacks, KeyValueStore, type Member } from 'tsxla/pjrt';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Frame, frameBytes, KIND, readFrame } from '../../dist/pjrt/key-value-frames.js';
import { KeyValueMap, type Reply } from '../../dist/pjrt/key-value-map.js';
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
    expect(await two.tell('tryGet', 'none')).toBe('NOT_FOUND: none was never put');
    expect(await one.tell('get', 'none', 50)).toBe(
      'DEADLINE_EXCEEDED: process 1 of 3 waited 50 ms for none, which was never put',
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
    const joining = zero.tell('join', member(0, 3, 6));
    void one.tell('join', member(1, 3));
    await sleep(3000); // it has come
    one.child.kill('SIGKILL');
    expect(await joining).toBe(
      `DEADLINE_EXCEEDED: process 0 at ${HOST}:${port} waited 6 s for 3 processes. Missing: 1 (${name(one)}; it had joined, and ended), 2. ` +
        'Check that they started and can reach this address, or set TSXLA_RENDEZVOUS_TIMEOUT to more seconds',
    );
  });

  test('refuses a rank that another has, another number of processes, and a second process 0', async () => {
    const [zero, one, other] = [start(), start(), start()];
    await Promise.all([zero.tell('hello'), one.tell('hello')]);
    const all = [zero.tell('join', member(0, 3)), one.tell('join', member(1, 3))];
    await sleep(3000); // both have come
    expect(await other.tell('join', member(1, 3))).toBe(
      `INVALID_ARGUMENT: RANK=1 is set in two processes: ${name(one)}, which has joined at ${HOST}:${port}, and ${name(other)}: give each its own, 0 to 2`,
    );
    expect(await other.tell('join', member(2, 4))).toBe(
      `INVALID_ARGUMENT: process 2 (${name(other)}) has WORLD_SIZE=4, but process 0 (${name(zero)}) has WORLD_SIZE=3: set it to the same in all processes`,
    );
    expect(await other.tell('join', member(0, 3))).toBe(
      `UNAVAILABLE: process 0 cannot listen at ${HOST}:${port}: the port is in use, by another process with RANK=0 or another program ` +
        '(torchrun has its own store at MASTER_PORT): set TSXLA_COORDINATOR=host:port to a free port of this machine, in all processes',
    );
    expect(await Promise.all([other.tell('join', member(2, 3)), ...all])).toEqual([null, null, null]); // and nothing is broken
  });

  test('that is not there within the time is an error with its address; and so is another program in its place', async () => {
    await expect(KeyValueStore.join(member(1, 2, 1))).rejects.toThrow(
      `process 1 of 2 did not reach process 0 at ${HOST}:${port} within 1 s (connect ECONNREFUSED ${HOST}:${port}): start it, check that MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR, are its address`,
    );
    const web = net.createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(port, HOST);
    await expect(KeyValueStore.join(member(1, 2, 5))).rejects.toThrow(
      `process 1 of 2: the connection to process 0 at ${HOST}:${port} was lost: the data it sent is of another program`,
    );
    web.close();
  });
});

/** A connection without tsxla at its other end: sends bytes, and collects what is answered until it is closed. */
function connect(to = port) {
  const socket = net.connect(to, HOST);
  let answered = Buffer.alloc(0);
  socket.on('data', (chunk) => (answered = Buffer.concat([answered, chunk])));
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const frames = () => {
    const found: Frame[] = [];
    for (let rest: Uint8Array = answered; ; ) {
      const read = readFrame(rest);
      if (!('frame' in read)) return found;
      found.push(read.frame);
      rest = rest.subarray(read.size);
    }
  };
  return {
    socket,
    send: (bytes: Uint8Array) => void socket.write(bytes),
    /** The next `count` frames. */
    async next(count: number) {
      while (frames().length < count && !socket.closed) await sleep(5);
      return frames();
    },
    /** What it was told when it was hung up on. */
    async refused() {
      await closed;
      return frames().at(-1)?.text;
    },
  };
}
const frame = (
  kind: keyof typeof KIND,
  text: string,
  { id = 1, number = 0, value = new Uint8Array() as Uint8Array } = {},
) => frameBytes({ kind: KIND[kind], id, number, text, value });
const joinAs = (rank: number, world = 2, token?: string) => {
  const text = `tsxla ${world} raw`;
  const nonce = Buffer.alloc(16, 7);
  const words = JSON.stringify(['join', rank, text, nonce.toString('hex')]);
  const proof = token && createHmac('sha256', token).update(words).digest();
  return frame('join', text, { number: rank, value: proof ? Buffer.concat([proof, nonce]) : new Uint8Array() });
};

describe('strangers at the port of the store', () => {
  /** A store of two processes that waits for the second. */
  async function open(token?: string) {
    const zero = start();
    const joining = zero.tell('join', { ...member(0, 2), ...(token && { token }) });
    while (!(await reachable())) await sleep(20);
    return { zero, joining };
  }
  const reachable = () =>
    new Promise<boolean>((resolve) => {
      const probe = net.connect(port, HOST, () => resolve(true)).on('error', () => resolve(false));
      probe.once('connect', () => probe.destroy());
    });
  /** A frame with this length in its header. */
  const claims = (bytes: number) => {
    const header = frame('put', '');
    header.writeUInt32LE(bytes - 4, 0);
    return header;
  };

  test('a header above the limit ends the connection, in the first frame as in any other', async () => {
    const { zero, joining } = await open();
    for (const [bytes, most] of [
      [2 ** 30, 2 ** 12],
      [2 ** 12 + 1, 2 ** 12],
      [4, 2 ** 12],
    ] as const) {
      const stranger = connect();
      stranger.send(claims(bytes));
      expect(await stranger.refused()).toBe(
        `the data it sent is of another program, or damaged: a frame of ${bytes} bytes, where 17 to ${most} are allowed`,
      );
    }
    const one = connect();
    one.send(joinAs(1));
    expect(await joining).toBe(null);
    await one.next(1);
    one.send(Buffer.concat([frame('put', 'a', { value: Buffer.from('b') }), claims(2 ** 30)]));
    expect(await one.refused()).toBe(
      `the data it sent is of another program, or damaged: a frame of ${2 ** 30} bytes, where 17 to ${2 ** 28} are allowed`,
    );
    expect(await zero.tell('get', 'a', 1000)).toBe('b'); // what came before it counts, and the store continues
  });

  test.each([
    ['another protocol', Buffer.from('GET / HTTP/1.1\r\nHost: head\r\n\r\n'), /a frame of \d+ bytes/],
    ['an unknown kind', Buffer.concat([frame('join', '').fill(9, 4, 5)]), /a frame of unknown kind 9$/],
    [
      'a text that ends behind its frame',
      frame('join', 'x').fill(0xff, 13, 16),
      /a text of \d+ bytes in a frame of 18$/,
    ],
    ['a text that is not UTF-8', frame('join', 'x').fill(0xff, 17), /a text that is not UTF-8$/],
    ['a question before it has joined', frame('get', 'key'), /^it has not joined$/],
  ])('%s is hung up on with a sentence', async (_, bytes, why) => {
    const { joining } = await open();
    const stranger = connect();
    stranger.send(bytes);
    expect(await stranger.refused()).toMatch(why);
    connect().send(joinAs(1));
    expect(await joining).toBe(null);
  });

  test('ranks that there are not, a second rank for one connection and other words are refused', async () => {
    const { zero, joining } = await open();
    for (const rank of [77, 2, -1, -(2 ** 31)]) {
      const stranger = connect();
      stranger.send(joinAs(rank));
      expect(await stranger.refused()).toBe(
        `RANK=${rank} (raw) is out of range for 2 processes: give each its own, 0 to 1`,
      );
    }
    const stranger = connect();
    stranger.send(frame('join', 'hello\n', { number: 1 }));
    expect(await stranger.refused()).toBe(
      `process 0 at ${HOST}:${port} does not understand the request 'hello\n': install the same tsxla version in all processes`,
    );
    const one = connect();
    one.send(joinAs(1));
    expect(await joining).toBe(null);
    one.send(joinAs(0));
    expect(await one.refused()).toBe('it has joined as 1, but sent a frame of kind 1');
    const again = connect();
    again.send(joinAs(1));
    expect(await again.refused()).toMatch(/^RANK=1 is set in two processes: raw, which has joined at/);
    expect(await zero.tell('tryGet', 'none')).toBe('NOT_FOUND: none was never put');
  });

  test('silent connections do not block others', async () => {
    const { joining } = await open();
    const silent = Array.from({ length: 200 }, () => connect());
    await Promise.all(silent.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))));
    const one = connect();
    one.send(joinAs(1));
    expect(await joining).toBe(null);
    expect(await silent[0]!.refused()).toBe('64 others have connected since, and it has not joined');
    for (const { socket } of silent) socket.destroy();
  });

  test('a process with a token takes only those that have it, and says nothing else to others', async () => {
    const { zero, joining } = await open('the-token');
    for (const token of [undefined, 'another']) {
      const stranger = connect();
      stranger.send(joinAs(1, 3, token));
      expect(await stranger.refused()).toBe(
        `process 0 at ${HOST}:${port} has a token, but this process has none or another: give all processes the same TSXLA_RENDEZVOUS_TOKEN`,
      );
    }
    const replayed = connect(); // the proof of one rank is not that of another
    replayed.send(frame('join', 'tsxla 2 raw', { number: 1, value: joinAs(0, 2, 'the-token').subarray(-48) }));
    expect(await replayed.refused()).toContain('has none or another');
    const one = start();
    expect(await one.tell('join', member(1, 2))).toContain('PERMISSION_DENIED: process 0 at');
    expect(await one.tell('join', { ...member(1, 2), token: 'the-token' })).toBe(null);
    expect(await joining).toBe(null);
    await one.tell('put', 'a', 'b');
    expect(await zero.tell('get', 'a', 1000)).toBe('b');
  });

  test('a process with a token does not take another program for process 0', async () => {
    const listening = net.createServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket.write(frame('answer', '', { id: 0 })));
    });
    listening.listen(port, HOST);
    await expect(KeyValueStore.join({ ...member(1, 2), token: 'the-token' })).rejects.toThrow(
      `process 1 of 2: the program that listens at ${HOST}:${port} is not process 0, or has another token: give all processes the same TSXLA_RENDEZVOUS_TOKEN`,
    );
    listening.close();
  });
});

describe('what the store keeps', () => {
  const said: string[] = [];
  const hear = (who: string) => (reply: Reply) =>
    void said.push(`${who}: ${reply.message || Buffer.from(reply.value)}`);
  const bytes = (n: number) => Buffer.alloc(n, 'x');
  test('has a limit in bytes, in keys, and in what one process waits for', () => {
    const store = new KeyValueMap<string>({ bytes: 100, keys: 3, waiting: 2 });
    expect(store.put('a', bytes(60)).code).toBe(0);
    expect(store.put('b', bytes(40)).message).toBe(
      'b (40 bytes) does not fit into the store: it has 1 keys and 61 bytes, and its limits are 3 and 100',
    );
    expect(store.put('a', bytes(99)).code).toBe(0); // instead of what it had
    expect(store.put('a', bytes(1)).code).toBe(0);
    expect([store.put('b', bytes(1)).code, store.put('c', bytes(1)).code]).toEqual([0, 0]);
    expect(store.put('d', bytes(1)).message).toContain('it has 3 keys and 6 bytes, and its limits are 3 and 100');

    for (const key of ['x', 'y', 'z', 'a']) store.get(key, 'one', hear('one'));
    store.get('x', 'two', hear('two'));
    expect(said.splice(0)).toEqual(['one: a process waits for 2 keys, which is the limit', 'one: x']);
  });
  test('is told to who waits for it, and not to who has left', () => {
    const store = new KeyValueMap<string>({ bytes: 100, keys: 9, waiting: 2 });
    for (const who of ['one', 'two', 'two']) store.get('k', who, hear(who));
    store.forget('one');
    store.put('k', bytes(2));
    expect(said.splice(0)).toEqual(['two: xx', 'two: xx']);
    for (const key of ['l', 'm']) store.get(key, 'two', hear('two')); // those that were answered count no more
    store.put('l', bytes(1));
    expect(said.splice(0)).toEqual(['two: x']);
  });
});

describe('a frame', () => {
  const whole = frame('put', 'kéy', { id: 2 ** 32 - 1, number: -5, value: Buffer.of(1, 2, 3) });
  test('is read as it was written, with what follows it left alone', () => {
    expect(readFrame(Buffer.concat([whole, whole]))).toEqual({
      frame: { kind: KIND.put, id: 2 ** 32 - 1, number: -5, text: 'kéy', value: new Uint8Array([1, 2, 3]) },
      size: whole.length,
    });
    for (let length = 0; length < whole.length; length++)
      expect(readFrame(whole.subarray(0, length))).toEqual({ wanted: length < 17 ? 17 : whole.length });
  });
  test('with any bytes changed is a frame, a wish within the limit or a problem, and never an exception', () => {
    let state = 1;
    const random = (n: number) => (state = (state * 48271) % 2147483647) % n;
    const seen = new Set<string>();
    for (let i = 0; i < 5000; i++) {
      const bytes = Buffer.from(whole);
      for (let change = random(4); change >= 0; change--) bytes[random(bytes.length)] = random(256);
      const read = readFrame(bytes.subarray(0, random(4) ? undefined : random(bytes.length + 1)), 2 ** 20);
      seen.add(Object.keys(read)[0]!);
      if ('wanted' in read) expect(read.wanted).toBeLessThanOrEqual(2 ** 20);
      if ('frame' in read) expect(read.size).toBeLessThanOrEqual(bytes.length);
    }
    expect([...seen].sort()).toEqual(['frame', 'problem', 'wanted']);
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
    expect(said).toEqual(['4 process 0 of 2 waited 30 ms for never, which was never put', '5 never was never put']);
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
    [
      { WORLD_SIZE: '2', RANK: '0', ...MASTER, TSXLA_RENDEZVOUS_TOKEN: 'ours' },
      { rank: 0, world: 2, host: 'head', port: 29500, timeout: 300, token: 'ours' },
    ],
  ])('%j is understood', (variables, expected) => {
    given(variables);
    expect(memberFromEnv()).toEqual(expected);
  });

  test.each([
    [{ WORLD_SIZE: '4', RANK: '4', ...MASTER }, 'RANK=4, but WORLD_SIZE=4: ranks of 4 processes are 0 to 3'],
    [
      { WORLD_SIZE: '4', ...MASTER },
      'WORLD_SIZE=4, but RANK is not set: set it to 0 in one process, 1 in the next, ...',
    ],
    [{ WORLD_SIZE: 'four' }, 'WORLD_SIZE=four is not understood: give a whole number, 1 or more'],
    [
      { WORLD_SIZE: '2', RANK: '0', MASTER_ADDR: 'head' },
      'WORLD_SIZE=2, but the address of process 0 is not set: set MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR=host:port, to the same in all processes',
    ],
    [
      { WORLD_SIZE: '2', RANK: '0', TSXLA_COORDINATOR: 'head' },
      'TSXLA_COORDINATOR=head is not an address: write host:port',
    ],
  ])('%j is an error that says what to set', (variables, message) => {
    given(variables);
    expect(memberFromEnv).toThrow(message);
  });

  test('of a TPU pod is checked, and on the CPU each process computes alone', async () => {
    given({ TPU_WORKER_ID: '2', TPU_WORKER_HOSTNAMES: 'a,b' });
    await expect(joinOthers('tpu')).rejects.toThrow(
      'TPU_WORKER_ID=2, but TPU_WORKER_HOSTNAMES lists 2 hosts (a, b): workers are 0 to 1',
    );
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    given({ WORLD_SIZE: '2', RANK: '1', TSXLA_LOG: '' });
    expect(await joinOthers('cpu')).toEqual({});
    expect(said.mock.calls.map(([text]) => text)).toEqual([
      'tsxla: WORLD_SIZE=2: XLA on the CPU cannot compute with other processes: each process computes alone\n',
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
    expect(said.mock.calls.join()).toContain(
      'train is compiled or run by this process, but 0.1 s later not by process 1: ',
    );
    given({ LOCAL_WORLD_SIZE: '2', CUDA_VISIBLE_DEVICES: '2,3', TSXLA_TRAIN_WORKER: '1' }); // all that an engine gave it
    expect((await joinOthers('cuda')).options).toEqual({ node_id: 0, num_nodes: 2 });
  });
});
