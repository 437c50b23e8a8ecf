// The commands of the pages, run by a shell as they are written, with small models in place of those that they name; and the
// blocks of TypeScript that need a TPU's compiler.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { javaScriptOf } from '../javascript.js';
import {
  commandsOf,
  hub,
  PAGES,
  pagesWithCommands,
  read,
  recovery,
  root,
  TEXT,
  wikitext,
  writeProgram,
} from '../pages.js';
import { main, tsxla } from '../support.js';

const scratch = path.join(root, `examples/.docs-slow-${process.pid}`); // inside the package, so that programs find it by name
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));
const newFolder = (name: string) => {
  const folder = path.join(scratch, name.replaceAll('/', '-'));
  fs.mkdirSync(folder, { recursive: true });
  return folder;
};

/** Lines that are not run, and why. test/recipes.test.ts checks their commands and flags. */
const UNRUN: readonly (readonly [line: RegExp, why: string])[] = [
  [
    /gcloud|kubectl|docker|curl|^(sed|export|ssh) |^npx tsxla ray|^tsxla ray|--ray|MASTER_ADDR/,
    'machines in a cloud, or a cluster',
  ],
  [/--topology|^npx tsxla train-recovery-lora .*\.\.\./, 'a slice of TPUs, or arguments of the reader'],
  [/PJRT_DEVICE=MPS/, 'a Mac'],
  [/git clone|npm create|npm install|plugins install|pip install|-m venv/, 'the network'],
  [/tsxla plan|hlo compile/, 'minutes of libtpu: test/slow/{tpu,plan,workloads}.test.ts'],
  [/scripts\/golden|scripts\/opinfo/, "torch's answers"],
  [/scripts\/release|create-tsxla\/index\.js/, 'the whole package: test/slow/package.test.ts'],
  [/npm (start|test|run)|^cd /, 'this suite: test/slow/{examples,package}.test.ts'],
  [/npx vitest/, 'a test of the reader'],
  [/tsxla board(?!.*--export)/, 'a server, which does not end: test/slow/board.test.ts'],
  [/cache explain 3f0a91/, 'the key of a program: test/cache.test.ts'],
];
/** What would take hours. */
const CUTS: readonly (readonly [RegExp, string])[] = [
  [/--max-steps 1200\b/, '--max-steps 2'],
  [/--data hf:\S+ --sequences 2000/, '--data train.jsonl'],
  [/ --tpu(?= --batch-size| --mesh)/, ''],
  [/runs\/a runs\/b/, 'runs/recovery_lora'],
  [/--eval-steps 200/, '--eval-steps 1'],
  [/--workers 2$/, '--workers 2 --max-steps 2'],
  [/--profile-steps 10:15/, '--profile-steps 1:3 --max-steps 4'],
];

async function withAdapters(folder: string, name: string): Promise<void> {
  await recovery(folder);
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(hub(folder), { dtype: 'f32' });
  tx.lora.addLora(model, { rank: 2 });
  await tx.lora.saveAdapters(model, path.join(folder, name));
}
/** What a page's commands find in their folder, beside texts and the models of the hub. */
const FILES: Readonly<Record<string, (folder: string) => void | Promise<void>>> = {
  'docs/environment.md': (folder) =>
    fs.writeFileSync(path.join(folder, 'train.js'), `import * as tx from 'tsxla';\nawait tx.ones(4).add(1).data();\n`),
  'docs/hlo.md': (folder) => fs.symlinkSync(path.join(root, 'test'), path.join(folder, 'test')),
  'docs/lint.md': (folder) => {
    fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: { allowJs: true } }));
    fs.mkdirSync(path.join(folder, 'src'));
    for (const file of ['src/model.ts', 'train.mjs']) fs.writeFileSync(path.join(folder, file), 'export {};\n');
  },
  'docs/board.md': recovery,
  'docs/export.md': (folder) => withAdapters(folder, 'run/adapters'),
  'docs/lora.md': (folder) => withAdapters(folder, 'adapters'),
  'docs/profiling.md': recovery,
  'docs/qwen3.md': (folder) => fs.cpSync(hub(folder), path.join(folder, 'my-model'), { recursive: true }),
  'docs/recipes/kaggle.md': recovery,
  'docs/tpu.md': recovery,
};
/** Variables of a page's machine. */
const ENV: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'docs/recipes/kaggle.md': { CPU_NUM_DEVICES: '8' },
};
const MODELS = ['0.6B', '4B', '8B', '32B'].map((size) => `Qwen/Qwen3-${size}`);

