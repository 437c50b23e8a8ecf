// A thread that answers one kind of a plugin's calls to the key-value store (key-value.ts): it sleeps until the network thread
// has the answer.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import koffi from 'koffi';
import { STATUS_CODES } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import type { Answer, CallbackData, Request } from './key-value.js';
import { STRUCTS } from './layout.js';
import { addressOf, readBytes, readPointers, Struct } from './struct.js';

const { op, port, answers } = workerData as CallbackData;
const free = koffi.load(null).symbol('free'); // of the C library: frees memory allocated by koffi
const CALLBACK = koffi.proto('void*', ['void*']); // PJRT_Error* f(Args*)
const CALLBACK_ERROR = koffi.proto('void*', ['int', 'void*', 'size_t']); // PJRT_Error* f(code, message, its size)

/** The struct at an address, not a copy: the caller sees changes. */
const structAt = <S extends keyof typeof STRUCTS>(name: S, address: bigint): Struct<S> =>
  new Struct(name, {}, Buffer.from(koffi.view(address, STRUCTS[name].size)));
const textAt = (address: bigint, size: number): string => readBytes(address, size).toString('latin1');

/** Handles each kind of call. */
const CALLS = {
  get(address: bigint): bigint {
    const args = structAt('PJRT_KeyValueGetCallback_Args', address);
    const key = textAt(args.get('key'), args.get('key_size'));
    return give(args, ask({ id: 0, op: 'get', key, timeoutMs: args.get('timeout_in_ms') }));
  },
  tryGet(address: bigint): bigint {
    const args = structAt('PJRT_KeyValueTryGetCallback_Args', address);
    return give(args, ask({ id: 0, op: 'tryGet', key: textAt(args.get('key'), args.get('key_size')) }));
  },
  put(address: bigint): bigint {
    const args = structAt('PJRT_KeyValuePutCallback_Args', address);
    const key = textAt(args.get('key'), args.get('key_size'));
    const answer = ask({ id: 0, op: 'put', key, value: readBytes(args.get('value'), args.get('value_size')) });
    return answer.code ? failure(args.get('callback_error'), answer) : 0n;
  },
};

type Getting = Struct<'PJRT_KeyValueGetCallback_Args'> | Struct<'PJRT_KeyValueTryGetCallback_Args'>;
/** Returns the value in memory that the plugin frees. */
function give(getting: Getting, answer: Answer): bigint {
  const args = getting as Struct<'PJRT_KeyValueGetCallback_Args'>; // the fields used here have the same names in both
  if (answer.code) return failure(args.get('callback_error'), answer);
  const { value } = answer;
  const copy: bigint = koffi.alloc('uint8_t', Math.max(value.length, 1));
  new Uint8Array(koffi.view(copy, Math.max(value.length, 1))).set(value);
  args.set('value', copy).set('value_size', value.length).set('value_deleter_callback', free);
  return 0n;
}

/** Creates an error with the plugin's own function, which is passed as a pointer to its address. */
function failure(callbackError: bigint, { code, message }: Pick<Answer, 'code' | 'message'>): bigint {
  const text = Buffer.from(message);
  return koffi.call(readPointers(callbackError, 1)[0]!, CALLBACK_ERROR, code, addressOf(text), text.length);
}

/** Asks the network thread, and waits. */
function ask(request: Request): Answer {
  try {
    let seen = Atomics.load(answers, 0);
    port.postMessage(request);
    for (;;) {
      const received = receiveMessageOnPort(port);
      if (received) return received.message as Answer;
      Atomics.wait(answers, 0, seen);
      seen = Atomics.load(answers, 0);
    }
  } catch (e) {
    return { id: 0, code: STATUS_CODES.indexOf('INTERNAL'), message: messageOf(e), value: new Uint8Array() };
  }
}

parentPort!.postMessage(koffi.register(CALLS[op], koffi.pointer(CALLBACK)));
parentPort!.on('message', () => {}); // a registered callback does not keep the thread alive
