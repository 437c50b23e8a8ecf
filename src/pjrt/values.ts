// PJRT_NamedValue lists: options for clients and topologies, attributes of devices and plugins.
import { ArgumentError } from '../base/errors.js';
import { STRUCTS } from './layout.js';
import { readInt64s, readString, readStructs, Struct } from './struct.js';

/** An option's value. Whole numbers are int64; write `{ float: 0.75 }` for a float. */
export type Option = string | boolean | number | bigint | { readonly float: number } | readonly number[];
export type Options = Readonly<Record<string, Option>>;

const TYPE = { string: 0, int64: 1, int64s: 2, float: 3, bool: 4 } as const; // PJRT_NamedValue_Type

/** The list as a C array of structs. `structs` keep the memory alive that they point to, so hold them during the call. */
export function encodeOptions(options: Options): { bytes: Buffer; count: number; structs: readonly unknown[] } {
  const { size } = STRUCTS.PJRT_NamedValue;
  const entries = Object.entries(options);
  const bytes = Buffer.alloc(size * entries.length);
  const structs = entries.map(([name, value], i) => {
    const text = Buffer.from(name);
    const s = new Struct(
      'PJRT_NamedValue',
      { name: text, name_size: text.length, value_size: 1 },
      bytes.subarray(i * size, (i + 1) * size),
    );
    if (typeof value === 'string') {
      const data = Buffer.from(value);
      return s.set('type', TYPE.string).set('string_value', data).set('value_size', data.length);
    }
    if (typeof value === 'boolean') return s.set('type', TYPE.bool).set('bool_value', value);
    if (typeof value === 'bigint' || Number.isInteger(value)) {
      return s.set('type', TYPE.int64).set('int64_value', value as number | bigint);
    }
    if (Array.isArray(value)) {
      const data = BigInt64Array.from(value, BigInt);
      return s.set('type', TYPE.int64s).set('int64_array_value', data).set('value_size', data.length);
    }
    if (typeof value === 'object' && 'float' in value) return s.set('type', TYPE.float).set('float_value', value.float);
    throw new ArgumentError(
      `option ${name}: ${String(value)} is not a whole number; write { float: ${String(value)} } for a float`,
    );
  });
  return { bytes, count: entries.length, structs };
}

export type Attributes = Readonly<Record<string, string | boolean | number | readonly number[]>>;

export function decodeValues(address: bigint, count: number): Attributes {
  return Object.fromEntries(
    readStructs('PJRT_NamedValue', address, count).map((s) => [
      readString(s.get('name'), s.get('name_size')),
      scalarOf(s),
    ]),
  );
}

function scalarOf(s: Struct<'PJRT_NamedValue'>): string | boolean | number | readonly number[] {
  switch (s.get('type')) {
    case TYPE.string:
      return readString(s.get('string_value'), s.get('value_size'));
    case TYPE.int64:
      return s.get('int64_value');
    case TYPE.int64s:
      return readInt64s(s.get('int64_array_value'), s.get('value_size'));
    case TYPE.float:
      return s.get('float_value');
    default:
      return s.get('bool_value');
  }
}
