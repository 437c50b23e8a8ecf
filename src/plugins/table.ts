// The table of plugin libraries: which Python package ships each, and the exact wheels that are fetched.
import path from 'node:path';

export const DEVICE_TYPES = ['cpu', 'cuda', 'tpu', 'mps'] as const;
export type DeviceType = (typeof DEVICE_TYPES)[number];

/** One wheel, pinned. `pip` holds the tags to ask for, so that any python3 downloads this same file. */
export interface Wheel {
  readonly pip: {
    readonly platform: string;
    readonly python: string;
    readonly implementation: string;
    readonly abi: string;
  };
  readonly size: number;
  readonly sha256: string;
  readonly library: Pinned;
  /** Files that the library reads beside itself, by their names. They lie beside it in the wheel, too. */
  readonly beside?: Readonly<Record<string, Pinned>>;
}

/** What the content of a file must be. */
interface Pinned {
  readonly size: number;
  readonly sha256: string;
}

export interface PluginPackage {
  readonly device: DeviceType;
  readonly package: string;
  /** The library's path in the wheel, and so under site-packages. */
  readonly library: string;
  /** Present if tsxla fetches this package. Others are used in any version, if a Python environment has them. */
  readonly fetch?: { readonly version: string; readonly wheels: Readonly<Record<string, Wheel>> };
}

const anyPython = (platform: string) => ({ platform, python: '3.11', implementation: 'py', abi: 'none' });

export const PLUGINS: readonly PluginPackage[] = [
  {
    device: 'cpu',
    package: 'xla-cpu-pjrt',
    library: 'xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so',
    fetch: {
      version: '0.0.1',
      wheels: {
        'linux-x64': {
          pip: anyPython('manylinux_2_27_x86_64'),
          size: 63_461_052,
          sha256: '55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc',
          library: {
            size: 259_284_552,
            sha256: '88c3f28c5900f48ad4a82cab9e79bba9537809743395e341485f8794268820dc',
          },
        },
        'linux-arm64': {
          pip: anyPython('manylinux_2_27_aarch64'),
          size: 49_514_947,
          sha256: '8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9',
          library: {
            size: 200_328_224,
            sha256: 'fcf411f3e8ff635c2b2cf87215aa7016f460e66d236c3db08309e7486583532d',
          },
        },
      },
    },
  },
  {
    device: 'cuda',
    package: 'jax-cuda13-pjrt',
    library: 'jax_plugins/xla_cuda13/xla_cuda_plugin.so',
    fetch: {
      version: '0.11.2',
      wheels: {
        'linux-x64': {
          pip: anyPython('manylinux_2_27_x86_64'),
          size: 134_162_640,
          sha256: 'e5ff589d43064913bb74027682d89639c7ea48f9f81c2bae6fc75117e913f93e',
          library: {
            size: 411_465_856,
            sha256: '43d3efd6fd43d8a5d9aa67176e830d81e4ad5fc19fda4ad09cdcc4aebd9f3920',
          },
        },
      },
    },
  },
  { device: 'cuda', package: 'xla-cuda13-pjrt', library: 'xla_plugins/xla_cuda13_pjrt/xla_gpu_pjrt.so' },
  { device: 'cuda', package: 'jax-cuda12-pjrt', library: 'jax_plugins/xla_cuda12/xla_cuda_plugin.so' },
  { device: 'cuda', package: 'xla-cuda12-pjrt', library: 'xla_plugins/xla_cuda12_pjrt/xla_gpu_pjrt.so' },
  {
    device: 'tpu',
    package: 'libtpu',
    library: 'libtpu/libtpu.so',
    fetch: {
      version: '0.0.51',
      wheels: {
        'linux-x64': {
          pip: { platform: 'manylinux_2_31_x86_64', python: '3.11', implementation: 'cp', abi: 'cp311' },
          size: 204_805_508,
          sha256: 'ba67ddbfdbac61c8da1fafc26cd51b93e9fe4d298016e2882eb986b1718cba34',
          library: {
            size: 574_812_664,
            sha256: 'ad0b2a3bc5d4de96f653b3701aaed8769a691776ca0e14c791dcdca785d43e42',
          },
        },
      },
    },
  },
  {
    // Apple GPUs: macOS 14 or later on arm64. StableHLO through MLX, whose Metal kernels lie beside the library.
    device: 'mps',
    package: 'jax-mps',
    library: 'jax_plugins/mps/lib/libpjrt_plugin_mps.dylib',
    fetch: {
      version: '0.11.1',
      wheels: {
        'darwin-arm64': {
          pip: { platform: 'macosx_14_0_arm64', python: '3.12', implementation: 'py', abi: 'none' },
          size: 44_734_365,
          sha256: 'defef43da225b50689e72300f33772610003189377cc09b0acb0f9a1364d4e2a',
          library: {
            size: 31_820_024,
            sha256: 'a0452ba826bfc89904b3776ec7b92ca52328976a1c38c70f95f979dd5ebd7a02',
          },
          beside: {
            'mlx.metallib': {
              size: 130_164_152,
              sha256: 'f0c9a5ca57470c56195e3c8a9d3c61464970583cc5876a8349ac6bf424943d67',
            },
          },
        },
      },
    },
  },
];

/** A package, its version and the wheel for one platform: all that is needed to fetch a plugin. */
export interface Fetchable {
  readonly device: DeviceType;
  readonly package: string;
  readonly version: string;
  readonly platform: string;
  readonly member: string;
  readonly wheel: Wheel;
}

/** The package to fetch for a device on a platform, if there is one. */
export function fetchable(device: DeviceType, platform: string): Fetchable | undefined {
  for (const p of PLUGINS) {
    const wheel = p.fetch?.wheels[platform];
    if (p.device !== device || !p.fetch || !wheel) continue;
    return { device, package: p.package, version: p.fetch.version, platform, member: p.library, wheel };
  }
  return undefined;
}

/** The file name of a package's library. */
export const libraryName = ({ member }: Pick<Fetchable, 'member'>): string => path.basename(member);

/** The environment variable with the path of a device's library. */
export const variableOf = (device: DeviceType): string => `TSXLA_PLUGIN_${device.toUpperCase()}`;
