// Compiling and running: results, donation, many devices, stored executables, and everything that can be got wrong.

import { type Buffer, Client, CompileError, type LoadedExecutable, OutOfMemoryError, PjrtError } from 'tsxla/pjrt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { cpuPlugin, f32, golden, startCpu, upload } from '../support.js';

let client: Client;
let add: LoadedExecutable;
beforeAll(async () => {
  client = await startCpu();
  add = await client.compile(golden('mlir/add.mlir'));
});
afterAll(() => client.dispose());

const sum = async (executable = add) => {
  using a = upload(client, 1, 2, 3, 4);
  using b = upload(client, 10, 20, 30, 40);
  const c = executable.execute([a, b]).outputs[0]!;
  const values = await c.toHost();
  c.dispose();
  return [...values];
};

test('an executable knows its program', async () => {
  const program = add;
  expect(program.name).toBe('add');
  expect(program.inputs).toEqual([f32(4), f32(4)]);
  expect(program.outputs).toEqual([f32(4)]);
  expect([program.numReplicas, program.numPartitions, program.aliases]).toEqual([1, 1, []]);
  expect(program.memory()).toMatchObject({ arguments: 32, outputs: 16, aliased: 0 });
  expect(program.cost()).toMatchObject({ flops: 4, 'bytes accessed': 48 });
  const hlo = await program.optimizedHlo();
  expect(hlo).toMatch(/^HloModule add.*\n[\s\S]*ENTRY /);
  expect(hlo).toMatch(/ = f32\[4\]\{0\} add\(/);
});

test('and computes', async () => expect(await sum()).toEqual([11, 22, 33, 44]));

test('a stored executable loads and computes the same', async () => {
  const bytes = await add.serialize();
  using again = await client.load(bytes);
  expect(again.inputs).toEqual(add.inputs);
  expect(await sum(again)).toEqual([11, 22, 33, 44]);
  const mine = Uint8Array.from(bytes);
  const loading = client.load(mine);
  mine.fill(0); // the caller may do so: it was copied
  (await loading).dispose();
  await expect(client.load(bytes.subarray(0, bytes.length >> 1))).rejects.toThrow(PjrtError);
  await expect(client.load(new Uint8Array(64))).rejects.toThrow(PjrtError);
  expect(await sum()).toEqual([11, 22, 33, 44]);
});

test('a client waits for its own work, not for that of others', async () => {
  using other = await startCpu();
  const t = 'tensor<1024x1024xf32>';
  using slow = await client.compile(
    `module @slow { func.func public @main(%a: ${t}) -> ${t} {
       %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (${t}, ${t}) -> ${t}
       return %0 : ${t} } }`,
  );
  using a = client.bufferFromHost(new Float32Array(1024 * 1024), slow.inputs[0]!);
  let finished = false;
  const { outputs, done } = slow.execute([a]);
  done.then(() => (finished = true));
  await other.synchronize();
  expect(finished).toBe(false);
  await client.synchronize();
  expect(finished).toBe(true);
  outputs[0]!.dispose();
});

test('compiling leaves the event loop free', async () => {
  const n = 60; // enough matmuls that compiling takes a while
  const t = 'tensor<64x64xf32>';
  const lines = Array.from(
    { length: n },
    (_, i) => `%m${i + 1} = stablehlo.dot_general %m${i}, %m0, contracting_dims = [1] x [0] : (${t}, ${t}) -> ${t}
    %t${i} = stablehlo.tanh %m${i + 1} : ${t}`,
  );
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  using executable = await client.compile(
    `module @long { func.func public @main(%m0: ${t}) -> ${t} { ${lines.join('\n')} return %t${n - 1} : ${t} } }`,
  );
  clearInterval(timer);
  expect(executable.name).toBe('long');
  expect(ticks).toBeGreaterThan(3);
});

test('many executions in flight, awaited from the last to the first', async () => {
  using one = upload(client, 1, 1, 1, 1);
  let x = upload(client, 0, 0, 0, 0);
  const dones: Promise<void>[] = [];
  for (let i = 0; i < 500; i++) {
    const { outputs, done } = add.executeSharded([[x, one]]);
    dones.push(done);
    x.dispose(); // while it is being read: XLA holds what it needs
    x = outputs[0]![0]!;
  }
  for (const done of dones.reverse()) await done;
  expect([...(await x.toHost())]).toEqual([500, 500, 500, 500]);
  x.dispose();
  await client.synchronize();
  expect(client.live.buffers).toBe(1);
});

describe('donation', () => {
  let donate: LoadedExecutable;
  beforeAll(async () => {
    donate = await client.compile(golden('mlir/donate.mlir'));
  });
  const arrays = () =>
    donate.inputs.map((t) => client.bufferFromHost(new Float32Array(t.shape.reduce((a, b) => a * b, 1)).fill(1), t));

  test('takes the memory: the argument is gone, the count stays', () => {
    const args = arrays();
    const { buffers } = client.live;
    expect(donate.aliases).toEqual([{ input: 0, output: 0 }]);
    const { outputs } = donate.execute(args);
    expect(client.live.buffers).toBe(buffers - 1 + outputs.length);
    expect(args[0]!.disposed).toBe(true);
    expect(() => donate.execute(args)).toThrow(
      /^buffer f32\[[\d, ]*\] was donated to donate as argument 0: its memory now holds a result\. Use the output that replaced it, or pass \{ keep: \[0\] \}/,
    );
    for (const b of [...args, ...outputs]) b.dispose();
  });

  test('does not wait for the device: the call returns while the program runs', async () => {
    const t = 'tensor<768x768xf32>';
    const matmul = (to: string, from: string) =>
      `${to} = stablehlo.dot_general ${from}, %a, contracting_dims = [1] x [0] : (${t}, ${t}) -> ${t}\n`;
    using slow = await client.compile(
      `module @slow { func.func public @main(%a: ${t} {tf.aliasing_output = 0 : i32}) -> ${t} {
         ${matmul('%b', '%a')} ${matmul('%c', '%b')} ${matmul('%d', '%c')} return %d : ${t} } }`,
    );
    const shares: number[] = []; // of the call in the whole: on a busy machine some calls are interrupted, never all
    while (shares.length < 20 && !shares.some((share) => share < 0.5)) {
      using a = client.bufferFromHost(new Float32Array(768 * 768), slow.inputs[0]!);
      const start = performance.now();
      const { outputs, done } = slow.executeSharded([[a]]);
      const dispatch = performance.now() - start;
      await done;
      shares.push(dispatch / (performance.now() - start));
      outputs[0]![0]!.dispose();
    }
    expect(Math.min(...shares)).toBeLessThan(0.5);
  });

  test('keep: the argument lives on, with its values', async () => {
    const args = arrays();
    const { outputs } = donate.execute(args, { keep: [0] });
    await outputs[0]!.ready();
    expect((await args[0]!.toHost()).every((v) => v === 1)).toBe(true);
    expect(() => donate.execute(args, { keep: [7] })).toThrow('execute donate: keep: there is no argument 7');
    for (const b of [...args, ...outputs]) b.dispose();
  });

  test('a buffer donated and passed again in the same call is refused, and nothing is lost', async () => {
    using a = upload(client, 1, 2, 3, 4);
    expect(() => donate.execute([a, a])).toThrow(PjrtError);
    expect([...(await a.toHost())]).toEqual([1, 2, 3, 4]);
  });
});

describe('four devices', () => {
  let four: Client;
  let spmd: LoadedExecutable;
  beforeAll(async () => {
    four = await startCpu({ cpu_device_count: 4 });
    spmd = await four.compile(golden('mlir/spmd.mlir'), { numPartitions: 4 });
  });
  afterAll(() => four.dispose());

  test('a sharded program gives each its part, and collectives work', async () => {
    const { inputs, outputs } = spmd;
    expect(spmd.devices.map((d) => d.id)).toEqual([0, 1, 2, 3]);
    const rows = spmd.devices.map((d) =>
      inputs.map((t, i) => four.bufferFromHost(new Float32Array(t.shape.reduce((a, b) => a * b, 1)).fill(i + 1), t, d)),
    );
    const { outputs: results, done } = spmd.executeSharded(rows);
    await done;
    expect(results).toHaveLength(4);
    // every element is a sum of 8 products 1 x 2, and the sum over all is the same on every device
    for (const [d, [product, total]] of results.entries()) {
      expect(product!.device.id).toBe(d);
      expect(product!.type).toEqual(outputs[0]);
      expect((await product!.toHost()).every((v) => v === 16)).toBe(true);
      expect((await total!.toHost())[0]).toBe(2 * 8 ** 3);
    }
  });

  test('a thousand runs that are not waited for do not hang', async () => {
    let rows = spmd.devices.map((d) =>
      spmd.inputs.map((t) => four.bufferFromHost(new Float32Array(t.shape.reduce((a, b) => a * b, 1)), t, d)),
    );
    for (let i = 0; i < 1000; i++)
      for (const row of spmd.executeSharded(rows).outputs) for (const b of row) b.dispose();
    const { done } = spmd.executeSharded(rows);
    await done;
    for (const row of rows) for (const b of row) b.dispose();
    rows = [];
  });

  test('a module says itself over how many devices it is split', async () => {
    using again = await four.compile(golden('mlir/spmd.mlir'));
    expect(again.numPartitions).toBe(4);
    await expect(client.compile(golden('mlir/spmd.mlir'))).rejects.toThrow(
      'split over 4 devices, but the cpu client has 1',
    );
  });

  test('an argument on the wrong device, or too few rows, is refused', () => {
    const row = spmd.inputs.map((t) => four.bufferFromHost(new Float32Array(t.shape.reduce((a, b) => a * b, 1)), t));
    expect(() => spmd.executeSharded([row, row, row, row])).toThrow(
      /argument 0 \(buffer f32\[.*\]\) is on cpu:0, but the program runs on cpu:1: use copyTo/,
    );
    expect(() => spmd.execute(row)).toThrow('it runs on 4 devices, got arguments for 1');
  });
});

describe('refused, by name, and the next call works', () => {
  beforeEach(async () => expect(await sum()).toEqual([11, 22, 33, 44]));

  test('a program that does not parse: XLA says where', async () => {
    const refused = client.compile(golden('mlir/malformed.mlir'));
    await expect(refused).rejects.toThrow(CompileError);
    await expect(refused).rejects.toMatchObject({ call: 'PJRT_Client_Compile' });
    await expect(refused).rejects.toThrow(/:4:\d+/);
  });
  test('a program that parses but is wrong', async () => {
    await expect(client.compile(golden('mlir/wrong-type.mlir'))).rejects.toThrow(/:\d+:\d+/);
  });
  test('no program at all', async () => {
    await expect(client.compile('')).rejects.toThrow(CompileError);
  });
  test('results and arguments that are not row-major, of a size unknown, or of a type JavaScript has not', async () => {
    const { executables } = client.live;
    const refused = (code: string) => expect(client.compile(`module @odd { func.func public @main${code} }`)).rejects;
    const t = 'tensor<2x3xf32>';
    await refused(`(%a: ${t}) -> (${t} {mhlo.layout_mode = "{0,1}"}) { return %a : ${t} }`).toThrow(
      'output 0 of odd has layout {0,1}: only row-major',
    );
    await refused(`(%a: ${t} {mhlo.layout_mode = "{0,1}"}) -> ${t} { return %a : ${t} }`).toThrow(
      'input 0 of odd has layout {0,1}',
    );
    const c = 'tensor<2xi4>';
    await refused(`(%a: ${c}) -> ${c} { return %a : ${c} }`).toThrow('element type');
    expect(client.live.executables).toBe(executables); // nothing is left of them
  });
  test('arguments that are no buffers', () => {
    using a = upload(client, 1, 2, 3, 4);
    expect(() => add.execute([a, undefined as never])).toThrow(
      'execute add: argument 1 is undefined, not a buffer: use client.bufferFromHost',
    );
    expect(() => add.execute(a as never)).toThrow('execute add: its arguments must be a list of buffers');
  });
  test('a wrong number of arguments', () => {
    using a = upload(client, 1, 2, 3, 4);
    expect(() => add.execute([a])).toThrow('execute add: it takes 2 arguments, got 1');
  });
  test('a wrong shape', () => {
    using a = upload(client, 1, 2, 3, 4);
    using b = upload(client, 1, 2, 3);
    expect(() => add.execute([a, b])).toThrow('execute add: argument 1 is f32[3], but the program takes f32[4]');
  });
  test('a wrong dtype of the same size, which XLA itself would let through', () => {
    using a = upload(client, 1, 2, 3, 4);
    using b = client.bufferFromHost(new Int32Array(4), { dtype: 'i32', shape: [4] });
    expect(() => add.execute([a, b])).toThrow('execute add: argument 1 is i32[4], but the program takes f32[4]');
  });
  test('a buffer of another client', async () => {
    using other = await startCpu();
    using a = upload(client, 1, 2, 3, 4);
    const b = upload(other, 1, 2, 3, 4);
    expect(() => add.execute([a, b])).toThrow('execute add: argument 1 (buffer f32[4]) belongs to another client');
  });
  test('a disposed executable', async () => {
    const executable = await client.compile(golden('mlir/add.mlir'));
    const { executables } = client.live;
    expect(await sum(executable)).toEqual([11, 22, 33, 44]);
    executable.dispose();
    expect(client.live.executables).toBe(executables - 1);
    using a = upload(client, 1, 2, 3, 4);
    expect(() => executable.execute([a, a])).toThrow('executable add was disposed: it cannot be used any more');
    expect(() => executable.memory()).toThrow('executable add was disposed');
  });
  test('a result that cannot fit', async () => {
    const executable = await client.compile(golden('mlir/huge-output.mlir'));
    const args = executable.inputs.map((t) =>
      client.bufferFromHost(new Float32Array(t.shape.reduce((a, b) => a * b, 1)), t),
    );
    const run = async () => {
      const [huge] = executable.execute(args).outputs as [Buffer];
      try {
        await huge.ready();
      } finally {
        huge.dispose();
      }
    };
    await expect(run()).rejects.toThrow(OutOfMemoryError);
    for (const b of args) b.dispose();
  });
  test('a client disposed while it compiles: the compile ends first', async () => {
    const other = await startCpu();
    const compiling = other.compile(golden('mlir/matmul.mlir'));
    other.dispose();
    await expect(compiling).rejects.toThrow(
      'executable matmul was destroyed with its client cpu (1 device), which was disposed',
    );
    await expect(other.compile(golden('mlir/add.mlir'))).rejects.toThrow('client cpu (1 device) was disposed');
  });
  test('a device and a program without inputs of a disposed client', async () => {
    const other = await startCpu();
    const one =
      'module @one { func.func public @main() -> tensor<f32> { %0 = stablehlo.constant dense<1.0> : tensor<f32>\n return %0 : tensor<f32> } }';
    const executable = await other.compile(one);
    const { outputs } = executable.execute([]);
    expect(await outputs[0]!.toHost()).toEqual(Float32Array.of(1));
    other.dispose();
    expect(() => executable.execute([])).toThrow('executable one was destroyed with its client');
    expect(() => other.defaultDevice.memory()).toThrow('client cpu (1 device) was disposed');
    expect(other.defaultDevice.attributes).toEqual({});
  });
  test('an option of the wrong kind', async () => {
    await expect(Client.create(cpuPlugin, { cpu_device_count: 1.5 })).rejects.toThrow(
      'option cpu_device_count: 1.5 is not a whole number; write { float: 1.5 } for a float',
    );
  });
});
