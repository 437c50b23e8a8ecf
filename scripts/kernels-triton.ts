// Asks compilers for GPUs, without a GPU, to compile what src/kernels/triton.ts writes: the kernels of the tests and those that
// ship, for an H100.
//
//     npx tsx scripts/kernels-triton.ts [--keep FOLDER] [--xla PLUGIN]
//
// First Triton's own compiler, by Python: it verifies each module and makes machine code; the modules are kept in FOLDER. Then,
// with --xla, XLA's copy of Triton: PLUGIN is a CUDA plugin's library (npx tsxla plugins install cuda), which compiles the
// whole programs as it would for a user.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { Topology } from 'tsxla/pjrt';
import { CASES, type Case, called, headsCases } from '../test/kernels/cases.js';
import { triton } from '../test/kernels/forms.js';
import { pythonWith } from './python.js';

// Qwen3-0.6B's and Qwen3-8B's layers.
const shipping = [...headsCases('bf16', [4, 1024, 16, 8, 128]), ...headsCases('bf16', [1, 8192, 32, 8, 128])];
// Places beyond 2^31.
const large = headsCases('bf16', [64, 32768, 16, 8, 128]).slice(0, 2);
const cases = [...Object.values(CASES).flat(), ...shipping, ...large, ...headsCases('f32', [1, 20, 3, 1, 64])];

/** What Triton's compiler says of each; true: all are compiled. */
function byTriton(python: string, folder: string): boolean {
  cases.forEach((kernel, i) => {
    const { ir, warps, stages } = triton(kernel);
    fs.writeFileSync(path.join(folder, `${String(i).padStart(4, '0')}.${warps}.${stages}.ttir`), ir);
  });
  const out = execFileSync(python, [path.join(import.meta.dirname, 'kernels_triton.py'), folder], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = out.trim().split('\n');
  const [{ triton: version }, ...results] = lines.map((line) => JSON.parse(line));
  const failed = results.filter((r) => r.error);
  for (const r of failed) console.log(`${cases[Number(r.name)]!.name}: ${r.error}`);
  for (const r of results) {
    const kernel = cases[Number(r.name)]!;
    if (r.stack) console.log(`${kernel.name}: ${r.stack} bytes of a thread's values lie outside of its registers`);
    if (shipping.includes(kernel)) console.log(`${kernel.name}: ${r.registers} registers, ${r.shared} bytes shared`);
  }
  console.log(`Triton ${version}, sm_90: ${results.length - failed.length} of ${cases.length} kernels compiled`);
  return !failed.length && results.length === cases.length;
}

/** What XLA has to know of a GPU that is not here. */
const H100 = `gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448 shared_memory_per_core: 233472
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 l2_cache_size: 52428800
  memory_bandwidth: 3352320000000 device_memory_size: 84978434048 clock_rate_ghz: 1.98
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 } runtime_version { major: 12 minor: 8 }
device_description_str: "NVIDIA H100 80GB HBM3"`;

/** Whole programs by XLA. CUDA's assembler and its library of functions are those of Triton's wheel. */
async function byXla(plugin: string, python: string, folder: string): Promise<boolean> {
  const find = "import triton, os; print(os.path.dirname(triton.__file__) + '/backends/nvidia')";
  const tools = execFileSync(python, ['-c', find], { encoding: 'utf8' }).trim();
  const cuda = path.join(folder, 'cuda');
  fs.cpSync(path.join(tools, 'bin/ptxas'), path.join(cuda, 'bin/ptxas'));
  fs.cpSync(path.join(tools, 'lib/libdevice.10.bc'), path.join(cuda, 'nvvm/libdevice/libdevice.10.bc'));
  process.env['XLA_FLAGS'] = `--xla_gpu_cuda_data_dir=${cuda} --xla_gpu_autotune_level=0`;
  process.env['TSXLA_KERNELS'] = 'triton';
  using gpu = Topology.create(plugin, 'H100', { target_config: H100, topology: '1x1x1' });
  const failed: string[] = [];
  const programOf = (kernel: Case) =>
    tx.compile((...xs: tx.Tensor[]) => called(kernel, xs)).stablehlo([...kernel.operands], { platform: 'cuda' });
  for (const kernel of cases) {
    const text = programOf(kernel);
    if (!text.includes('__gpu$xla.gpu.triton')) failed.push(`${kernel.name}: is StableHLO`);
    else await gpu.compile(text).catch((e: Error) => failed.push(`${kernel.name}: ${e.message.slice(0, 500)}`));
  }
  for (const line of failed) console.log(line);
  console.log(`XLA (${gpu.devices[0]!.kind}): ${cases.length - failed.length} of ${cases.length} programs compiled`);
  return !failed.length;
}

const { values: args } = parseArgs({ options: { keep: { type: 'string' }, xla: { type: 'string' } } });
const folder = args.keep ?? fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-triton-'));
fs.mkdirSync(folder, { recursive: true });
const python = path.join(pythonWith('triton', path.join(import.meta.dirname, 'kernels-triton.txt')), 'bin/python');
const done = [byTriton(python, folder), args.xla === undefined || (await byXla(args.xla, python, folder))];
if (!args.keep) fs.rmSync(folder, { recursive: true });
process.exit(done.every(Boolean) ? 0 : 1);
