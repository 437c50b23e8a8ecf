// Small programs as libtpu optimizes them, for tests that count in them: npx tsx scripts/golden/plan.ts (needs libtpu, no TPU)
// Run it with TPU_SKIP_MDS_QUERY=1 ALLOW_MULTIPLE_LIBTPU_LOAD=1.
import { mkdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import * as tx from 'tsxla';
import { Topology } from 'tsxla/pjrt';
import { findPlugin } from 'tsxla/plugins';

// Large enough that what is kept does not lie on the chip (128 MiB on a v6e).
const [N, B, D, T] = [8, 16384, 512, 256];

/** A stack of equal layers as a loop, its gradient another: products [B, D] x [D, D]. */
function scan(): string {
  const w = tx.zeros([N, D, D]).requiresGrad_();
  const train = tx.compile(function train(x: tx.Tensor) {
    tx.scan((h: tx.Tensor, w: tx.Tensor) => [h.matmul(w).tanh(), h.sum()], x.requiresGrad_(), w)[0]
      .sum()
      .backward();
    return [x.grad, w.grad];
  });
  return train.stablehlo([tx.zeros([B, D])], { platform: 'tpu' });
}

/** Scores of attention: B products [T, D] x [D, T]. */
const batched = () =>
  tx
    .compile((q: tx.Tensor, k: tx.Tensor) => q.matmul(k.transpose(1, 2)).softmax(-1))
    .stablehlo([tx.zeros([8, T, 64]), tx.zeros([8, T, 64])], { platform: 'tpu' });

/** The scores of a few tokens of a small vocabulary: a v5e gathers their rows by a product with ones and zeros. */
const lookup = () =>
  tx
    .compile((h: tx.Tensor, table: tx.Tensor, tokens: tx.Tensor) => {
      const rows = table.indexSelect(0, tokens.reshape([-1])).reshape([256, 192, 64]);
      return rows.float().mul(h.unsqueeze(1)).sum(-1);
    })
    .stablehlo([tx.zeros([256, 64]), tx.zeros([352, 64], { dtype: 'bf16' }), tx.zeros([256, 192], { dtype: 'i32' })], {
      platform: 'tpu',
    });

/** Fewer rows than groups: products of 32 rows, their gradient, and products of 30 rows. */
function grouped(): string {
  const grouped = tx.compile((x: tx.Tensor, few: tx.Tensor, w: tx.Tensor, ends: tx.Tensor) => {
    const y = tx.groupedMm(x, w, ends);
    return [y, tx.groupedMm(x.t(), y, ends), tx.groupedMm(few, w, ends)];
  });
  const [x, few] = [32, 30].map((rows) => tx.zeros([rows, D], { dtype: 'bf16' })) as [tx.Tensor, tx.Tensor];
  const w = tx.zeros([256, D, 2 * D], { dtype: 'bf16' });
  return grouped.stablehlo([x, few, w, tx.zeros([256], { dtype: 'i32' })], { platform: 'tpu' });
}

/** Two products over a mesh of 4x2: weights are gathered over x, sums of y are added. */
const spmd = () => `
module @spmd attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(
    %x: tensor<2048x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %w: tensor<1024x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %v: tensor<4096x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}
  ) -> (tensor<2048x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2048x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<2048x4096xbf16>
    %1 = stablehlo.tanh %0 : tensor<2048x4096xbf16>
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<2048x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<2048x1024xbf16>
    return %2 : tensor<2048x1024xbf16>
  }
}`;

/** Gradients of two weights that lie in parts: both are summed over all devices in one exchange, and each keeps its part. */
const scatter = () => `
module @scatter attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(
    %x: tensor<2048x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %g: tensor<2048x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}
  ) -> (tensor<512x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
        tensor<512x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<2048x512xbf16>, tensor<2048x512xbf16>) -> tensor<512x512xbf16>
    %1 = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] : (tensor<2048x512xbf16>, tensor<2048x256xbf16>) -> tensor<512x256xbf16>
    return %0, %1 : tensor<512x512xbf16>, tensor<512x256xbf16>
  }
}`;

/** A step over 8 devices, each with its own examples: the gradient of one weight is summed. */
function dataParallel(): string {
  const mesh = new tx.spmd.Mesh([8], ['data']);
  const model = tx.spmd.dataParallel(new tx.nn.Linear(D, D), mesh);
  const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
  const train = tx.compile((x: tx.Tensor) => {
    model.forward(x).square().mean().backward();
    optimizer.step();
    optimizer.zeroGrad();
  });
  return train.stablehlo([tx.spmd.shardBatch(tx.zeros([64, D]), mesh)], { platform: 'tpu' });
}

const PROGRAMS = {
  'v6e-scan': { topology: 'v6e:1x1', text: scan(), facts: { N, B, D } },
  'v6e-batched': { topology: 'v6e:1x1', text: batched(), facts: { B: 8, T, D: 64 } },
  'v5e-lookup': { topology: 'v5e:1x1', text: lookup(), facts: { rows: 256 * 192, table: 352, width: 64 } },
  'v6e-grouped': { topology: 'v6e:1x1', text: grouped(), facts: { N: 256, D } },
  'v6e-spmd': { topology: 'v6e:2x4', text: spmd(), facts: {} },
  'v6e-scatter': { topology: 'v6e:2x4', text: scatter(), facts: {} },
  'tpu7x-data': { topology: 'tpu7x:2x2x1', text: dataParallel(), facts: { D } },
};
const { path } = await findPlugin('tpu');
const folder = new URL('../../test/golden/plan/', import.meta.url);
mkdirSync(folder, { recursive: true });
for (const [name, { topology, text, facts }] of Object.entries(PROGRAMS)) {
  using devices = Topology.create(path, topology);
  using executable = await devices.compile(text);
  const [bytes, format] = await executable.optimizedProgram();
  const { flops, 'bytes accessed': accessed } = executable.cost();
  const told = { topology, format, memory: executable.memory(), cost: { flops, accessed }, facts };
  writeFileSync(new URL(`${name}.hlo.gz`, folder), gzipSync(bytes));
  writeFileSync(new URL(`${name}.json`, folder), `${JSON.stringify(told, null, 2)}\n`);
}
process.exit(0);
