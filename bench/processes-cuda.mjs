// Two processes that find each other through the key-value store, both on GPU 0: what each sees, what it computes alone, and a sum
// over both. NCCL wants a GPU for each process of a machine: it is told that they are on two, and goes over the network.
//   node bench/processes-cuda.mjs            after npm run build; PJRT_DEVICE=CPU tries it anywhere, each process alone
import { spawn } from 'node:child_process';
import net from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const [WORLD, SECONDS] = [2, 300];
const rank = process.env.RANK;
await (rank === undefined ? parent() : child(Number(rank)));

/** Starts the processes and shows what they print. */
async function parent() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  const shared = {
    WORLD_SIZE: WORLD,
    TSXLA_COORDINATOR: `127.0.0.1:${port}`,
    TSXLA_RENDEZVOUS_TIMEOUT: 60,
    LOCAL_RANK: 0,
  };
  const codes = await Promise.all(
    Array.from({ length: WORLD }, (_, RANK) => {
      const env = { PJRT_DEVICE: 'CUDA', ...process.env, ...shared, RANK, NCCL_HOSTID: `machine ${RANK}` };
      const one = spawn(process.execPath, [fileURLToPath(import.meta.url)], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      for (const stream of [one.stdout, one.stderr])
        createInterface({ input: stream }).on('line', (line) => console.log(`[${RANK}] ${line}`));
      const timer = setTimeout(() => {
        console.log(`[${RANK}] not done after ${SECONDS} s: killed`);
        one.kill('SIGKILL');
      }, SECONDS * 1000);
      return new Promise((resolve) =>
        one.on('exit', (code, signal) => {
          clearTimeout(timer);
          resolve(signal ?? code);
        }),
      );
    }),
  );
  console.log(`exit: ${codes.join(', ')}`);
}

async function child(rank) {
  const tx = await import('../dist/index.js');
  const { defaultClient } = await import('../dist/runtime/value.js');
  const { Mesh, batchShare, fromLocal, processCount, processIndex } = tx.spmd;
  const start = performance.now();
  const seconds = () => `${((performance.now() - start) / 1e3).toFixed(1)} s`;
  const say = (what, value) => console.log(`${seconds().padStart(7)}  ${what}: ${value}`);
  /** A part that may fail; the next is tried all the same. */
  const attempt = async (what, run) =>
    say(
      what,
      await Promise.resolve()
        .then(run)
        .catch((e) => `${e.constructor.name}: ${e.message}`),
    );

  const client = await defaultClient();
  say('process', `${await processIndex()} of ${await processCount()} (pid ${process.pid})`);
  const ours = new Set(client.addressableDevices);
  for (const d of client.devices) say('device', `${d} of process ${d.processIndex}${ours.has(d) ? ', ours' : ''}`);

  const own = client.defaultDevice;
  await attempt(`a program on ${own}`, async () => {
    const text = `module @double { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = stablehlo.add %x, %x : tensor<4xf32>
      return %y : tensor<4xf32> } }`;
    const executable = await client.compile(text, { deviceIds: [own.id] });
    const x = client.bufferFromHost(Float32Array.of(1, 2, 3, rank), { dtype: 'f32', shape: [4] }, own);
    return [...(await executable.execute([x]).outputs[0].toHost())];
  });
  await attempt('tensors', async () => tx.arange(1000).add(rank).sum().item()); // 499500 + 1000 rank
  await attempt('a product', async () => {
    const x = tx.randn([512, 512]).to('bf16');
    return (await x.matmul(x.T).float().diagonal().mean().item()).toFixed(1); // near 512
  });

  const mesh = new Mesh([client.devices.length], ['data']);
  const rows = tx
    .arange(8)
    .reshape([4, 2])
    .add(8 * rank);
  let whole;
  await attempt('share of a batch', async () => JSON.stringify(await batchShare(mesh)));
  await attempt('rows of all', async () => {
    whole = await fromLocal(rows.float(), mesh);
    const { shards = [] } = whole.expr.record?.value ?? {};
    const parts = await Promise.all(shards.map(async (s) => `${s.device}: ${[...(await s.toHost())].join(' ')}`));
    return `[${whole.shape}]; here ${parts.join('; ')}`;
  });
  await attempt('their sum, a collective', async () => {
    const total = tx.compile((x) => x.sum());
    return (await total(whole)).item(); // 120
  });
  process.exit(0);
}
