// Converts errors to text and to plain data.
import {
  ArgumentError,
  CompileError,
  DisposedError,
  DonatedError,
  DTypeError,
  OutOfMemoryError,
  PjrtError,
  PluginCorruptError,
  PluginFetchError,
  PluginLoadError,
  PluginNotFoundError,
  PluginVersionError,
  ShapeError,
  type StatusCode,
  TimeoutError,
  TsxlaError,
} from './errors.js';

/** The message of any thrown value. */
export const messageOf = (e: unknown): string => (e instanceof Error ? e.message : String(e));
/** The first line of its message, without the location. */
export const sentenceOf = (e: unknown): string => messageOf(e).split('\n')[0]!;

/** An error as plain data, to send from one process to another. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code?: StatusCode;
  readonly call?: string;
}

export const plainError = (e: unknown): PlainError => {
  const { name = 'Error', code, call } = e as Partial<PjrtError>;
  return { name, message: messageOf(e), ...(code && { code }), ...(call && { call }) };
};

/** Recreates a sent error, with its class. */
export function reviveError({ name, message, code = 'UNKNOWN', call = '' }: PlainError): Error {
  const fromXla = [PjrtError, CompileError, OutOfMemoryError].find((c) => c.name === name);
  return fromXla ? new fromXla(message, code, call) : new (PLAIN.find((c) => c.name === name) ?? TsxlaError)(message);
}
/** The classes with a message as their only argument. */
const PLAIN = [
  ArgumentError,
  ShapeError,
  DTypeError,
  DisposedError,
  DonatedError,
  PluginNotFoundError,
  PluginFetchError,
  PluginCorruptError,
  PluginLoadError,
  PluginVersionError,
  TimeoutError,
];
