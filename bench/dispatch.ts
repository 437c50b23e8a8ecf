// Measures the host's cost of a call: a `compile`d function against its bare executable, and a `step` of many ops. The programs
// compute next to nothing, so that only the dispatch counts.
import { compile, ones, step, sync, type Tensor, tensor } from 'tsxla';
import { type Buffer, LoadedExecutable } from 'tsxla/pjrt';
import { defaultClient } from '../dist/runtime/value.js';

/** What `compile` may add to a call of the executable, in ms: 0.1, and a microsecond for each buffer in or out. */
export const callBudget = (buffers: number): number => 0.1 + buffers / 1000;
/** For a step of 5,000 ops, in ms: to trace it, to find its program and to start that. */
export const STEP_BUDGET = 60;

/** Starts a program, and frees results that are not used. */
type Call = () => Promise<unknown>;
export interface Case {
  /** Inputs and outputs. */
  readonly buffers: number;
  readonly bare: Call;
  readonly compiled: Call;
}

/** A training step in small: it changes each of `size` tensors in place, and returns one number. */
export async function makeCase(size: number): Promise<Case> {
  const state = Array.from({ length: size }, () => ones([8]));
  const x = ones([8]);
  const update = (x: Tensor): Tensor => {
    for (const w of state) w.mul_(0.5).add_(x);
    return state[0]?.sum() ?? x.add(1);
  };
  const call = compile(update, { name: `update_${size}` });
  const compiled = async () => (await call(x)).dispose();
  const executable = await executableOf(compiled);
  const client = await defaultClient();
  let row = executable.inputs.map((type) => client.bufferFromHost(new Float32Array(8), type));
  const bare = async () => {
    const { outputs } = executable.execute(row);
    [row] = executable.feedBack([row], [outputs]) as [Buffer[]];
  };
  return { buffers: executable.inputs.length + executable.outputs.length, bare, compiled };
}

/** The executable that a call runs, intercepted. */
async function executableOf(call: Call): Promise<LoadedExecutable> {
  const { execute } = LoadedExecutable.prototype;
  let last: LoadedExecutable | undefined;
  LoadedExecutable.prototype.execute = function (...args) {
    last = this;
    return execute.apply(this, args);
  };
  await call();
  LoadedExecutable.prototype.execute = execute;
  return last!;
}

/** A step that describes the same `ops` operations at each call. */
export function makeStep(ops: number): Call {
  const x = tensor([0.5, 0.25]);
  const chain = () => {
    let y = x;
    for (let i = 0; i < ops; i++) y = i % 2 ? y.tanh() : y.add(x);
    return y;
  };
  return async () => (await step(chain)).dispose();
}

/** The milliseconds of each of `turns` calls, until the program is started; the device ends its work off the clock. */
export async function timesOf<K extends string>(
  calls: Readonly<Record<K, Call>>,
  turns: number,
): Promise<Record<K, number[]>> {
  const all = Object.entries(calls) as [K, Call][];
  const times = Object.fromEntries(all.map(([name]) => [name, [] as number[]])) as Record<K, number[]>;
  for (let i = 0; i < turns; i++) {
    // Interleaved, so that other load affects all alike.
    for (const [name, call] of all) {
      const start = performance.now();
      await call();
      times[name].push(performance.now() - start);
      await sync({ wait: true });
    }
  }
  return times;
}
