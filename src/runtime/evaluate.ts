// Computing what graphs describe: values that are there, programs that were compiled, and running them.
import type { ArrayType, TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { hasRebound, insideBody, takeRebound } from '../ir/cell.js';
import type { Expr } from '../ir/expr.js';
import { collect, hashOf, structure } from '../ir/graph.js';
import { isVariable } from '../ops/variable.js';
import type { Buffer, Client, LoadedExecutable } from '../pjrt/index.js';
import { emitModule } from '../stablehlo/emitter.js';
import { openClient } from './device.js';

/** What is known of a node's value: where it is on the device, or the host's array until it is needed there. */
type Value = Buffer | TypedArray;
const values = new WeakMap<Expr, Value>();
export const hasValue = (e: Expr): boolean => values.has(e);
export const setValue = (e: Expr, value: Value): void => {
  values.set(e, value);
  if (ArrayBuffer.isView(value)) remember(e, value);
};

/** Small arrays that the host has seen, so that printing them computes nothing. */
const seen = new WeakMap<Expr, TypedArray>();
const SMALL = 10_000;
export const hostValue = (e: Expr): TypedArray | undefined => seen.get(e);
const remember = (e: Expr, array: TypedArray): void => void (array.length <= SMALL && seen.set(e, array));

let client: Promise<Client> | undefined;
/** The client that everything runs on, started when first needed. */
export const defaultClient = (): Promise<Client> => (client ??= openClient('auto').then((o) => o.client));

interface Compiled {
  readonly structure: Int32Array;
  readonly executable: Promise<LoadedExecutable>;
}
const programs = new Map<string, Compiled[]>(); // by hash; the structure itself decides

/** How many programs were compiled and executed so far. */
export const counts = { compiled: 0, executed: 0 };

/** Computes these nodes and every cell that was changed, in one program, and remembers their values. */
export async function evaluate(roots: readonly Expr[]): Promise<Buffer[]> {
  if (insideBody()) {
    const what = roots.map((e) => e.aval).join(' and ');
    throw new ArgumentError(
      `a value cannot be read inside the body of a loop or branch, which is described now and computed later: return ${what} from it, and read the result`,
    );
  }
  const device = await defaultClient();
  if (roots.some((e) => !hasValue(e)) || (!roots.length && hasRebound())) {
    const cells = takeRebound();
    const missing = [...new Set([...roots, ...cells.map((cell) => cell.expr)])].filter((e) => !hasValue(e));
    const graph = collect(missing, hasValue);
    const parameters = graph.nodes.filter(hasValue);
    try {
      const executable = await compiled(device, structure(graph, hasValue), () => emitModule(graph, parameters));
      const { outputs } = executable.execute(parameters.map((p) => onDevice(device, p)));
      counts.executed++;
      missing.forEach((e, i) => {
        setValue(e, outputs[i]!);
        if (!e.differentiable || isVariable(e)) e.forget(); // else every step would keep all before it alive
      });
    } catch (error) {
      for (const cell of cells) cell.touch(); // still to be computed
      throw error;
    }
  }
  return roots.map((e) => onDevice(device, e));
}

/** Another node with the same value, where that is known. */
export function shareValue(from: Expr, to: Expr): void {
  const value = values.get(from);
  if (value) setValue(to, value);
  const array = seen.get(from);
  if (array) seen.set(to, array);
}

/** The elements of a node, computed if need be and brought to the host. */
export async function fetchArray(e: Expr): Promise<TypedArray> {
  const [buffer] = await evaluate([e]);
  const array = await buffer!.toHost();
  remember(e, array.slice()); // the caller's own may be changed
  return array;
}

async function compiled(device: Client, key: Int32Array, text: () => string): Promise<LoadedExecutable> {
  const hash = hashOf(key);
  const same = programs.get(hash) ?? [];
  programs.set(hash, same);
  const known = same.find((c) => c.structure.length === key.length && c.structure.every((x, i) => x === key[i]));
  if (known) return known.executable;
  counts.compiled++;
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
