// The pages of docs whose blocks of TypeScript are programs: what each takes for granted, and how its blocks become one program.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { golden, goldenPath } from './support.js';

export const root = path.join(import.meta.dirname, '..');
export const read = (file: string): string => fs.readFileSync(path.join(root, file), 'utf8');

/** What a page takes for granted: names, and files. */
export interface Given {
  readonly code?: string;
  /** A page to type along: each block has the names of all before it. */
  readonly joined?: true;
  readonly files?: (folder: string) => void | Promise<void>;
  /** Variables of its process, which it then has for itself. */
  readonly env?: Readonly<Record<string, string>>;
  /** It changes or counts something that all of a process share. */
  readonly alone?: true;
  /** Blocks that are checked by their types but not run: a pattern of each, and what it needs. */
  readonly unrun?: readonly (readonly [block: RegExp, needs: string])[];
}
const tiny = goldenPath('qwen3/tied');
/** A small model in the place where the hub's cache has the one that pages speak of. */
export const hub = (folder: string, name = 'Qwen/Qwen3-0.6B'): string => {
  const model = path.join(folder, 'hub', `models--${name.replace('/', '--')}`);
  const commit = '0'.repeat(40);
  fs.mkdirSync(path.join(model, 'refs'), { recursive: true });
  fs.writeFileSync(path.join(model, 'refs/main'), commit);
  const snapshot = path.join(model, 'snapshots', commit);
  fs.cpSync(tiny, snapshot, { recursive: true });
  const config = fs.readFileSync(path.join(snapshot, 'config.json'), 'utf8');
  const long = config.replace('"max_position_embeddings": 256', '"max_position_embeddings": 4096');
  fs.writeFileSync(path.join(snapshot, 'config.json'), long.replace('bfloat16', 'float32')); // which a CPU compiles faster
  return snapshot;
};
/** The same of the dataset that they speak of. */
export const wikitext = (folder: string): void => {
  const set = path.join(folder, 'hub/datasets--Salesforce--wikitext');
  const commit = '0'.repeat(40);
  fs.mkdirSync(path.join(set, 'refs'), { recursive: true });
  fs.writeFileSync(path.join(set, 'refs/main'), commit);
  const shard = path.join(set, 'snapshots', commit, 'wikitext-103-raw-v1/train-00000-of-00002.parquet');
  fs.cpSync(goldenPath('parquet/snappy.parquet'), shard);
};

export const TEXT = Array.from({ length: 40 }, (_, i) => `the fox ${'jumps over '.repeat(1 + (i % 5))}a lazy dog`).join(
  '\n\n',
);
/** A student, a cache of what its teacher says, and text. */
export const recovery = async (folder: string): Promise<void> => {
  fs.writeFileSync(path.join(folder, 'valid.txt'), TEXT);
  const teacher = hub(folder);
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(teacher, { dtype: 'f32' });
  await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 2 } });
  await tx.recovery.saveStudent(path.join(folder, 'student'), model);
  const sizes = { sequenceLength: 16, topK: 5, negatives: 4, sequences: 32 };
  await tx.distill.writeKDCache(path.join(folder, 'cache'), {
    teacher,
    data: path.join(folder, 'valid.txt'),
    ...sizes,
  });
};

