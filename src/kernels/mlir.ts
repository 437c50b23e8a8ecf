// A writer of MLIR's generic form, which every dialect reads: kernels for GPUs (Triton) and TPUs (Mosaic) are such text.
import { DTYPES, type DType } from '../base/dtype.js';
import { literal } from '../base/literal.js';

/** A value of the module: its name, %12 or %12#1, and its type. */
export interface Value {
  readonly id: string;
  readonly type: string;
}
/** By name, each as MLIR writes it. Undefined ones are left out; '' is a unit attribute, which has no value. */
export type Attributes = Readonly<Record<string, string | undefined>>;

export interface OpParts {
  /** Those that belong to the operation: `<{...}>`. */
  readonly properties?: Attributes | undefined;
  /** Any others: `{...}`. */
  readonly attributes?: Attributes | undefined;
  /** What `region` gave. */
  readonly regions?: readonly string[] | undefined;
}

/** A dtype as Triton and Mosaic write it: integers have no sign, their operations do. */
export const elementOf = (dtype: DType): string => DTYPES[dtype].mlir.replace(/^ui/, 'i');
/** `tensor<8x16xf32>`; `kind`: tensor, vector, memref. `more` comes last: a layout, a memory space. */
export const shaped = (kind: string, shape: readonly number[], element: string, ...more: readonly string[]): string =>
  `${kind}<${[...shape, element].join('x')}${more.map((m) => `, ${m}`).join('')}>`;

export const text = (value: string): string =>
  `"${value.replace(/["\\\n]/g, (c) => `\\${c.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`)}"`;
export const int = (value: number, type = 'i32'): string => `${value} : ${type}`;
/** `[1, 2]` */
export const list = (values: readonly (number | string)[]): string => `[${values.join(', ')}]`;
/** `array<i32: 1, 2>` */
export const array = (values: readonly (number | boolean)[], element = 'i64'): string =>
  `array<${element}${values.length ? `: ${values.join(', ')}` : ''}>`;
/** A number as an attribute of an element type, or, for blocks of `type`, repeated: `dense<1.0> : tensor<4xf32>`. */
export function number(value: number | bigint | boolean, dtype: DType, type: string = elementOf(dtype)): string {
  const n = literal(value, dtype);
  if (type !== elementOf(dtype)) return `dense<${n}> : ${type}`;
  return dtype === 'bool' ? n : `${n} : ${type}`;
}

const dictionary = (attributes: Attributes = {}): string =>
  Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => (value === '' ? name : `${name} = ${value}`))
    .join(', ');
const parenthesized = (types: readonly string[]): string => (types.length === 1 ? types[0]! : `(${types.join(', ')})`);

/** Operations in the order in which they are written. */
export class MlirWriter {
  #lines: string[] = [];
  #count = 0;
  /** Values of pure operations, in this region and those around it: what was computed is not computed again. */
  #known: Map<string, Value>[] = [new Map()];

  /** An operation with these results. */
  op(
    name: string,
    operands: readonly Value[],
    types: readonly string[],
    { properties, attributes, regions = [] }: OpParts = {},
  ): Value[] {
    const [own, others] = [dictionary(properties), dictionary(attributes)];
    const text = [
      `"${name}"(${operands.map((x) => x.id).join(', ')})`,
      ...(own ? [`<{${own}}>`] : []),
      ...(regions.length ? [`(${regions.join(', ')})`] : []),
      ...(others ? [`{${others}}`] : []),
      `: (${operands.map((x) => x.type).join(', ')}) -> ${parenthesized(types)}`,
    ].join(' ');
    if (!types.length) {
      this.#lines.push(text);
      return [];
    }
    const id = `%${this.#count++}`;
    this.#lines.push(`${id}${types.length > 1 ? `:${types.length}` : ''} = ${text}`);
    return types.map((type, i) => ({ id: types.length > 1 ? `${id}#${i}` : id, type }));
  }

  /** An operation with one result and no effect: written once for the same operands. */
  pure(name: string, operands: readonly Value[], type: string, parts: OpParts = {}): Value {
    const key = JSON.stringify([name, operands, type, parts]);
    const known = this.#known.findLast((scope) => scope.has(key))?.get(key);
    if (known) return known;
    const [value] = this.op(name, operands, [type], parts);
    this.#known.at(-1)!.set(key, value!);
    return value!;
  }

  /** A block of operations with parameters of these types. Its body ends with the operation that ends it. */
  region(types: readonly string[], body: (...params: Value[]) => void): string {
    const outer = this.#lines;
    this.#lines = [];
    this.#known.push(new Map());
    try {
      const params = types.map((type) => ({ id: `%${this.#count++}`, type }));
      body(...params);
      const head = params.length ? [`^bb0(${params.map((p) => `${p.id}: ${p.type}`).join(', ')}):`] : [];
      return `{\n${[...head, ...this.#lines].join('\n')}\n}`;
    } finally {
      this.#known.pop();
      this.#lines = outer;
    }
  }

  /** All that was written, as a module. */
  module(attributes: Attributes = {}): string {
    const own = dictionary(attributes);
    return `"builtin.module"() ({\n${this.#lines.join('\n')}\n})${own ? ` {${own}}` : ''} : () -> ()\n`;
  }
}
