// The network thread of a key-value store (key-value.ts). In process 0 it is also the store. Any process that reaches the port
// may connect, so the resources a connection can use are limited, before it has joined and after.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { messageOf } from '../base/thrown.js';
import type { Answer, NetworkData, Request } from './key-value.js';
import { type Frame, frameBytes, HEADER, KIND, LARGEST, readFrame } from './key-value-frames.js';
import { failed, KeyValueMap, NOTHING, ok, type Reply } from './key-value-map.js';

const { member, lines } = workerData as NetworkData;
const address = `${member.host.includes(':') ? `[${member.host}]` : member.host}:${member.port}`;
const me = `process ${member.rank} of ${member.world}`;
const MORE_TIME = 'or set TSXLA_RENDEZVOUS_TIMEOUT to more seconds';

// ---- frames on a socket

function send(socket: net.Socket, frame: Frame): void {
  if (!socket.destroyed) socket.write(frameBytes(frame));
}
/** Sends the reason and closes the connection. */
function refuse(socket: net.Socket, why: string): void {
  send(socket, { kind: KIND.refuse, id: 0, number: 0, text: why, value: NOTHING });
  socket.destroySoon();
}

interface Reading {
  readonly take: (frame: Frame) => void;
  /** Called when the other side sends an invalid frame, or one above the current limit. */
  readonly hangUp: (why: string) => void;
  /** The largest size of the next frame in bytes. */
  readonly limit: () => number;
}
/** Receives frames. Keeps at most one frame within the limit in memory, plus the data that came with its last bytes. */
function receive(socket: net.Socket, { take, hangUp, limit }: Reading): void {
  let chunks: Buffer[] = [];
  let [size, wanted] = [0, HEADER];
  socket.on('data', (chunk) => {
    if (!socket.writable) return; // closed already
    chunks.push(chunk);
    size += chunk.length;
    if (size < wanted) return;
    let bytes = Buffer.concat(chunks);
    while (socket.writable) {
      const read = readFrame(bytes, limit());
      if ('problem' in read) {
        hangUp(read.problem);
        return;
      }
      if ('wanted' in read) {
        [chunks, size, wanted] = [[bytes], bytes.length, read.wanted];
        return;
      }
      bytes = bytes.subarray(read.size);
      take(read.frame);
    }
  });
}

// ---- the store, in process 0

/** The most bytes of answers that a process may leave unread. */
const MOST_UNREAD = 2 * LARGEST;
/** Limits for connections that have not joined: their number, the time to join in ms, and the bytes of a frame. */
const [MOST_UNJOINED, TIME_TO_JOIN, JOIN_LIMIT] = [64, 30_000, 2 ** 12];

interface Joined {
  readonly name: string;
  readonly nonce: Uint8Array;
  readonly answer: (reply: Reply) => void;
}

/**
 * Proves that a process (a joining one, or process 0) has the token without sending it, with a random nonce for each
 * connection.
 */
const proofOf = (token: string, ...words: readonly (string | number)[]): Buffer =>
  createHmac('sha256', token).update(JSON.stringify(words)).digest();
const [PROOF, NONCE] = [32, 16];
/** The value of a join: the proof and the nonce. */
function joinValue(rank: number, text: string, nonce: Buffer): Uint8Array {
  const { token } = member;
  return token ? Buffer.concat([proofOf(token, 'join', rank, text, nonce.toString('hex')), nonce]) : NOTHING;
}
/** The value of the answer to a join. */
const joinedValue = (nonce: Uint8Array): Uint8Array =>
  member.token ? proofOf(member.token, 'joined', Buffer.from(nonce).toString('hex')) : NOTHING;
const isSame = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && timingSafeEqual(a, b);

