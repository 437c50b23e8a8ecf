// What the pages show is what happens: every block of code runs, and prints what its comments, or the text below it, say.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { afterAll, expect, test } from 'vitest';
import { withTables } from '../scripts/backend.js';
import { withFlags } from '../scripts/flags.js';
import { javaScriptOf } from './javascript.js';
import { goldenPath, tsxla } from './support.js';

const root = path.join(import.meta.dirname, '..');
const scratch = path.join(root, `examples/.docs-${process.pid}`); // inside the package, so that programs find it by name
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** What a page takes for granted: names, and files. */
interface Given {
  readonly code?: string;
  /** A page to type along: each block has the names of all before it. */
  readonly joined?: true;
  readonly files?: (folder: string) => void | Promise<void>;
  readonly env?: Readonly<Record<string, string>>;
}
const tiny = goldenPath('qwen3/tied');
/** A small model in the place where the hub's cache has the one that pages speak of. */
const hub = (folder: string) => {
  const model = path.join(folder, 'hub/models--Qwen--Qwen3-0.6B');
  const commit = '0'.repeat(40);
  fs.mkdirSync(path.join(model, 'refs'), { recursive: true });
  fs.writeFileSync(path.join(model, 'refs/main'), commit);
  const snapshot = path.join(model, 'snapshots', commit);
  fs.cpSync(tiny, snapshot, { recursive: true });
  const config = fs.readFileSync(path.join(snapshot, 'config.json'), 'utf8');
  fs.writeFileSync(path.join(snapshot, 'config.json'), config.replace('bfloat16', 'float32')); // which a CPU compiles faster
};
/** The same of the dataset that they speak of. */
const wikitext = (folder: string) => {
  const set = path.join(folder, 'hub/datasets--Salesforce--wikitext');
  const commit = '0'.repeat(40);
  fs.mkdirSync(path.join(set, 'refs'), { recursive: true });
  fs.writeFileSync(path.join(set, 'refs/main'), commit);
  const shard = path.join(set, 'snapshots', commit, 'wikitext-103-raw-v1/train-00000-of-00002.parquet');
  fs.cpSync(goldenPath('parquet/snappy.parquet'), shard);
};

const TEXT = Array.from({ length: 40 }, (_, i) => `the fox ${'jumps over '.repeat(1 + (i % 5))}a lazy dog`).join(
  '\n\n',
);
/** A student, a cache of what its teacher says, and text. */
const recovery = async (folder: string): Promise<void> => {
  fs.writeFileSync(path.join(folder, 'valid.txt'), TEXT);
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(tiny, { dtype: 'f32' });
  await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 2 } });
  await tx.recovery.saveStudent(path.join(folder, 'student'), model);
  const sizes = { sequenceLength: 16, topK: 5, negatives: 4, sequences: 8 };
  await tx.distill.writeKDCache(path.join(folder, 'cache'), {
    teacher: tiny,
    data: path.join(folder, 'valid.txt'),
    ...sizes,
  });
};

const PAGES: Readonly<Record<string, Given>> = {
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
  checkpoints: { env: { CPU_NUM_DEVICES: '8' } },
  costs: {},
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
    files: hub,
    code: `
      const model = await tx.models.Qwen3ForCausalLM.fromPretrained('Qwen/Qwen3-0.6B', { dtype: 'f32' });
      const [small, prompts] = [model, ['the fox', 'a dog']];
    `,
  },
  gpt: { joined: true },
  'how-it-works': { joined: true },
  kernels: {},
  metrics: {},
  nn: {},
  optimizer: {},
  profiling: { env: { TSXLA_LOG: 'quiet' } },
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
    files: hub,
  },
  spmd: { code: `process.env.CPU_NUM_DEVICES = '8';` },
  steps: {
    code: `
      const [x, y] = [tx.ones([32, 16]), tx.zeros([32, 1])];
      const parameters = [tx.zeros([1024, 1], { requiresGrad: true })];
      const lossOf = (x: tx.Tensor, y: tx.Tensor) => tx.mseLoss(x.matmul(parameters[0]!).squeeze(1), y);
      const update = (all: readonly tx.Tensor[]) => tx.noGrad(() => { for (const p of all) p.sub_(p.grad!.mul(0.1)); });
    `,
  },
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

