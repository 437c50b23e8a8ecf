// What the docs site consists of, in its order: each page of docs/ has one place. A page's title is its first heading, unless
// the heading is too long for the sidebar.

export interface Entry {
  /** A file of the repository, or a page that is made when the site is built: 'api', 'cli'. */
  readonly page: string;
  readonly title?: string;
}
export interface Group {
  readonly title: string;
  readonly entries: readonly Entry[];
}
export interface Section {
  readonly title: string;
  /** What its pages are for, on the home page. */
  readonly text: string;
  readonly groups: readonly Group[];
}

/** 'steps' is docs/steps.md; 'steps: Title' gives it that title in the sidebar. */
const docs = (...names: readonly string[]): Entry[] =>
  names.map((name) => {
    const [page, title] = name.split(': ') as [string, string?];
    return { page: `docs/${page}.md`, ...(title && { title }) };
  });

export const CONTENTS: readonly Section[] = [
  {
    title: 'Tutorials',
    text: 'Programs to type along, from the first tensor to a recovered language model.',
    groups: [
      { title: 'Learn', entries: docs('install', 'getting-started', 'gpt', 'recover-qwen3') },
      { title: 'Coming from', entries: docs('from-pytorch', 'from-pytorch-xla', 'from-jax', 'ports: Eight ports') },
      {
        title: 'Programs',
        entries: [{ page: 'examples/README.md' }, { page: 'notebooks/README.md' }],
      },
    ],
  },
  {
    title: 'Guides',
    text: 'How to do one thing: load data, use many devices, find a NaN, export a model.',
    groups: [
      {
        title: 'Train',
        entries: docs(
          'data',
          'files',
          'checkpoints',
          'train',
          'lora',
          'quant',
          'kd-cache',
          'recovery-lora: Recovery LoRA',
        ),
      },
      { title: 'Models', entries: docs('models', 'qwen3', 'generation', 'export') },
      { title: 'Many devices', entries: docs('spmd', 'ray', 'tpu', 'plan') },
      {
        title: 'Machines',
        entries: docs(
          'recipes/README: Recipes',
          'recipes/colab: Google Colab',
          'recipes/kaggle: Kaggle',
          'recipes/tpu-vm: TPU VMs',
          'recipes/gke: GKE with KubeRay',
          'recipes/gpu: NVIDIA GPUs',
          'plugins',
        ),
      },
      {
        title: 'Watch and debug',
        entries: docs('recompiles', 'rules', 'lint', 'debug-nans', 'debugging', 'profiling', 'board: The board'),
      },
      { title: 'Below tensors', entries: docs('kernels', 'hlo', 'pjrt: PJRT') },
    ],
  },
  {
    title: 'Reference',
    text: 'Every name: functions, commands, variables, errors, metrics, and what differs from torch.',
    groups: [
      {
        title: 'Generated',
        entries: [
          { page: 'api', title: 'API' },
          { page: 'cli', title: 'Commands' },
        ],
      },
      {
        title: 'Library',
        entries: docs('tensors', 'nn', 'optim', 'attention', 'func', 'distributions', 'complex: Complex numbers, FFT'),
      },
      { title: 'Runtime', entries: docs('environment', 'errors', 'metrics') },
      {
        title: 'Compatibility',
        entries: docs(
          'compat: torch, name by name',
          'opinfo: Operator samples',
          'moduleinfo: Module cases',
          'optiminfo: Optimizer runs',
          'xm: tsxla/xm',
          "conformance: PyTorch/XLA's tests",
          "backend: TorchBridge's backend",
          'optimizer',
        ),
      },
    ],
  },
  {
    title: 'Explanation',
    text: 'Why it is fast, what happens to a step, and why things were decided as they are.',
    groups: [
      {
        title: 'How it works',
        entries: docs('how-it-works', 'steps', 'cache: The program cache', 'costs: Costs of a program'),
      },
      {
        title: 'The project',
        entries: [
          { page: 'CONTRIBUTING.md', title: 'Architecture and contributing' },
          ...docs('benchmarks', 'decisions'),
          { page: 'CHANGELOG.md' },
        ],
      },
    ],
  },
];