function serve(): Promise<void> {
  const store = new KeyValueMap<net.Socket>();
  const joined = new Map<number, Joined>();
  const left = new Map<number, string>();
  const unjoined = new Set<net.Socket>();
  let complete = false;

  const deadline = setTimeout(() => {
    const missing = Array.from({ length: member.world }, (_, rank) => rank).filter((rank) => !joined.has(rank));
    const names = missing.map((rank) =>
      left.has(rank) ? `${rank} (${left.get(rank)}; it had joined, and ended)` : rank,
    );
    const message =
      `process 0 at ${address} waited ${member.timeout} s for ${member.world} processes. Missing: ` +
      `${names.join(', ')}. Check that they started and can reach this address, ${MORE_TIME}`;
    for (const { answer } of joined.values()) answer(failed('DEADLINE_EXCEEDED', message));
  }, member.timeout * 1000);

  /** Why a process cannot join. A process without the token gets no other information. */
  const refusal = ({ number: rank, text, value }: Frame): Reply | undefined => {
    const nonce = Buffer.from(value.subarray(PROOF));
    if ((member.token && nonce.length !== NONCE) || !isSame(value, joinValue(rank, text, nonce)))
      return failed(
        'PERMISSION_DENIED',
        `process 0 at ${address} ${member.token ? 'has a token, but this process has none or another' : 'has no token, but this process has one'}: give all processes the same TSXLA_RENDEZVOUS_TOKEN`,
      );
    const [, world, name] = /^tsxla (\d+) (.*)$/s.exec(text) ?? [];
    if (name === undefined)
      return failed(
        'INVALID_ARGUMENT',
        `process 0 at ${address} does not understand the request '${text.slice(0, 80)}': install the same tsxla version in all processes`,
      );
    if (Number(world) !== member.world)
      return failed(
        'INVALID_ARGUMENT',
        `process ${rank} (${name}) has WORLD_SIZE=${world}, but process 0 (${member.name}) has WORLD_SIZE=${member.world}: set it to the same in all processes`,
      );
    if (rank < 0 || rank >= member.world)
      return failed(
        'INVALID_ARGUMENT',
        `RANK=${rank} (${name}) is out of range for ${member.world} processes: give each its own, 0 to ${member.world - 1}`,
      );
    const other = joined.get(rank);
    return (
      other &&
      failed(
        'INVALID_ARGUMENT',
        `RANK=${rank} is set in two processes: ${other.name}, which has joined at ${address}, and ${name}: give each its own, 0 to ${member.world - 1}`,
      )
    );
  };

  const server = net.createServer((socket) => {
    let rank = -1;
    const late = setTimeout(() => refuse(socket, `it did not join within ${TIME_TO_JOIN / 1000} s`), TIME_TO_JOIN);
    unjoined.add(socket);
    if (unjoined.size > MOST_UNJOINED) {
      const [oldest] = unjoined; // a process of the group joins immediately
      unjoined.delete(oldest!);
      refuse(oldest!, `${MOST_UNJOINED} others have connected since, and it has not joined`);
    }
    socket.setNoDelay(true).on('error', () => {}); // closed next
    socket.on('close', () => {
      clearTimeout(late);
      unjoined.delete(socket);
      store.forget(socket);
      if (rank < 0 || complete) return;
      left.set(rank, joined.get(rank)!.name);
      joined.delete(rank);
    });
    const join = (frame: Frame, answer: (reply: Reply) => void): void => {
      const problem = refusal(frame);
      if (problem) {
        answer(problem);
        socket.destroySoon();
        return;
      }
      rank = frame.number;
      clearTimeout(late);
      unjoined.delete(socket);
      joined.set(rank, { name: frame.text.replace(/^tsxla \d+ /, ''), nonce: frame.value.subarray(PROOF), answer });
      complete = joined.size === member.world;
      if (!complete) return;
      clearTimeout(deadline);
      for (const other of joined.values()) other.answer(ok(joinedValue(other.nonce)));
    };
    const take = (frame: Frame): void => {
      const { kind, id, text, value } = frame;
      const answer = ({ code, message, value }: Reply) => {
        send(socket, { kind: KIND.answer, id, number: code, text: message, value });
        if (socket.writableLength > MOST_UNREAD) socket.destroy(); // it sends requests, but does not read answers
      };
      if (kind === KIND.join && rank < 0) join(frame, answer);
      else if (rank < 0) refuse(socket, 'it has not joined');
      else if (kind === KIND.put) answer(store.put(text, value));
      else if (kind === KIND.tryGet) answer(store.tryGet(text));
      else if (kind === KIND.get) store.get(text, socket, answer);
      else refuse(socket, `it has joined as ${rank}, but sent a frame of kind ${kind}`);
    };
    const hangUp = (why: string) => refuse(socket, why);
    receive(socket, { take, hangUp, limit: () => (rank < 0 ? JOIN_LIMIT : LARGEST) });
  });
  // Not bound to the given address, which may be a proxy's or a name that only resolves to this machine from elsewhere.
  const host = /^(localhost$|127\.|::1$)/.test(member.host) ? member.host : undefined;
  return new Promise((resolve, reject) => {
    server.listen(member.port, host, resolve).on('error', (e: NodeJS.ErrnoException) => {
      clearTimeout(deadline);
      const inUse =
        'the port is in use, by another process with RANK=0 or another program (torchrun has its own store at MASTER_PORT)';
      reject(
        new Error(
          `process 0 cannot listen at ${address}: ${e.code === 'EADDRINUSE' ? inUse : messageOf(e)}: ` +
            'set TSXLA_COORDINATOR=host:port to a free port of this machine, in all processes',
        ),
      );
    });
  });
}