/** One program of a page's blocks. Those after the first may use its names, and have their own; imports are for all. */
function programOf(blocks: readonly string[], { code = '', joined }: Given): string {
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
  const [first, ...others] = bodies;
  return [...imports, code, first, ...others.map((body) => (joined ? body : `{\n${body}}`))].join('\n');
}

test.each(Object.entries(PAGES))('docs/%s.md', async (page, given) => {
  const text = fs.readFileSync(path.join(root, `docs/${page}.md`), 'utf8');
  const folder = path.join(scratch, page);
  fs.mkdirSync(folder, { recursive: true });
  await given.files?.(folder);
  const blocks = [...text.matchAll(/```(?:ts|js)\n(.*?)```/gs)].map((m) => m[1]!);
  // A block that begins with the name of a file is that file.
  const nameOf = (block: string) => /^\/\/ (\S+\.[jt]s)\n/.exec(block)?.[1];
  for (const block of blocks) if (nameOf(block)) fs.writeFileSync(path.join(folder, nameOf(block)!), block);
  const code = blocks.filter((block) => !nameOf(block));
  fs.writeFileSync(path.join(folder, 'program.ts'), programOf(code, given));

  const program = await javaScriptOf(path.join(folder, 'program.ts'), path.join(folder, 'program.mjs'));
  const run = promisify(execFile)(process.execPath, ['--enable-source-maps', program], {
    cwd: folder,
    env: { ...process.env, HF_HUB_CACHE: path.join(folder, 'hub'), HF_HUB_OFFLINE: '1', ...given.env },
  });
  const printed = (await run).stdout.split('\n');
  const promised = [...code.join('').matchAll(/console\.log\(.*\);[^\S\n]*\n?[^\S\n]*\/\/ (.*)/g)].map((m) => m[1]!);
  expect(printed.filter((line) => promised.includes(line))).toEqual(promised);
  for (const [, below] of text.matchAll(/```ts\n[^`]*?```\n```\n(.*?)```/gs))
    expect(printed.join('\n')).toContain(below);
});

test('a block of the backend that imports something can be copied: it imports what it uses of tsxla', () => {
  const text = fs.readFileSync(path.join(root, 'docs/backend.md'), 'utf8');
  const blocks = [...text.matchAll(/```ts\n(import .*?)```/gs)].map((m) => m[1]!);
  const missing = blocks.flatMap((block) => {
    const imported = [...block.matchAll(/^import (?:\{ (.*) \}|\* as (\w+)) from/gm)].flatMap((m) =>
      (m[1] ?? m[2]!).split(', '),
    );
    const used = new Set([...block.matchAll(/\b(tx|nn|optim)\./g)].map((m) => m[1]!));
    return [...used].filter((name) => !imported.includes(name)).map((name) => `${name} in ${block}`);
  });
  expect(missing).toEqual([]);
});

test('all of it is right by its types', async () => {
  const programs = Object.keys(PAGES).map((page) => path.join(scratch, page, 'program.ts'));
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023'];
  const tsc = 'node_modules/typescript-7/bin/tsc';
  const args = [tsc, '--ignoreConfig', ...options, '--types', 'node', ...programs];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root }).catch(
    (e: { stdout: string }) => e,
  );
  expect(stdout).toBe('');
});

test('and the linter finds nothing in it', async () => {
  const programs = Object.keys(PAGES).map((page) => path.join(scratch, page, 'program.ts'));
  expect((await tsxla(['lint', '--json', ...programs])).stdout).toBe('[]\n');
});

test('the tables of the backend are on its page (else: npx tsx scripts/backend.ts)', () => {
  const page = path.join(root, 'docs/backend.md');
  expect(fs.readFileSync(page, 'utf8')).toBe(withTables());
});

test('the flags of train-recovery-lora are on its page (else: npx tsx scripts/flags.ts)', () => {
  expect(fs.readFileSync(path.join(root, 'docs/recovery-lora.md'), 'utf8')).toBe(withFlags());
});
