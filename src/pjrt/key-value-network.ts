// The thread of a key-value store (key-value.ts) that has its network. In process 0 it also is the store.
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { STATUS_CODES, type StatusCode } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import type { Answer, NetworkData, Request } from './key-value.js';

const { member, lines } = workerData as NetworkData;
const address = `${member.host.includes(':') ? `[${member.host}]` : member.host}:${member.port}`;
const me = `process ${member.rank} of ${member.world}`;
const MORE_TIME = 'TSXLA_RENDEZVOUS_TIMEOUT gives them more seconds';

type Reply = Pick<Answer, 'code' | 'message' | 'value'>;
const NOTHING = new Uint8Array();
const ok = (value: Uint8Array = NOTHING): Reply => ({ code: 0, message: '', value });
const failed = (code: StatusCode, message: string): Reply => ({
  code: STATUS_CODES.indexOf(code),
  message,
  value: NOTHING,
});

// ---- frames: [length u32] kind u8, id u32, number i32, length of text u32, text, value

interface Frame {
  readonly kind: number;
  readonly id: number;
  /** The rank of who joins; the status of an answer. */
  readonly number: number;
  /** A key, or the message of an answer. */
  readonly text: string;
  readonly value: Uint8Array;
}
const KIND = { join: 1, put: 2, get: 3, tryGet: 4, answer: 5 } as const;
const [HEADER, LARGEST] = [17, 2 ** 28];

function send(socket: net.Socket, { kind, id, number, text, value }: Frame): void {
  const bytes = Buffer.from(text);
  const header = Buffer.alloc(HEADER);
  header.writeUInt32LE(HEADER - 4 + bytes.length + value.length, 0);
  header.writeUInt8(kind, 4);
  header.writeUInt32LE(id, 5);
  header.writeInt32LE(number, 9);
  header.writeUInt32LE(bytes.length, 13);
  if (!socket.destroyed) socket.write(Buffer.concat([header, bytes, value]));
}

/** Calls `take` with every frame. Whoever sends something else is hung up on. */
function receive(socket: net.Socket, take: (frame: Frame) => void): void {
  let chunks: Buffer[] = [];
  let [size, wanted] = [0, HEADER];
  socket.on('data', (chunk) => {
    chunks.push(chunk);
    size += chunk.length;
    while (size >= wanted) {
      const bytes = Buffer.concat(chunks);
      const end = 4 + bytes.readUInt32LE(0);
      const value = HEADER + bytes.readUInt32LE(13);
      if (end > LARGEST || value > end) return socket.destroy(new Error('what it sends is of another program'));
      const rest = bytes.subarray(size >= end ? end : 0);
      if (size >= end)
        take({
          kind: bytes.readUInt8(4),
          id: bytes.readUInt32LE(5),
          number: bytes.readInt32LE(9),
          text: bytes.toString('utf8', HEADER, value),
          value: new Uint8Array(bytes.subarray(value, end)), // its own memory: the rest is let go
        });
      [chunks, size, wanted] = [[rest], rest.length, rest.length < HEADER ? HEADER : 4 + rest.readUInt32LE(0)];
    }
    return undefined;
  });
}

// ---- the store, in process 0

interface Joined {
  readonly name: string;
  readonly answer: (reply: Reply) => void;
}

function serve(): Promise<void> {
  const values = new Map<string, Uint8Array>();
  const waiting = new Map<string, ((value: Uint8Array) => void)[]>();
  const joined = new Map<number, Joined>();
  const left = new Map<number, string>();
  let complete = false;

  const deadline = setTimeout(() => {
    const missing = Array.from({ length: member.world }, (_, rank) => rank).filter((rank) => !joined.has(rank));
    const names = missing.map((rank) => (left.has(rank) ? `${rank} (it had: ${left.get(rank)}; and ended)` : rank));
    const message =
      `process 0 at ${address} waited ${member.timeout} s for ${member.world} processes: not there: ` +
      `${names.join(', ')}: see whether they started and can reach this address; ${MORE_TIME}`;
    for (const { answer } of joined.values()) answer(failed('DEADLINE_EXCEEDED', message));
  }, member.timeout * 1000);

  /** Why a process cannot join. */
  const refusal = (rank: number, world: number, name: string): string | undefined => {
    if (world !== member.world)
      return `process ${rank} (${name}) was told that there are ${world} processes, and process 0 (${member.name}) that there are ${member.world}: give all the same WORLD_SIZE`;
    const other = joined.get(rank);
    return (
      other &&
      `RANK=${rank} is given to two processes: ${other.name}, which has joined at ${address}, and ${name}: give each its own, 0 to ${world - 1}`
    );
  };

  const server = net.createServer((socket) => {
    let rank = -1;
    socket.setNoDelay(true).on('error', () => {}); // it is closed then
    socket.on('close', () => {
      if (rank < 0 || complete) return;
      left.set(rank, joined.get(rank)!.name);
      joined.delete(rank);
    });
    receive(socket, ({ kind, id, number, text, value }) => {
      const answer = ({ code, message, value }: Reply) =>
        send(socket, { kind: KIND.answer, id, number: code, text: message, value });
      if (kind === KIND.join) {
        const [, world, name = ''] = /^tsxla (\d+) (.*)$/s.exec(text) ?? [];
        const problem = refusal(number, Number(world), name);
        if (problem) return answer(failed('INVALID_ARGUMENT', problem));
        rank = number;
        joined.set(rank, { name, answer });
        complete = joined.size === member.world;
        if (!complete) return;
        clearTimeout(deadline);
        for (const other of joined.values()) other.answer(ok());
      } else if (rank < 0) socket.destroy();
      else if (kind === KIND.put) {
        values.set(text, value);
        for (const tell of waiting.get(text) ?? []) tell(value);
        waiting.delete(text);
        answer(ok());
      } else {
        const known = values.get(text);
        if (known) answer(ok(known));
        else if (kind === KIND.tryGet) answer(failed('NOT_FOUND', `nobody has put ${text}`));
        else waiting.set(text, [...(waiting.get(text) ?? []), (value) => answer(ok(value))]);
      }
    });
  });
  // Not at the address itself, which may be of something before this machine, or a name that means itself only here.
  const host = /^(localhost$|127\.|::1$)/.test(member.host) ? member.host : undefined;
  return new Promise((resolve, reject) => {
    server.listen(member.port, host, resolve).on('error', (e: NodeJS.ErrnoException) => {
      clearTimeout(deadline);
      const inUse =
        'the port is in use, by another process with RANK=0 or another program (torchrun has its own store at MASTER_PORT)';
      reject(
        new Error(
          `process 0 cannot listen at ${address}: ${e.code === 'EADDRINUSE' ? inUse : messageOf(e)}: ` +
            'set TSXLA_COORDINATOR=host:port, the same in all processes, to a free port of this machine',
        ),
      );
    });
  });
}

