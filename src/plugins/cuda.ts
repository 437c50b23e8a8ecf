// Finds the NVIDIA libraries and compiler tools that the CUDA plugin needs on this machine.
import { execFile } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { env } from '../base/env.js';
import { sitePackages } from './python.js';

interface CudaFile {
  readonly soname: string;
  readonly package: string; // pip's name for it
  readonly folder: string; // under nvidia/ in site-packages
  readonly optional?: true; // loaded if found; today's plugins run without it
}

/** `names` may hold several files of one package and folder. */
const row = (names: string, pkg: string, folder: string, optional?: true): CudaFile[] =>
  names.split(' ').map((soname) => ({ soname, package: pkg, folder, ...(optional && { optional }) }));

// In the order they must be loaded: nvJitLink before cusparse and cusolver, cublasLt before cublas, nvrtc before cudnn.
const LIBRARIES: Record<12 | 13, readonly CudaFile[]> = {
  13: [
    ...row('libcudart.so.13', 'nvidia-cuda-runtime', 'cu13'),
    ...row('libnvJitLink.so.13', 'nvidia-nvjitlink', 'cu13', true),
    ...row('libnvrtc.so.13', 'nvidia-cuda-nvrtc', 'cu13'),
    ...row('libcublasLt.so.13 libcublas.so.13', 'nvidia-cublas', 'cu13'),
    ...row('libcusparse.so.12', 'nvidia-cusparse', 'cu13', true),
    ...row('libcusolver.so.12', 'nvidia-cusolver', 'cu13', true),
    ...row('libcufft.so.12', 'nvidia-cufft', 'cu13'),
    ...row('libcupti.so.13', 'nvidia-cuda-cupti', 'cu13'),
    ...row('libnccl.so.2', 'nvidia-nccl-cu13', 'nccl'),
    ...row('libcudnn.so.9', 'nvidia-cudnn-cu13', 'cudnn'),
    ...row('libnvshmem_host.so.3', 'nvidia-nvshmem-cu13', 'nvshmem', true),
  ],
  12: [
    ...row('libcudart.so.12', 'nvidia-cuda-runtime-cu12', 'cuda_runtime'),
    ...row('libnvJitLink.so.12', 'nvidia-nvjitlink-cu12', 'nvjitlink'),
    ...row('libnvrtc.so.12', 'nvidia-cuda-nvrtc-cu12', 'cuda_nvrtc'),
    ...row('libcublasLt.so.12 libcublas.so.12', 'nvidia-cublas-cu12', 'cublas'),
    ...row('libcusparse.so.12', 'nvidia-cusparse-cu12', 'cusparse', true),
    ...row('libcusolver.so.11', 'nvidia-cusolver-cu12', 'cusolver', true),
    ...row('libcufft.so.11', 'nvidia-cufft-cu12', 'cufft'),
    ...row('libcupti.so.12', 'nvidia-cuda-cupti-cu12', 'cuda_cupti'),
    ...row('libnccl.so.2', 'nvidia-nccl-cu12', 'nccl'),
    ...row('libcudnn.so.9', 'nvidia-cudnn-cu12', 'cudnn'),
    ...row('libnvshmem_host.so.3', 'nvidia-nvshmem-cu12', 'nvshmem', true),
  ],
};

// XLA runs ptxas on the code it makes and links libdevice into it; without them nothing compiles.
const TOOLS: Record<12 | 13, readonly CudaFile[]> = {
  13: [
    ...row('bin/ptxas bin/nvlink', 'nvidia-cuda-nvcc', 'cu13'),
    ...row('nvvm/libdevice/libdevice.10.bc', 'nvidia-nvvm', 'cu13'),
  ],
  12: row('bin/ptxas nvvm/libdevice/libdevice.10.bc', 'nvidia-cuda-nvcc-cu12', 'cuda_nvcc'),
};

const DRIVER: CudaFile = { soname: 'libcuda.so.1', package: 'the NVIDIA driver', folder: '' };
const DRIVER_DIRS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/local/nvidia/lib64', '/usr/lib/wsl/lib'];

export interface CudaLibraries {
  readonly found: readonly { readonly soname: string; readonly path: string }[];
  readonly missing: readonly { readonly soname: string; readonly package: string }[];
  /** Libraries the plugin would not find by itself: load these paths, in this order, before the plugin. */
  readonly preload: readonly string[];
  /** The folder with bin/ptxas and nvvm/libdevice, for XLA's option xla_gpu_cuda_data_dir. */
  readonly dataDir?: string;
}

/**
 * Locates each library the CUDA plugin needs. Missing ones must be found out before the plugin is loaded: it opens them on
 * first use, and a missing library ends the process.
 */