// ---- the connection to the store, in every process

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
    const take = ({ kind, id, number, text, value }: Frame): void => {
      if (kind === KIND.refuse) {
        why = text;
        return;
      }
      this.#waiting.get(id)?.({ code: number, message: text, value });
      this.#waiting.delete(id);
    };
    receive(socket, { take, hangUp: (why) => socket.destroy(new Error(why)), limit: () => LARGEST });
  }

  /** Sends a frame; the answer, or `late` after a timeout in milliseconds. */
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

/** Tries until process 0 answers. */
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
        `${me} did not reach process 0 at ${address} within ${member.timeout} s (${messageOf(problem)}): start it, check that ` +
          `MASTER_ADDR and MASTER_PORT, or TSXLA_COORDINATOR, are its address, ${MORE_TIME}`,
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
  const late = `${me}: process 0 at ${address} was reached, but did not report within ${member.timeout} s that all have joined`;
  const grace = 5_000; // process 0 knows which ones are missing: let it answer first
  const nonce = randomBytes(NONCE);
  const reply = await connection.ask(
    { kind: KIND.join, number: member.rank, text, value: joinValue(member.rank, text, nonce) },
    member.timeout * 1000 + grace,
    late,
  );
  if (reply.code || isSame(reply.value, joinedValue(nonce))) return reply;
  connection.socket.destroy();
  return failed(
    'PERMISSION_DENIED',
    `${me}: the program that listens at ${address} is not process 0, or has another token: give all processes the same TSXLA_RENDEZVOUS_TOKEN`,
  );
}

async function reply(request: Request): Promise<Reply> {
  if (request.op === 'join') return join();
  const value = request.op === 'put' ? request.value : NOTHING;
  if (value.length + HEADER + 4 * request.key.length > LARGEST)
    return failed('INVALID_ARGUMENT', `${request.key} has ${value.length} bytes: the store takes at most ${LARGEST}`);
  const frame = { kind: KIND[request.op], number: 0, text: request.key, value };
  if (request.op !== 'get') return connection.ask(frame);
  const { key, timeoutMs } = request;
  return connection.ask(frame, timeoutMs, `${me} waited ${timeoutMs} ms for ${key}, which was never put`);
}

for (const { port, answers } of lines)
  port.on('message', async (request: Request) => {
    port.postMessage({ id: request.id, ...(await reply(request)) } satisfies Answer);
    Atomics.add(answers, 0, 1);
    Atomics.notify(answers, 0);
  });