// ---- the way to it, in every process

class Connection {
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #next = 0;
  #lost: Reply | undefined;

  constructor(readonly socket: net.Socket) {
    socket.setNoDelay(true).setKeepAlive(true, 10_000);
    let why = 'it has ended';
    socket.on('error', (e) => {
      why = messageOf(e);
    });
    socket.on('close', () => {
      this.#lost = failed('UNAVAILABLE', `${me}: the connection to process 0 at ${address} was lost: ${why}`);
      for (const settle of this.#waiting.values()) settle(this.#lost);
      this.#waiting.clear();
    });
    receive(socket, ({ id, number, text, value }) => {
      this.#waiting.get(id)?.({ code: number, message: text, value });
      this.#waiting.delete(id);
    });
  }

  /** Sends a frame; the answer, or `late` after so many milliseconds. */
  async ask(frame: Omit<Frame, 'id'>, ms?: number, late?: string): Promise<Reply> {
    if (this.#lost) return this.#lost;
    const id = this.#next++;
    let timer: NodeJS.Timeout | undefined;
    const reply = await new Promise<Reply>((resolve) => {
      this.#waiting.set(id, resolve);
      if (ms !== undefined) timer = setTimeout(() => resolve(failed('DEADLINE_EXCEEDED', late!)), ms);
      send(this.socket, { ...frame, id });
    });
    clearTimeout(timer);
    this.#waiting.delete(id);
    return reply;
  }
}

/** Tries until process 0 is there. */
async function connect(): Promise<Connection> {
  const end = performance.now() + member.timeout * 1000;
  for (;;) {
    const socket = net.connect(member.port, member.host);
    const problem = await new Promise<Error | undefined>((resolve) => {
      socket.once('connect', () => resolve(undefined)).once('error', resolve);
      socket.setTimeout(Math.max(end - performance.now(), 1), () => resolve(new Error('no answer')));
    });
    if (!problem) return new Connection(socket.setTimeout(0));
    socket.destroy();
    if (performance.now() + 200 > end)
      throw new Error(
        `${me} did not reach process 0 at ${address} within ${member.timeout} s (${messageOf(problem)}): start it, and see that ` +
          `MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR, name it; ${MORE_TIME}`,
      );
    await sleep(200);
  }
}

let connection: Connection;
async function join(): Promise<Reply> {
  try {
    if (member.rank === 0) await serve();
    connection = await connect();
  } catch (e) {
    return failed('UNAVAILABLE', messageOf(e));
  }
  const text = `tsxla ${member.world} ${member.name}`;
  const late = `${me}: process 0 at ${address} was reached, and did not say within ${member.timeout} s that all have joined`;
  const grace = 5_000; // process 0 knows better who is missing
  return connection.ask(
    { kind: KIND.join, number: member.rank, text, value: NOTHING },
    member.timeout * 1000 + grace,
    late,
  );
}

async function reply(request: Request): Promise<Reply> {
  if (request.op === 'join') return join();
  const value = request.op === 'put' ? request.value : NOTHING;
  if (value.length + HEADER + 4 * request.key.length > LARGEST)
    return failed('INVALID_ARGUMENT', `${request.key} has ${value.length} bytes: the store takes up to ${LARGEST}`);
  const frame = { kind: KIND[request.op], number: 0, text: request.key, value };
  if (request.op !== 'get') return connection.ask(frame);
  const { key, timeoutMs } = request;
  return connection.ask(frame, timeoutMs, `${me} waited ${timeoutMs} ms for ${key}, and nobody put it`);
}

for (const { port, answers } of lines)
  port.on('message', async (request: Request) => {
    port.postMessage({ id: request.id, ...(await reply(request)) } satisfies Answer);
    Atomics.add(answers, 0, 1);
    Atomics.notify(answers, 0);
  });
