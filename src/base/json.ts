// JSON between processes and in files. The content of a file is checked against a schema on reading: a mismatch is a FileError
// that names the file, the key, the value and what was expected.
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import * as v from 'valibot';
import { FileError } from './errors.js';
import { isFileName } from './folder.js';
import { bytes as showBytes } from './format.js';
import { messageOf } from './thrown.js';

/** JSON text with NaN and infinities (a loss may be one) as strings, which Number converts back. */
export const jsonOf = (x: unknown): string =>
  JSON.stringify(x, (_, value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value));

/** JSON for files: indented, with a newline at the end. */
export const jsonText = (x: unknown): Uint8Array => Buffer.from(`${JSON.stringify(x, null, 2)}\n`);

// ---- schemas: valibot's, with messages that complete "expected ..."

export type Schema = v.GenericSchema;
export type Read<S extends Schema> = v.InferOutput<S>;

export const text = v.string('a string');
/** The name of a file in the same folder as the one being read. */
export const fileName = v.pipe(text, v.check(isFileName, 'the name of a file in the same folder'));
export const flag = v.boolean('true or false');
export const real = v.pipe(v.number('a number'), v.finite('a finite number'));
/** A whole number of at least `least`; 2^53 - 1 is the largest that JavaScript represents exactly. */
export const whole = (least = 0, most = Number.MAX_SAFE_INTEGER) => {
  const what = `a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}`;
  return v.pipe(v.number(what), v.safeInteger(what), v.minValue(least, what), v.maxValue(most, what));
};
/** An optional key. Transformers writes null for values that are not set: null counts as absent. */
export const optional = <S extends Schema>(schema: S) =>
  v.pipe(
    v.nullish(schema),
    v.transform((x) => x ?? undefined),
  );
export const list = <S extends Schema>(of: S) => v.array(of, 'a list');
export const record = <S extends Schema>(of: S) => v.record(v.string(), of, 'an object');
/** An object with any keys, unchanged: valibot's own schemas leave out __proto__, prototype and constructor. */
export const anyObject = v.custom<Record<string, unknown>>(
  (x) => typeof x === 'object' && x !== null && !Array.isArray(x),
  'an object',
);
/** An object with these keys; others are kept, except __proto__, prototype and constructor. */
export const object = <E extends v.ObjectEntries>(entries: E) =>
  v.pipe(
    anyObject,
    v.looseObject(entries, ({ path }) => {
      const missing = entries[String(path?.at(-1)?.key)];
      return missing ? (v.safeParse(missing, undefined).issues?.[0].message ?? 'a value') : 'an object';
    }),
  );

// ---- reading

export interface ReadOptions {
  /** The error to throw. Default: a FileError. */
  readonly error?: (message: string, options: ErrorOptions) => Error;
}

const LIMIT = 256 * 2 ** 20; // bytes, more than the JSON of any model, tokenizer or checkpoint

/** The content of a JSON file; undefined if there is no such file. */
export async function readJson<S extends Schema>(
  file: string,
  schema: S,
  options: ReadOptions = {},
): Promise<Read<S> | undefined> {
  const bad = badOf(options);
  let bytes: Buffer;
  try {
    checkSize(await fsp.stat(file));
    bytes = await fsp.readFile(file);
  } catch (e) {
    if (isMissing(e)) return undefined;
    throw bad(`cannot read ${file}: ${messageOf(e)}`, e);
  }
  return parseJson(bytes, file, schema, options);
}

/** The same, synchronously: for constructors and lists. */
export function readJsonSync<S extends Schema>(
  file: string,
  schema: S,
  options: ReadOptions = {},
): Read<S> | undefined {
  const bad = badOf(options);
  let bytes: Buffer;
  try {
    checkSize(fs.statSync(file));
    bytes = fs.readFileSync(file);
  } catch (e) {
    if (isMissing(e)) return undefined;
    throw bad(`cannot read ${file}: ${messageOf(e)}`, e);
  }
  return parseJson(bytes, file, schema, options);
}

/** Parses and checks JSON; `source` names its origin in errors. */
export function parseJson<S extends Schema>(
  json: string | Uint8Array,
  source: string,
  schema: S,
  options: ReadOptions = {},
): Read<S> {
  const bad = badOf(options);
  let value: unknown;
  try {
    const string = typeof json === 'string' ? json : UTF8.decode(json); // without a byte-order mark
    checkDepth(string);
    value = JSON.parse(string);
  } catch (e) {
    throw bad(`${source} is not JSON: ${messageOf(e)}`, e);
  }
  return checkJson(value, source, schema, options);
}

/** Checks a value against a schema. */
export function checkJson<S extends Schema>(
  value: unknown,
  source: string,
  schema: S,
  options: ReadOptions = {},
): Read<S> {
  const bad = badOf(options);
  const { success, output, issues } = v.safeParse(schema, value);
  if (success) return output;
  const [{ message, input, path }, ...more] = issues as [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]];
  const key = (path ?? []).map((item) => String(item.key)).join('.');
  const is = input === undefined ? (key ? 'is missing' : 'is empty') : `is ${shorten(input)}`;
  const others = more.length ? ` (and ${more.length} more ${more.length > 1 ? 'keys are' : 'key is'} wrong)` : '';
  throw bad(`${source}: ${key ? `"${key}"` : 'its content'} ${is}: expected ${message}${others}`);
}

const DEPTH = 1000; // levels of nesting: code that walks a value takes a few stack frames for each
/** Throws if a text is nested deeper than any valid file: JSON.parse accepts any depth, but recursive code does not. */
function checkDepth(json: string): void {
  for (let i = 0, depth = 0; i < json.length; i++) {
    const c = json.charCodeAt(i);
    if (c === QUOTE) {
      const start = i;
      do i = json.indexOf('"', i + 1);
      while (i > 0 && isEscaped(json, start, i));
      if (i < 0) return; // unterminated string: JSON.parse reports it
    } else if ((c | 0x20) === OPEN && ++depth > DEPTH) throw new Error(`it is nested more than ${DEPTH} deep`);
    else if ((c | 0x20) === CLOSE) depth--;
  }
}
const [QUOTE, OPEN, CLOSE] = [0x22, 0x7b, 0x7d]; // 0x5b | 0x20 is 0x7b: [ and {
/** Whether an odd number of backslashes precedes a quotation mark. */
function isEscaped(json: string, start: number, at: number): boolean {
  let first = at;
  while (first > start + 1 && json.charCodeAt(first - 1) === 0x5c) first--;
  return (at - first) % 2 === 1;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });
const badOf =
  ({ error = (message, options) => new FileError(message, options) }: ReadOptions) =>
  (message: string, cause?: unknown): Error =>
    error(message, cause === undefined ? {} : { cause });
const isMissing = (e: unknown): boolean => (e as NodeJS.ErrnoException).code === 'ENOENT';

function checkSize(info: fs.Stats): void {
  if (!info.isFile()) throw new Error('it is not a file'); // reading a pipe would block
  if (info.size > LIMIT) throw new Error(`it has ${showBytes(info.size)}, more than ${showBytes(LIMIT)}`);
}

/** A value as text of at most 60 characters. */
function shorten(value: unknown): string {
  const isDeep = typeof value === 'object' && value !== null;
  if (isDeep) return Array.isArray(value) ? `a list of ${value.length}` : 'an object';
  const shown = JSON.stringify(value) ?? String(value);
  return shown.length > 60 ? `${shown.slice(0, 57)}...` : shown;
}