describe.each(pagesWithCommands())('%s', (page) => {
  const lines = commandsOf(read(page)).filter((line) => !UNRUN.some(([pattern]) => pattern.test(line)));
  test.runIf(lines.length > 0)('its commands', async () => {
    const folder = newFolder(page);
    for (const name of MODELS) hub(folder, name);
    wikitext(folder);
    for (const name of ['valid.txt', 'test.txt', 'wiki.test.txt', 'story.txt'])
      fs.writeFileSync(path.join(folder, name), `${TEXT}\n\n`.repeat(4));
    fs.writeFileSync(path.join(folder, 'train.jsonl'), `${JSON.stringify({ text: TEXT })}\n`.repeat(40));
    await FILES[page]?.(folder);
    const bin = path.join(folder, 'bin');
    fs.mkdirSync(bin);
    const programs = {
      npx: 'exec "$@"',
      tsxla: `exec ${JSON.stringify(process.execPath)} ${JSON.stringify(main)} "$@"`,
    };
    for (const [name, body] of Object.entries(programs))
      fs.writeFileSync(path.join(bin, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    const env = {
      ...process.env,
      PATH: `${bin}:${process.env['PATH']}`,
      HF_HUB_CACHE: path.join(folder, 'hub'),
      HF_HUB_OFFLINE: '1',
      XLA_PERSISTENT_CACHE_PATH: path.join(scratch, 'programs'), // of all pages: they have the same small models
      TSXLA_CACHE: '',
      ...ENV[page],
    };
    for (const line of lines) {
      const cut = CUTS.reduce((text, [pattern, by]) => text.replace(pattern, by), line);
      const ran = await promisify(execFile)('sh', ['-c', cut], { cwd: folder, env, maxBuffer: 2 ** 26 }).catch(
        (e) => e,
      );
      expect(ran, `${cut}\n${ran.stdout}\n${ran.stderr}`).not.toBeInstanceOf(Error);
    }
  });
});

test('every reason for not running a line, and every cut, is used', () => {
  const lines = pagesWithCommands().flatMap((page) => commandsOf(read(page)));
  for (const [pattern] of [...UNRUN, ...CUTS])
    expect(
      lines.filter((line) => pattern.test(line)),
      `${pattern}`,
    ).not.toEqual([]);
});

describe('blocks of TypeScript that need libtpu', () => {
  beforeAll(async () => {
    const { status, stderr } = await tsxla(['plugins', 'path', 'tpu']);
    if (status) expect((await tsxla(['plugins', 'install', 'tpu'])).status, stderr).toBe(0);
  }, 600_000);
  const pages = Object.entries(PAGES).filter(([, { unrun }]) => unrun?.some(([, needs]) => needs === 'libtpu'));
  test.each(pages.map(([page]) => page))('docs/%s.md', async (page) => {
    const { source, folder } = await writeProgram(page, path.join(scratch, 'libtpu'), (needs) => needs === 'libtpu');
    const program = await javaScriptOf(source, source.replace(/ts$/, 'mjs'));
    const env = { ...process.env, XLA_FLAGS: '' }; // libtpu does not know those of the suite
    await promisify(execFile)(process.execPath, ['--enable-source-maps', program], { cwd: folder, env });
  });
});