export async function findCudaLibraries(pluginPath: string): Promise<CudaLibraries> {
  const runpath = runpathOf(pluginPath);
  const major = runpath.some((dir) => dir.includes('nvidia/cuda_runtime')) ? 12 : 13;
  const sites = await sitePackages();
  const cached = await loaderCache();
  const libraryPath = (env('LD_LIBRARY_PATH') ?? '').split(':').filter(Boolean);
  const toolkits = installedToolkits(major);
  const locate = ({ soname, folder }: CudaFile): { path: string; reachable: boolean } | undefined => {
    const inside = (dirs: string[]) => dirs.map((dir) => path.join(dir, soname)).find((file) => existsSync(file));
    const candidates: [file: string | undefined, reachable: boolean][] = [
      [inside(runpath), true],
      [folder ? inside(sites.map((site) => path.join(site, 'nvidia', folder, 'lib'))) : undefined, false],
      [inside(libraryPath), true],
      [cached.get(soname), true],
      [inside(toolkits.map((toolkit) => path.join(toolkit, 'lib64'))), false],
      [soname === DRIVER.soname ? inside(DRIVER_DIRS) : undefined, false],
    ];
    for (const [file, reachable] of candidates) if (file) return { path: file, reachable };
    return undefined;
  };

  const located = [DRIVER, ...LIBRARIES[major]].map((file) => ({ ...file, at: locate(file) }));
  const candidates = [
    ...runpath.map((dir) => path.dirname(dir)),
    ...sites.map((site) => path.join(site, 'nvidia', TOOLS[major][0]!.folder)),
    ...toolkits,
    ...(env('PATH') ?? '').split(':').map((dir) => path.dirname(dir)), // XLA looks here too; conda installs here
  ];
  const has = (root: string, tool: CudaFile) => existsSync(path.join(root, tool.soname));
  const dataDir = candidates.find((root) => TOOLS[major].every((tool) => has(root, tool)));
  const lacking = dataDir ? [] : TOOLS[major].filter((tool) => !candidates.some((root) => has(root, tool)));
  return {
    found: located.flatMap(({ soname, at }) => (at ? [{ soname, path: at.path }] : [])),
    missing: [...located.filter((file) => !file.at && !file.optional), ...lacking].map(({ soname, package: pkg }) => ({
      soname,
      package: pkg,
    })),
    preload: located.flatMap(({ at }) => (at && !at.reachable ? [at.path] : [])),
    ...(dataDir && { dataDir }),
  };
}

/** What is missing and the command that installs it; undefined if nothing is. */
export function cudaMissing({ missing }: Pick<CudaLibraries, 'missing'>): string | undefined {
  if (!missing.length) return undefined;
  const driver = missing.some((m) => m.package === DRIVER.package);
  const packages = new Set(missing.map((m) => m.package).filter((name) => name !== DRIVER.package));
  const sentences = [`the CUDA plugin needs ${missing.map((m) => m.soname).join(', ')}: not found on this machine.`];
  if (driver) {
    sentences.push('libcuda.so.1 comes with the NVIDIA driver (apt-get install nvidia-driver-580; it needs a GPU).');
  }
  if (packages.size) {
    sentences.push(`Install ${driver ? 'the rest' : 'them'} with: python3 -m pip install ${[...packages].join(' ')}`);
  }
  return sentences.join(' ');
}

/** A library's own search path (RUNPATH). It is among the first strings of the file, so reading its first bytes is enough. */
function runpathOf(file: string): string[] {
  const head = Buffer.alloc(1 << 20);
  const fd = openSync(file, 'r');
  try {
    readSync(fd, head);
  } finally {
    closeSync(fd);
  }
  const list = /\$ORIGIN[^\0]*/.exec(head.toString('latin1'))?.[0].split(':') ?? [];
  return [...new Set(list.map((dir) => path.normalize(dir.replace('$ORIGIN', path.dirname(file)))))];
}

/** Library names known to the system's loader, with their files. */
async function loaderCache(): Promise<Map<string, string>> {
  const known = new Map<string, string>();
  for (const ldconfig of ['ldconfig', '/sbin/ldconfig']) {
    try {
      const { stdout } = await promisify(execFile)(ldconfig, ['-p'], { maxBuffer: 1 << 24 });
      for (const [, name, file] of stdout.matchAll(/^\s+(\S+) \(libc6,[^)]*64[^)]*\) => (.+)$/gm)) {
        if (!known.has(name!) && existsSync(file!)) known.set(name!, file!);
      }
      break;
    } catch {
      // Not on PATH for ordinary users of some systems, and absent from others.
    }
  }
  return known;
}

function installedToolkits(major: 12 | 13): string[] {
  const names = existsSync('/usr/local') ? readdirSync('/usr/local') : [];
  return names
    .filter((name) => name === 'cuda' || new RegExp(`^cuda-${major}\\b`).test(name))
    .sort()
    .map((name) => path.join('/usr/local', name));
}
