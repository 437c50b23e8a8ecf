// Computing what graphs describe: values that are there, programs that were compiled, and running them.
import type { ArrayType, TypedArray } from '../base/dtype.js';
import type { Expr } from '../ir/expr.js';
import { collect, hashOf, structure } from '../ir/graph.js';
import type { Buffer, Client, LoadedExecutable } from '../pjrt/index.js';
import { emitModule } from '../stablehlo/emitter.js';
import { openClient } from './device.js';

/** What is known of a node's value: where it is on the device, or the host's array until it is needed there. */
type Value = Buffer | TypedArray;
const values = new WeakMap<Expr, Value>();
export const hasValue = (e: Expr): boolean => values.has(e);
export const setValue = (e: Expr, value: Value): void => void values.set(e, value);

let client: Promise<Client> | undefined;
/** The client that everything runs on, started when first needed. */
export const defaultClient = (): Promise<Client> => (client ??= openClient('auto').then((o) => o.client));

interface Compiled {
  readonly structure: Int32Array;
  readonly executable: Promise<LoadedExecutable>;
}
const programs = new Map<string, Compiled[]>(); // by hash; the structure itself decides

/** Computes these nodes, in one program, and remembers their values. */
export async function evaluate(roots: readonly Expr[]): Promise<Buffer[]> {
  const device = await defaultClient();
  const missing = [...new Set(roots)].filter((e) => !hasValue(e));
  if (missing.length) {
    const graph = collect(missing, hasValue);
    const parameters = graph.nodes.filter(hasValue);
    const executable = await compiled(device, structure(graph, hasValue), () => emitModule(graph, parameters));
    const { outputs } = executable.execute(parameters.map((p) => onDevice(device, p)));
    missing.forEach((e, i) => setValue(e, outputs[i]!));
  }
  return roots.map((e) => onDevice(device, e));
}

async function compiled(device: Client, key: Int32Array, text: () => string): Promise<LoadedExecutable> {
  const hash = hashOf(key);
  const same = programs.get(hash) ?? [];
  programs.set(hash, same);
  const known = same.find((c) => c.structure.length === key.length && c.structure.every((x, i) => x === key[i]));
  if (known) return known.executable;
  const executable = device.compile(text());
  const entry = { structure: key, executable };
  same.push(entry);
  executable.catch(() => same.splice(same.indexOf(entry), 1)); // the next try compiles again
  return executable;
}

function onDevice(device: Client, e: Expr): Buffer {
  const value = values.get(e)!;
  if (!ArrayBuffer.isView(value)) return value;
  const buffer = device.bufferFromHost(value, e.aval as ArrayType);
  setValue(e, buffer);
  return buffer;
}