export const PAGES: Readonly<Record<string, Given>> = {
  attention: {},
  backend: {
    code: `
      const [data, sampleInput, sampleInputs, inputs] = [tx.zeros([32, 512]), tx.randn([32, 512]), tx.randn([32, 512]), tx.zeros([32, 500])];
      const invalidInputs = 'no tensor';
      const tensor = tx.zeros([4]);
      const yourModel = new tx.nn.Linear(8, 8);
      const compiler = new tx.backend.XLACompiler();
      const dataloader = [[tx.randn([8, 784]), tx.randint(0, 10, [8])]] as [tx.Tensor, tx.Tensor][];
    `,
  },
  board: {},
  cache: { env: { TSXLA_CACHE: 'on', XLA_PERSISTENT_CACHE_PATH: 'programs' } },
  checkpoints: { env: { CPU_NUM_DEVICES: '8' } },
  costs: { code: `const text = ${JSON.stringify(golden('mlir/matmul.mlir'))};`, unrun: [[/compileAhead\(/, 'libtpu']] },
  data: {
    code: `const tokenize = (text: string) => [...text].map((c) => c.charCodeAt(0));`,
    files: (folder) => {
      const lines = Array.from({ length: 40 }, (_, i) => JSON.stringify({ text: 'tokens '.repeat(1 + i) }));
      fs.writeFileSync(path.join(folder, 'train.jsonl'), lines.join('\n'));
      wikitext(folder);
    },
  },
  files: {
    files: (folder) => {
      hub(folder);
      wikitext(folder);
      fs.copyFileSync(goldenPath('io/checkpoint.pt'), path.join(folder, 'checkpoint.pt'));
    },
  },
  complex: {},
  'debug-nans': {},
  debugging: {},
  distributions: {},
  errors: {},
  'from-jax': { joined: true },
  'from-pytorch': { joined: true },
  'from-pytorch-xla': { joined: true },
  func: {},
  generation: {
    files: (folder) => void hub(folder),
    code: `
      const model = await tx.models.Qwen3ForCausalLM.fromPretrained('Qwen/Qwen3-0.6B', { dtype: 'f32' });
      const [small, prompts] = [model, ['the fox', 'a dog']];
    `,
  },
  gpt: { joined: true },
  'how-it-works': { joined: true },
  'kd-cache': {
    code: `const student = await tx.models.Qwen3ForCausalLM.fromPretrained('Qwen/Qwen3-0.6B', { dtype: 'f32' });`,
    files: async (folder) => {
      const teacher = hub(folder);
      const data = path.join(folder, 'train.txt');
      fs.writeFileSync(data, `${TEXT}\n\n`.repeat(20));
      const sizes = { sequenceLength: 1024, topK: 128, negatives: 64, sequences: 4 };
      await tx.distill.writeKDCache(path.join(folder, 'cache'), { teacher, data, ...sizes });
    },
  },
  kernels: {},
  lora: {
    code: `
      const student = await tx.models.Qwen3ForCausalLM.fromPretrained(${JSON.stringify(tiny)}, { dtype: 'f32' });
      const [L, ids, attentionMask] = [8, tx.zeros([2, 8], { dtype: 'i32' }), tx.ones([2, 8])];
      const [topkIdx, randIdx] = [tx.randint(0, 200, [2, 7, 5]), tx.randint(0, 200, [2, 7, 3])];
      const [topkLogits, randLogits] = [tx.randn(2, 7, 5), tx.randn(2, 7, 3)];
    `,
  },
  metrics: {},
  models: { files: (folder) => void hub(folder, 'HuggingFaceTB/SmolLM2-135M') },
  nn: {},
  optimizer: {},
  pjrt: {
    code: `const [rank, world, host, port, timeout, path] = [0, 2, '127.0.0.1', 29500, 60, ''];
      const text = ${JSON.stringify(golden('mlir/spmd.mlir'))};`,
    unrun: [
      [/KeyValueStore/, 'several processes'],
      [/compileAhead\(/, 'libtpu'],
    ],
  },
  plan: { unrun: [[/tx\.plan\(/, 'libtpu']] },
  profiling: { env: { TSXLA_LOG: 'quiet' } },
  quant: {
    files: async (folder) => {
      await recovery(folder);
      const model = await tx.models.Qwen3ForCausalLM.fromPretrained(tiny, { dtype: 'f32' });
      tx.lora.addLora(model, { rank: 2 });
      await tx.lora.saveAdapters(model, path.join(folder, 'adapters'));
      fs.writeFileSync(path.join(folder, 'wiki.test.txt'), `${TEXT}\n\n`.repeat(4));
    },
  },
  ray: {
    code: `
      import { Checkpoint, getDatasetShard, rayDataset, type RayShard, report, TorchTrainer } from 'tsxla/train';
      interface Row { readonly x: number; readonly y: number }
      const [done, epochs, model] = [0, 2, new tx.nn.Linear(1, 1)];
      const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
      const train = async (_x: readonly unknown[], _y: readonly unknown[]) => {};
    `,
    unrun: [[/rayDataset/, 'a cluster']],
  },
  recompiles: { joined: true },
  'recover-qwen3': {
    files: (folder) => {
      hub(folder);
      fs.writeFileSync(path.join(folder, 'train.txt'), TEXT);
    },
  },
  'recovery-lora': { files: recovery },
  optim: { code: `const labels = tx.zeros([64], { dtype: 'i64' });` },
  qwen3: {
    code: `const folder = ${JSON.stringify(tiny)}; const ids = tx.zeros([2, 16], { dtype: 'i32' });`,
    files: (folder) => void hub(folder),
  },
  rules: { alone: true },
  spmd: { env: { CPU_NUM_DEVICES: '8' } },
  steps: {
    code: `
      const [x, y] = [tx.ones([32, 16]), tx.zeros([32, 1])];
      const parameters = [tx.zeros([1024, 1], { requiresGrad: true })];
      const lossOf = (x: tx.Tensor, y: tx.Tensor) => tx.mseLoss(x.matmul(parameters[0]!).squeeze(1), y);
      const update = (all: readonly tx.Tensor[]) => tx.noGrad(() => { for (const p of all) p.sub_(p.grad!.mul(0.1)); });
    `,
  },
  tensors: {},
  train: { env: { CPU_NUM_DEVICES: '4' } },
  xm: {
    code: `
      const model = new tx.nn.Linear(4, 1);
      const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
      const criterion = tx.mseLoss;
      const batches = [[tx.ones([2, 4]), tx.zeros([2, 1])]] as [tx.Tensor, tx.Tensor][];
    `,
  },
};

/** The blocks of a page, and the names of those that are files: they begin with their name. */
const nameOf = (block: string): string | undefined => /^\/\/ (\S+\.[jt]s)\n/.exec(block)?.[1];
export const blocksOf = (text: string): string[] => [...text.matchAll(/^```(?:ts|js)\n(.*?)^```/gms)].map((m) => m[1]!);

/** One program of a page's blocks. Those after the first may use its names, and have their own; imports are for all. */
function programOf(
  blocks: readonly string[],
  { code = '', joined, unrun = [] }: Given,
  has: (needed: string) => boolean,
): string {
  const imports = new Set(["import * as tx from 'tsxla';"]);
  const names = new Map<string, Set<string>>(); // that are imported from each module
  const bodies = blocks.map((block) =>
    block.replace(/^import (?:\{ (.*) \} from (.*);|.*)\n/gm, (line, list?: string, from = '') => {
      if (list) names.set(from, new Set([...(names.get(from) ?? []), ...list.split(', ')]));
      else imports.add(line.trim());
      return '';
    }),
  );
  for (const [from, all] of names) imports.add(`import { ${[...all].join(', ')} } from ${from};`);
  const isRun = (body: string) => !unrun.some(([block, needed]) => block.test(body) && !has(needed));
  const [first = '', ...others] = bodies.map((body) => (isRun(body) ? body : `void (async () => {\n${body}});\n`));
  return [...imports, code, first, ...others.map((body) => (joined ? body : `{\n${body}}`))].join('\n');
}

export interface PageProgram {
  readonly page: string;
  readonly given: Given;
  readonly folder: string;
  /** The code that runs or is checked: all blocks but files. */
  readonly code: readonly string[];
  readonly source: string;
}
/** Writes a page's program, with its files, into a folder of its own. Blocks that need something run if it is there. */
export async function writeProgram(
  page: string,
  scratch: string,
  has: (needed: string) => boolean = () => false,
): Promise<PageProgram> {
  const given = PAGES[page]!;
  const folder = path.join(scratch, page);
  fs.mkdirSync(folder, { recursive: true });
  await given.files?.(folder);
  const blocks = blocksOf(read(`docs/${page}.md`));
  for (const block of blocks) if (nameOf(block)) fs.writeFileSync(path.join(folder, nameOf(block)!), block);
  const code = blocks.filter((block) => !nameOf(block));
  const source = path.join(folder, 'program.ts');
  fs.writeFileSync(source, programOf(code, given, has));
  return { page, given, folder, code, source };
}

/** All pages for readers, from the root of the repository. */
export const allPages = (): string[] => [
  ...fs
    .readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file.replaceAll(path.sep, '/')}`),
  ...['README', 'CONTRIBUTING', 'examples/README', 'bench/README', 'notebooks/README'].map((name) => `${name}.md`),
  ...['packages/create-tsxla/README.md', 'packages/create-tsxla/template/README.md'],
];
/** The lines of a page's blocks of `sh`, joined where they continue, without comments. */
export const commandsOf = (text: string): string[] =>
  [...text.matchAll(/^```sh\n(.*?)^```/gms)]
    .flatMap(([, block]) => block!.replaceAll('\\\n', ' ').split('\n'))
    .map((line) => line.replace(/\s+# .*/, '').trim())
    .filter(Boolean);
export const pagesWithCommands = (): string[] => allPages().filter((page) => commandsOf(read(page)).length > 0);
