// The package as a user gets it: what is in it, that its types resolve, that it works in an empty project, and the starter.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addPrograms, EXAMPLES, pack, project } from '../../scripts/packed.js';

const root = path.join(import.meta.dirname, '../..');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-package-'));
const about = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
const subpaths = Object.keys(about.exports).filter((name) => name !== './package.json');
const folder = path.join(scratch, 'project');
const installed = path.join(folder, 'node_modules/tsxla');
const bin = (name: string) => path.join(root, 'node_modules/.bin', name);
let tarball: string;
let starter: string;

beforeAll(() => {
  tarball = pack(scratch);
  starter = pack(scratch, 'packages/create-tsxla');
  project(folder, [tarball, 'tsx', '@types/node@20']);
  addPrograms(folder);
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** Runs a command; the end of what it prints is in the failure. */
function run(command: string, args: readonly string[], cwd = folder, env: NodeJS.ProcessEnv = {}) {
  const all = { ...process.env, XLA_FLAGS: '', PJRT_DEVICE: 'CPU', TSXLA_LOG: 'quiet', TSXLA_CACHE: 'off', ...env };
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', env: all });
  return { status, stdout, stderr, end: `${stdout}\n${stderr}`.trim().slice(-2000) };
}
const good = (ran: ReturnType<typeof run>) => {
  expect(ran.status, ran.end).toBe(0);
  return ran.stdout;
};

describe('what is packed', () => {
  const files = () =>
    fs.readdirSync(installed, { recursive: true, encoding: 'utf8' }).map((f) => f.replaceAll(path.sep, '/'));
  const plain = () => files().filter((file) => fs.statSync(path.join(installed, file)).isFile());

  test('is the built package and its papers: no tests, no sources, nothing of the build', () => {
    const outside = plain().filter((file) => !file.startsWith('dist/'));
    expect(outside.sort()).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json']);
    const kinds = /(\.d\.ts|\.c?js|\.c?js\.map|^dist\/board\/client\.css|^dist\/train\/ray\/driver\/\w+\.py)$/;
    expect(plain().filter((file) => file.startsWith('dist/') && !kinds.test(file))).toEqual([]);
    expect(plain().filter((file) => /(^|\/)(test|bench|examples|scripts)\//.test(file))).toEqual([]);
  });

  /** What the maps of a folder name, from that folder. */
  const sourcesOf = (folder: string, maps: readonly string[]) =>
    maps.flatMap((file) =>
      (JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8')).sources as string[]).map((source) =>
        path.posix.join(path.posix.dirname(file), source),
      ),
    );
  test('every declaration has its code, and every source is in one map', () => {
    const there = new Set(plain());
    const code = (file: string) => file.replace(/\.d\.ts$/, '.js');
    const typesOnly = [...there].filter((file) => file.endsWith('.d.ts') && !there.has(code(file)));
    expect(typesOnly).toEqual([]);
    const sources = sourcesOf(
      installed,
      [...there].filter((file) => file.endsWith('.map')),
    );
    expect(sources.length).toBeGreaterThan(500);
    expect(sources.filter((source, i) => sources.indexOf(source) !== i)).toEqual([]);
  });

  test('a release built elsewhere has the same maps: src beside dist, by which frames are told from those of users', () => {
    const release = path.join(scratch, 'a/release');
    execFileSync(process.execPath, [path.join(root, 'scripts/bundle.mjs'), path.join(release, 'dist')]);
    const maps = fs.readdirSync(release, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.map'));
    expect(sourcesOf(release, maps).filter((source) => !/^src\/[\w/-]+\.ts$/.test(source))).toEqual([]);
  });

  test('no file names the folder it was built in', () => {
    const named = plain().filter((file) => fs.readFileSync(path.join(installed, file), 'utf8').includes(`${root}/`));
    expect(named).toEqual([]);
  });

  test('the command is a program', () => {
    expect(good(run(path.join(folder, 'node_modules/.bin/tsxla'), ['--version'])).trim()).toBe(about.version);
  });
});

describe('types and exports', () => {
  test.each([
    ['publint', ['--strict']],
    ['attw', ['--profile', 'esm-only', '--no-emoji']],
  ])('%s finds nothing', (name, flags) => {
    for (const file of [tarball, ...(name === 'publint' ? [starter] : [])]) good(run(bin(name), [file, ...flags]));
  });

  const imports = subpaths.map(
    (name, i) => `import * as m${i} from '${name.replace('.', 'tsxla')}';\nexport const k${i}: object = m${i};`,
  );
  const use = `import { tensor, nn } from 'tsxla';
export const sum: Promise<number | bigint> = tensor([1, 2]).sum().item();
export const layer = new nn.Linear(2, 3);
// @ts-expect-error: an option of another name
tensor([1], { dtyp: 'f32' });`;
  // What a CommonJS package gets: Node 20.19 and later load ES modules by require, and TypeScript knows under nodenext.
  test.each([
    ['nodenext, ESM', 'module', { module: 'nodenext', moduleResolution: 'nodenext' }],
    ['nodenext, CommonJS', 'commonjs', { module: 'nodenext', moduleResolution: 'nodenext' }],
    ['bundler', 'module', { module: 'esnext', moduleResolution: 'bundler' }],
  ])('every entry resolves: %s', (name, type, options) => {
    const here = path.join(folder, name.replace(/\W+/g, '-'));
    fs.mkdirSync(here);
    fs.writeFileSync(path.join(here, 'package.json'), JSON.stringify({ type }));
    fs.writeFileSync(path.join(here, 'all.ts'), [...imports, use].join('\n'));
    const compilerOptions = {
      ...options,
      target: 'es2022',
      lib: ['esnext'],
      types: ['node'],
      strict: true,
      noEmit: true,
    };
    const config = { compilerOptions: { ...compilerOptions, skipLibCheck: true }, files: ['all.ts'] };
    fs.writeFileSync(path.join(here, 'tsconfig.json'), JSON.stringify(config));
    good(run(path.join(folder, 'node_modules/.bin/tsc'), ['-p', here]));
  });

  test('the declarations have no errors, nor have those that they import, looked at without skipLibCheck', () => {
    const here = path.join(folder, 'nodenext-ESM');
    const { stdout } = run(path.join(folder, 'node_modules/.bin/tsc'), ['-p', here, '--skipLibCheck', 'false']);
    expect(stdout.split('\n').filter((line) => line.includes('error TS'))).toEqual([]);
  });
});

describe('in an empty project', () => {
  test('all that a runtime has to bring', () => {
    const out = good(run(process.execPath, ['tour.mjs'], folder, { CPU_NUM_DEVICES: '2' }));
    const parts = ['training', 'errors', 'threads', 'checkpoints', 'mesh', 'cache', 'workers', 'commonjs'];
    expect(out.trim().split('\n')).toEqual(parts.map((name) => `ok ${name}`));
  });

  test.each(EXAMPLES.slice(0, 2))('%s.ts', (name) => {
    good(run(process.execPath, ['--import', 'tsx', `${name}.ts`]));
  });

  test('doctor says what runs it', () => {
    expect(good(run('npx', ['tsxla', 'doctor']))).toContain(
      `tsxla    ${about.version}, Node ${process.versions.node}, `,
    );
  });
});

describe('npm create tsxla', () => {
  const tools = path.join(scratch, 'tools');
  const create = (...args: string[]) => run(path.join(tools, 'node_modules/.bin/create-tsxla'), args, scratch);
  beforeAll(() => void project(tools, [starter]));

  test('a project that trains, has types and passes its own linter', () => {
    expect(good(create('my-model', '--tsxla', tarball))).toContain('  cd my-model\n  npm install\n  npm start\n');
    const made = path.join(scratch, 'my-model');
    expect(fs.readdirSync(made).sort()).toEqual(
      ['.gitignore', 'README.md', 'eslint.config.js', 'package.json', 'src', 'tsconfig.json'].sort(),
    );
    expect(fs.readFileSync(path.join(made, 'README.md'), 'utf8')).toMatch(/^# my-model\n/);
    expect(JSON.parse(fs.readFileSync(path.join(made, 'package.json'), 'utf8'))).toMatchObject({
      name: 'my-model',
      dependencies: { tsxla: `file:${tarball}` },
    });
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: made, stdio: 'ignore' });
    const out = good(run('npm', ['start', '--silent'], made));
    const losses = [...out.matchAll(/loss ([\d.]+)/g)].map(([, loss]) => Number(loss));
    expect(losses).toHaveLength(6);
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 2);
    expect(Number(/accuracy ([\d.]+)%/.exec(out)![1])).toBeGreaterThan(90);
    good(run('npm', ['run', 'check', '--silent'], made));
    good(run('npm', ['run', 'lint', '--silent'], made));
    // The rules are tsxla's: what reads like torch and is wrong is found.
    fs.appendFileSync(path.join(made, 'src/train.ts'), '\nif (right) console.log(right);\n');
    const lint = run('npm', ['run', 'lint', '--silent'], made);
    expect([lint.status, lint.stdout]).toEqual([1, expect.stringContaining('tsxla/no-tensor-condition')]);
  });

  test('it depends on its own version of tsxla', () => {
    good(create('of-its-version'));
    const made = JSON.parse(fs.readFileSync(path.join(scratch, 'of-its-version/package.json'), 'utf8'));
    expect(made.dependencies).toEqual({ tsxla: `^${about.version}` });
    expect(good(create('--version')).trim()).toBe(about.version);
  });

  test('what it refuses, it refuses before it writes anything', () => {
    const refused = (complaint: string | RegExp, ...args: string[]) => {
      const before = fs.readdirSync(scratch).sort();
      const { status, stdout, stderr } = create(...args);
      expect([status, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(complaint);
      expect(fs.readdirSync(scratch).sort()).toEqual(before);
    };
    fs.mkdirSync(path.join(scratch, 'full'));
    fs.writeFileSync(path.join(scratch, 'full/notes.txt'), 'mine');
    refused('create-tsxla: full is not empty: it has notes.txt. Give a new or an empty folder', 'full');
    expect(fs.readdirSync(path.join(scratch, 'full'))).toEqual(['notes.txt']);
    refused(/is a file: give the name of a new folder/, path.basename(tarball));
    refused("'My Model' cannot be the name of a package: use lower-case letters", 'My Model');
    refused("'.hidden' cannot be the name of a package", '.hidden');
    refused("'tsxla' cannot be the name of this project: another package has it", 'tsxla');
    refused('--tsxla nowhere.tgz: there is no such file', 'new-model', '--tsxla', 'nowhere.tgz');
    refused(/give one folder, 0 are given\n\nUsage: npm create tsxla@latest FOLDER/);
    refused(/Unknown option '--force'\n\nUsage:/, 'new-model', '--force');
  });

  test('--help; an empty folder with a repository is empty', () => {
    expect(good(create('--help'))).toMatch(/^Usage: npm create tsxla@latest FOLDER/);
    fs.mkdirSync(path.join(scratch, 'cloned/.git'), { recursive: true });
    good(create('cloned'));
    expect(fs.existsSync(path.join(scratch, 'cloned/src/train.ts'))).toBe(true);
  });
});
