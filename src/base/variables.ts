// Every environment variable that tsxla reads, in one table: docs/environment.md is made of it (npx tsx scripts/environment.ts),
// and test/environment.test.ts compares it with the source. Who reads them: base/env.ts, and Ray's driver.

export interface Variable {
  /** What it does, and what it may be. */
  readonly text: string;
  /** Where it is unset. */
  readonly default?: string;
  /** The page under docs/ that has more, with its anchor. */
  readonly page?: string;
}

// biome-ignore format: a table
export const VARIABLES: Readonly<Record<string, Readonly<Record<string, Variable>>>> = {
  'Devices and plugins': {
    PJRT_DEVICE: { text: 'the device to compute on: `CPU`, `CUDA` or `TPU`', default: 'a TPU if there is one, else a GPU, else the CPU', page: 'plugins.md#which-one-is-used' },
    CPU_NUM_DEVICES: { text: 'how many virtual devices the CPU has, to try programs for many devices', default: '1', page: 'spmd.md' },
    CUDA_VISIBLE_DEVICES: { text: "NVIDIA's own: the GPUs that this process uses; empty or -1: none" },
    TSXLA_PLUGIN_CPU: { text: 'the path of a plugin library for the CPU', page: 'plugins.md#which-one-is-used' },
    TSXLA_PLUGIN_CUDA: { text: 'the same for NVIDIA GPUs', page: 'plugins.md#which-one-is-used' },
    TSXLA_PLUGIN_TPU: { text: 'the same for TPUs', page: 'plugins.md#which-one-is-used' },
    TSXLA_PLUGIN_MPS: { text: 'the same for Apple GPUs', page: 'plugins.md#which-one-is-used' },
    VIRTUAL_ENV: { text: 'a Python environment in which plugins are looked for', page: 'plugins.md#which-one-is-used' },
    TPU_ACCELERATOR_TYPE: { text: "Cloud TPU's own: the slice (`v5litepod-16`), of which the TPU backend reads the generation", page: 'backend.md' },
    XLA_FLAGS: { text: "XLA's flags, or a file with them", page: 'pjrt.md#options' },
    LIBTPU_INIT_ARGS: { text: "libtpu's flags; part of a cached program's key", page: 'cache.md#the-cache-key' },
    TPU_MEGACORE: { text: "libtpu's own; part of a cached program's key", page: 'cache.md#the-cache-key' },
    TF_CPP_MIN_LOG_LEVEL: { text: "the lowest level of XLA's own log: 0 logs everything", default: '2, errors' },
    LD_LIBRARY_PATH: { text: "where NVIDIA's libraries are looked for, beside their npm and Python packages" },
    PATH: { text: 'where `python3` is looked for' },
  },
  'Caches and memory': {
    TSXLA_CACHE: { text: 'compiled programs on disk: `on`, `readonly` or `off`', default: '`on`', page: 'cache.md' },
    TSXLA_CACHE_SIZE: { text: 'the most that they may take: `500MB`, `2GiB`', default: '`10GiB`', page: 'cache.md' },
    TSXLA_CACHE_DIR: { text: 'the folder for plugins, programs and other things that are kept between runs', default: '`tsxla` in XDG_CACHE_HOME' },
    XDG_CACHE_HOME: { text: "the user's folder for caches", default: '`~/.cache`' },
    XLA_PERSISTENT_CACHE_PATH: { text: 'the folder of compiled programs', default: '`programs` in TSXLA_CACHE_DIR', page: 'cache.md' },
    XLA_PERSISTENT_CACHE_READ_ONLY: { text: '1: as `TSXLA_CACHE=readonly`', page: 'cache.md' },
    XLA_COMPILATION_CACHE_SIZE: { text: 'how many programs are kept in memory', default: '2048', page: 'steps.md#memory' },
    TSXLA_PROGRAM_MEMORY: { text: 'the most bytes that programs in memory may take', default: '4 GiB', page: 'steps.md#memory' },
    TSXLA_MEMORY_CHECK: { text: '`off`: a program that is larger than the device is tried all the same', page: 'steps.md#memory' },
    TSXLA_COMPILE_TIMEOUT: { text: 'seconds that a step waits for a compile before it throws a CompileTimeoutError', default: 'no limit', page: 'steps.md#compile-and-step' },
  },
  'What is computed': {
    TSXLA_ATTENTION: { text: '`plain`, a number of queries at a time, or `auto`', default: '`auto`', page: 'attention.md#four-forms' },
    TSXLA_KERNELS: { text: 'which kernels for GPUs are used: names, separated by commas', default: 'none', page: 'kernels.md#on-a-gpu' },
  },
  'Logs and debugging': {
    TSXLA_LOG: { text: '`debug`: what a run is set up on; `quiet`: no notices', page: 'debugging.md' },
    TSXLA_RULES: { text: 'development rules: `warn`, `error`, `off`, or `warn,-reads` without some', default: '`warn`', page: 'rules.md' },
    TSXLA_DEBUG_NANS: { text: '1: a NaN or an infinity is an error that names its operation; `nan`: NaN only', page: 'debug-nans.md' },
    TSXLA_SOURCES: { text: '0: no lines of your code are captured, and messages name none', page: 'debugging.md' },
    XLA_IR_DEBUG: { text: '1: graphs say where each operation was made', page: 'debugging.md#xla_save_tensors_file' },
    XLA_HLO_DEBUG: { text: "1: your lines are in XLA's programs and in profiles", page: 'debugging.md#xla_save_tensors_file' },
    XLA_SAVE_TENSORS_FILE: { text: 'append the graph of each program that is compiled or run to this file', page: 'debugging.md#xla_save_tensors_file' },
    XLA_SAVE_TENSORS_FMT: { text: 'its format: `text`, `dot`, `stablehlo` or `hlo`', default: '`text`', page: 'debugging.md#xla_save_tensors_file' },
    PT_XLA_DEBUG: { text: "1: PyTorch/XLA's analysis of each compile and run", page: 'metrics.md#pt_xla_debug' },
    PT_XLA_DEBUG_LEVEL: { text: '0: nothing; 1: compiles and the analysis; 2: runs, too', page: 'metrics.md#environment' },
    PT_XLA_DEBUG_FILE: { text: 'the file to append it to', default: 'stderr', page: 'metrics.md#environment' },
    PT_XLA_DEBUG_MAX_FRAME: { text: 'how many frames of the stack it shows', default: '8', page: 'metrics.md#environment' },
    XLA_METRICS_FILE: { text: 'append the report of each step to this file, or `STDERR`, `STDOUT`', page: 'metrics.md#environment' },
    XLA_METRICS_SAMPLES: { text: 'how many samples of each metric are kept', default: '1024', page: 'metrics.md#environment' },
    XLA_METRICS_PERCENTILES: { text: 'the percentiles of the report: `0.5:0.9`', default: '`0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99`', page: 'metrics.md#environment' },
    TSXLA_LOG_LEVEL: { text: "the lowest level of the TPU backend's log", default: '`warning`', page: 'backend.md#troubleshooting' },
    TSXLA_LOG_FORMAT: { text: 'its format: `pretty` or `json`', default: '`pretty`', page: 'backend.md#troubleshooting' },
  },
  'Many devices and processes': {
    RANK: { text: 'the number of this process, from 0', default: '0', page: 'spmd.md#several-processes' },
    WORLD_SIZE: { text: 'how many processes there are', default: '1', page: 'spmd.md#several-processes' },
    LOCAL_RANK: { text: 'the number of this process on its machine: the GPU that it has', page: 'spmd.md#several-processes' },
    LOCAL_WORLD_SIZE: { text: 'how many processes this machine has', page: 'spmd.md#several-processes' },
    MASTER_ADDR: { text: 'the machine of process 0', page: 'spmd.md#several-processes' },
    MASTER_PORT: { text: 'the port of process 0', page: 'spmd.md#several-processes' },
    TSXLA_COORDINATOR: { text: 'both as host:port, where the port of MASTER_ADDR is taken', page: 'spmd.md#several-processes' },
    JAX_COORDINATOR_ADDRESS: { text: 'the same, as JAX names it', page: 'spmd.md#several-processes' },
    TSXLA_RENDEZVOUS_TOKEN: { text: 'a secret that all processes have, so that no other joins', page: 'spmd.md#several-processes' },
    TSXLA_RENDEZVOUS_TIMEOUT: { text: 'seconds in which all processes have to come', default: '300', page: 'spmd.md#several-processes' },
    PJRT_LOCAL_PROCESS_RANK: { text: 'the number of this process; only process 0 logs', default: '0', page: 'xm.md' },
    PJRT_LOCAL_PROCESS_COUNT: { text: 'how many processes there are, for `xm.worldSize()`', default: '1', page: 'xm.md' },
    TPU_WORKER_ID: { text: "Cloud TPU's own: the number of this host in its slice", page: 'tpu.md#3-rent-and-run' },
    TPU_WORKER_HOSTNAMES: { text: "Cloud TPU's own: the hosts of the slice", page: 'tpu.md#3-rent-and-run' },
    TPU_NAME: { text: "Cloud TPU's own: the name of the slice, by which Ray's workers are grouped", page: 'ray.md#environment-of-a-worker' },
    XLA_USE_SPMD: { text: '1: training runs make a mesh of all devices', page: 'spmd.md#from-configuration' },
    XLA_MESH_SHAPE: { text: 'the shape of the mesh: `2,4`', page: 'spmd.md#from-configuration' },
    XLA_DATA_PARALLEL_SIZE: { text: 'the size of its axis `data`', page: 'spmd.md#from-configuration' },
    XLA_FSDP_SIZE: { text: 'of `fsdp`', page: 'spmd.md#from-configuration' },
    XLA_MODEL_PARALLEL_SIZE: { text: 'of `model`', page: 'spmd.md#from-configuration' },
    XLA_SEQUENCE_PARALLEL_SIZE: { text: 'of `sequence`', page: 'spmd.md#from-configuration' },
  },
  'Ray': {
    RAY_ADDRESS: { text: 'the address of a Ray cluster; without it TorchTrainer runs on this machine', page: 'ray.md' },
    RAY_API_SERVER_ADDRESS: { text: "the same, as Ray's job client names it; it comes first", page: 'ray.md' },
    RAY_AUTH_TOKEN: { text: 'the token of a cluster that asks for one', page: 'ray.md' },
    RAY_JOB_STOP_WAIT_TIME_S: { text: "Ray's own: seconds that a stopped job has to end", default: '3', page: 'ray.md#when-something-goes-wrong' },
  },
  'The Hugging Face hub': {
    HF_TOKEN: { text: 'the token for private and gated repositories', page: 'files.md#the-hub' },
    HF_TOKEN_PATH: { text: 'a file with the token', default: '`token` in HF_HOME', page: 'files.md#the-hub' },
    HF_ENDPOINT: { text: 'a mirror of the hub', default: '`https://huggingface.co`', page: 'files.md#the-hub' },
    HF_HUB_OFFLINE: { text: '1: nothing is fetched', page: 'files.md#the-hub' },
    HF_HOME: { text: "the hub's folder", default: '`huggingface` in XDG_CACHE_HOME', page: 'files.md#the-hub' },
    HF_HUB_CACHE: { text: 'the cache of repositories', default: '`hub` in HF_HOME', page: 'files.md#the-hub' },
    HUGGINGFACE_HUB_CACHE: { text: 'the same by its former name', page: 'files.md#the-hub' },
  },
  'The TPU backend': {
    TSXLA_BACKEND_MODE: { text: '`inference`, `training` or `development`', default: '`training`', page: 'backend.md#configuration' },
  },
};

/** Variables that tsxla sets for its own processes. They are not for users. */
export const INTERNAL = [
  'TSXLA_ATTEMPT',
  'TSXLA_GLOO',
  'TSXLA_RAY',
  'TSXLA_RECOVERY',
  'TSXLA_TRAIN_SPEC',
  'TSXLA_TRAIN_WORKER',
  'TSXLA_TRAIN_WORKERS',
  'TSXLA_WORKER_ENV',
] as const;
