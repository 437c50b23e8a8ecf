// From a call of torch's to the call here: the function's name, arguments by place, keyword arguments as options.
import * as tx from 'tsxla';
import { SIGNATURES } from '../../dist/tensor/signatures.js';
import type { Call, Entry, Golden, Node } from './golden.js';
import { SPELLED } from './spelled.js';

export type Value = unknown;
type Callable = (...args: Value[]) => Value;
export type Names = Readonly<Record<string, Value>>;
/** How a function of torch's is written here where its name and arguments are not enough. */
export type Spelling = (args: Value[], kwargs: Record<string, Value>, call: typeof byName) => Value;

export const camel = (name: string): string => name.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase());
/** What torch has no place for here: where a result goes, how it lies in memory, settings of other dtypes. */
const DROPPED = new Set(['device', 'layout', 'memory_format', 'pin_memory', 'requires_grad']);

/** Functions that have the name of another one outside of their space. */
const OWN_SPACE = /^torch\.(masked|fft|signal\.windows)\.|^torch\.linalg\.(cond|norm|vander)$/;

/** Thrown where torch's function has nothing of its name here. */
export class Absent extends Error {}

/** The function of a name of torch's: torch.linalg.norm is tx.linalg.norm, or tx.norm; torch.Tensor.t a method. */
export function find(torch: string): Callable | undefined {
  const parts = torch.split('.').slice(1);
  const name = camel(parts.at(-1)!);
  const spaces = parts.slice(0, -1).map(camel);
  const space = spaces.reduce<Value>((at, key) => (at as Names | undefined)?.[key], tx);
  const own = (at: Value) => {
    const f = (at as Names | undefined)?.[name];
    return typeof f === 'function' ? (f as Callable) : undefined;
  };
  const method = () => {
    if (!(name in tx.Tensor.prototype)) return undefined;
    return (x: Value, ...rest: Value[]) => {
      const f = (x as unknown as Names)[name];
      return typeof f === 'function' ? (f as Callable).apply(x, rest) : f;
    };
  };
  if (spaces[0] === 'Tensor') return method() ?? own(tx);
  if (OWN_SPACE.test(torch)) return own(space);
  return (spaces.length ? own(space) : undefined) ?? own(tx) ?? method();
}

interface Parameter {
  readonly name: string;
  readonly options?: object;
  readonly rest?: boolean;
}
/** Calls the function of this name: keyword arguments go by place where they are parameters here, else into options. */
export function byName(torch: string, args: readonly Value[], kwargs: Readonly<Record<string, Value>> = {}): Value {
  const f = find(torch);
  if (!f) throw new Absent(`no ${torch}`);
  const list = [...args];
  const options: Record<string, Value> = {};
  const name = camel(torch.split('.').at(-1)!);
  const signatures = (SIGNATURES as Record<string, readonly (readonly Parameter[])[] | undefined>)[name] ?? [];
  const rest = new Map(
    Object.entries(kwargs)
      .filter(([key]) => !DROPPED.has(key))
      .map(([key, value]) => [camel(key), value]),
  );
  const places = (ours: string) =>
    signatures.flatMap((s) => s.flatMap((p, i) => (p.name === ours && !p.options ? [i] : [])));
  const hasOptions = signatures.some((s) => s.some((p) => p.options));
  for (;;) {
    const next = [...rest.keys()].find((ours) => places(ours).includes(list.length));
    if (next === undefined) break;
    list.push(rest.get(next));
    rest.delete(next);
  }
  for (const [ours, value] of rest) {
    const place = places(ours)[0];
    if (place === undefined || hasOptions) options[ours] = value;
    else list[place] = value;
  }
  return f(
    ...Array.from(list), // a place that nothing is given for is undefined
    ...(Object.keys(options).length ? [options] : []),
  );
}

/** The arguments of a call as values, and the tensors among them that want gradients, in torch's order. */
export function decode(golden: Golden, node: Node, leaves: tx.Tensor[]): Value {
  if (node === null || typeof node !== 'object') return node;
  if (Array.isArray(node)) return (node as readonly Node[]).map((n) => decode(golden, n, leaves));
  const n = node as Exclude<Node, null | boolean | number | string | readonly Node[]>;
  if ('t' in n) {
    const t = tensorOf(golden, n.t);
    if (n.g) leaves.push(t.requiresGrad_());
    return t;
  }
  if ('w' in n) return n.w;
  if ('f' in n) return n.f === 'nan' ? Number.NaN : n.f === 'inf' ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  if ('i' in n) return BigInt(n.i);
  if ('c' in n) return { re: n.c[0], im: n.c[1] };
  if ('dtype' in n) {
    return n.dtype;
  }
  if ('d' in n) return Object.fromEntries(Object.entries(n.d).map(([k, v]) => [k, decode(golden, v, leaves)]));
  if ('s' in n)
    return tx.slice(...(n.s.map((e) => decode(golden, e, leaves) ?? undefined) as [number, number, number]));
  if ('e' in n) return '...';
  return undefined; // a device or a layout
}

export function tensorOf(golden: Golden, i: number): tx.Tensor {
  const [dtype, shape] = golden.tensors[i]!;

  return tx.fromBuffer(bytesOf(golden, i), { dtype: dtype as 'f32', shape: [...shape] });
}

const BYTES: Readonly<Record<string, number>> = {
  i16: 2,
  f16: 2,
  bf16: 2,
  i32: 4,
  f32: 4,
  i64: 8,
  f64: 8,
  c64: 8,
  c128: 16,
};
export function bytesOf(golden: Golden, i: number): Uint8Array {
  const [dtype, shape, offset] = golden.tensors[i]!;
  return golden.bytes.subarray(offset, offset + shape.reduce((a, b) => a * b, 1) * (BYTES[dtype] ?? 1));
}

/** Makes the call of a case; gives the results and the tensors that want gradients. */
export function callCase(golden: Golden, entry: Entry, call: Call): { result: Value; leaves: tx.Tensor[] } {
  const leaves: tx.Tensor[] = [];
  const args = call.a.map((a) => decode(golden, a, leaves));
  const kwargs: Record<string, Value> = {};
  for (const [k, v] of Object.entries(call.k ?? {})) kwargs[k] = decode(golden, v, leaves);
  const spelled = SPELLED[`${entry.name}.${entry.variant}`] ?? SPELLED[entry.name];
  const result = spelled ? spelled(args, kwargs, byName) : byName(entry.torch, args, kwargs);
  return { result, leaves };
}
