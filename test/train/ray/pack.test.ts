// A project as it is uploaded: what is in it, and that its name is its content.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type PackOptions, packProject, projectOf } from 'tsxla/ray';
import { afterAll, expect, test, vi } from 'vitest';
import { describeLeftOut, scriptInProject } from '../../../dist/train/ray/pack.js';
import { namesIn } from './zip.js';

const scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-pack-')));
afterAll(() => fs.rmSync(scratch, { recursive: true }));

const FILES = {
  'package.json': '{}',
  'src/train.ts': 'train()',
  'data/large.bin': 'x'.repeat(1000),
  'dist/train.js': 'train()',
  'dist/kernel.so': 'binary',
  'node_modules/tsx/index.js': '',
  'new.ts': 'not yet added',
  '.gitignore': 'dist\ndata\n',
};
function project(name: string, { git = true } = {}): string {
  const root = path.join(scratch, name);
  for (const [file, text] of Object.entries(FILES)) {
    fs.mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    fs.writeFileSync(path.join(root, file), text);
  }
  if (git) execFileSync('git', ['init', '-q'], { cwd: root });
  return root;
}

test('what git ignores stays here, unless it is asked for', async () => {
  const root = project('ignored');
  const own = ['.gitignore', 'new.ts', 'package.json', 'src/train.ts'];
  expect((await packProject(root)).files).toEqual(own);
  const more = await packProject(root, { include: ['dist', 'data/large.bin'] });
  expect(more.files).toEqual([...own, 'data/large.bin', 'dist/kernel.so', 'dist/train.js'].sort());
  const extra = await packProject(root, { extra: { 'driver.py': Buffer.from('pass') } });
  expect(extra.files).toEqual([...own, 'driver.py'].sort());
});

test('a script that git ignores comes along, with the folder it is in', async () => {
  const root = project('compiled');
  const { files } = await packProject(root, { script: 'dist/train.js' });
  expect(files).toEqual(['.gitignore', 'dist/kernel.so', 'dist/train.js', 'new.ts', 'package.json', 'src/train.ts']);
  const { files: plain } = await packProject(root, { script: 'src/train.ts' });
  const { files: installed } = await packProject(root, { script: 'node_modules/tsx/index.js' });
  expect([plain, installed]).toEqual([(await packProject(root)).files, plain]);

  const inner = path.join(root, 'dist'); // a folder that a git above it ignores has no git
  fs.writeFileSync(path.join(inner, 'package.json'), '{}');
  const own = ['kernel.so', 'package.json', 'train.js'];
  expect((await packProject(inner, { script: 'train.js' })).files).toEqual(own);
});

test('without git a project is the same as with it', async () => {
  const [plain, versioned] = [
    await packProject(project('plain', { git: false })),
    await packProject(project('versioned')),
  ];
  expect(plain.files).toEqual(['.gitignore', 'new.ts', 'package.json', 'src/train.ts']);
  expect(plain.name).toBe(versioned.name);
});

/** The names in the zip. */
const membersOf = async (root: string, options?: PackOptions): Promise<string[]> =>
  namesIn(await (await packProject(root, options)).zip());
function write(root: string, files: readonly string[], text = 'fake'): void {
  for (const file of files) {
    fs.mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    fs.writeFileSync(path.join(root, file), text);
  }
}
const PROJECT = ['.gitignore', 'new.ts', 'package.json', 'src/train.ts'];

test('a folder without package.json and git is refused; with include, what is named is sent and nothing else', async () => {
  const root = path.join(scratch, 'loose');
  write(root, ['train.js', 'other.js', 'data/a.txt', 'data/.env', '.npmrc']);
  await expect(packProject(root, { script: 'train.js' })).rejects.toThrow(
    `${root} has no package.json and is not in a git repository, so all its files would be uploaded: run \`npm init\` or \`git init\` there, ` +
      'or name the files that workers need with --include (ray: { include: [...] })',
  );
  expect(await membersOf(root, { script: 'train.js', include: ['data'] })).toEqual(['data/a.txt', 'train.js']);
});

const KEYS = ['.ssh/id_rsa', '.ssh/config', '.aws/credentials', '.env', '.npmrc', '.config/gcloud/credentials.db'];

test('a home folder is refused, whatever it has besides', async () => {
  const home = path.join(scratch, 'home');
  write(home, ['train.js', ...KEYS]);
  const has = `${home} has .ssh, as home folders do, and is not uploaded: move the program to a separate folder with a package.json (run \`npm init\` there)`;
  await expect(packProject(home, { script: 'train.js' })).rejects.toThrow(has);
  write(home, ['package.json'], '{}');
  await expect(packProject(home, { script: 'train.js' })).rejects.toThrow(has);
  execFileSync('git', ['init', '-q'], { cwd: home });
  await expect(packProject(home, { script: 'train.js', include: ['train.js'] })).rejects.toThrow(has);

  const bare = path.join(scratch, 'homes/me'); // without keys it is one by what the environment says
  write(bare, ['train.js', 'package.json'], '{}');
  vi.stubEnv('HOME', bare);
  for (const folder of [bare, path.dirname(bare), '/'])
    await expect(packProject(folder)).rejects.toThrow(
      /^\S+ (is your home folder, or contains it|has \S+, as home folders do), and/,
    );
  vi.unstubAllEnvs();
  vi.stubEnv('TMPDIR', bare);
  await expect(packProject(bare)).rejects.toThrow(`${bare} is a folder for temporary files, and is not uploaded`);
  vi.unstubAllEnvs();
  expect(await membersOf(bare)).toEqual(['package.json', 'train.js']);
});

const CREDENTIALS = [
  ...[
    '.env',
    '.env.local',
    '.envrc',
    'config/prod.env',
    '.npmrc',
    '.netrc',
    '.pypirc',
    '.yarnrc.yml',
    '.git-credentials',
  ],
  ...['server.pem', 'tls/server.KEY', 'a.p12', 'b.pfx', 'id_rsa', 'id_rsa.old', 'keys/id_ed25519', 'putty.ppk'],
  ...['deep/.ssh/known_hosts', 'deep/.aws/config', 'deep/.gnupg/x', 'deep/.kube/config', '.docker/config.json'],
  ...[
    'deep/.config/gcloud/x.db',
    'application_default_credentials.json',
    'credentials',
    'credentials.json',
    'secrets.yaml',
  ],
  ...[
    'my-service-account.json',
    'service_account_prod.json',
    'client_secret_1.json',
    '.huggingface/token',
    'cache/token',
  ],
  ...[
    'deep/.bash_history',
    'kubeconfig',
    'terraform.tfstate',
    '.azure/x',
    '.kaggle/kaggle.json',
    '.cargo/credentials.toml',
  ],
];
const HARMLESS = [
  '.env.example',
  'environment.ts',
  'src/credentials.ts',
  'src/secrets.ts',
  'tokens.bin',
  'tokenizer.json',
];

test.each([true, false])('files with credentials stay here (git: %s)', async (git) => {
  const root = project(`secrets-${git}`, { git });
  write(root, [...CREDENTIALS, ...HARMLESS]);
  expect(await membersOf(root)).toEqual([...PROJECT, ...HARMLESS].sort());
  const { leftOut } = await packProject(root);
  expect(leftOut.map(({ name }) => name).sort()).toEqual([...CREDENTIALS].sort());
  expect(leftOut.every(({ isCredential }) => isCredential)).toBe(true);
});

test('a file with a credential is sent if git tracks it, or if it is named itself; a folder that has it is not enough', async () => {
  const root = project('meant');
  write(root, ['.env', 'config/.env', 'config/app.yaml', 'dist/.env', '.npmrc', '.aws/config']);
  execFileSync('git', ['add', '.npmrc'], { cwd: root });
  const sent = async (options?: PackOptions) =>
    (await membersOf(root, options)).filter((name) => !PROJECT.includes(name));
  expect(await sent()).toEqual(['.npmrc', 'config/app.yaml']);
  expect(await sent({ include: ['config', '.aws', '.'] })).toEqual([
    ...['.npmrc', 'config/app.yaml', 'data/large.bin', 'dist/kernel.so', 'dist/train.js'],
  ]);
  expect(await sent({ include: ['./config/.env'] })).toEqual(['.npmrc', 'config/.env', 'config/app.yaml']);
  // An ignored script takes its folder along, and no more than that is meant by it.
  expect(await sent({ script: 'dist/train.js' })).toEqual([
    '.npmrc',
    'config/app.yaml',
    'dist/kernel.so',
    'dist/train.js',
  ]);
});

test('a private key or a secret in JSON stays here under any name', async () => {
  const root = project('contents');
  const key = '-----BEGIN OPENSSH PRIVATE KEY-----\nfake\n';
  write(root, ['deploy', 'notes/other.txt'], key);
  write(root, ['project-1234.json'], '{ "type": "service_account", "private_key": "fake" }');
  write(root, ['src/reader.ts'], `const begin = '-----BEGIN PRIVATE KEY-----';`);
  write(root, ['schema.json'], '{ "private_key": { "type": "string" } }');
  expect(await membersOf(root)).toEqual([...PROJECT, 'schema.json', 'src/reader.ts'].sort());
  execFileSync('git', ['add', 'deploy'], { cwd: root });
  expect(await membersOf(root, { include: ['notes/other.txt'] })).toEqual(
    [...PROJECT, 'deploy', 'notes/other.txt', 'schema.json', 'src/reader.ts'].sort(),
  );
});

test.each([true, false])('a link sends no file from outside, and no credential (git: %s)', async (git) => {
  const root = project(`links-${git}`, { git });
  const outside = path.join(scratch, `outside-${git}`);
  write(outside, ['secret.txt']);
  write(root, ['.env', 'dist/built.txt', '..odd']);
  const links: Record<string, string> = {
    'to-file': path.join(outside, 'secret.txt'),
    'to-folder': outside,
    'to-env': '.env',
    'to-nothing': 'nowhere',
    'to-module': 'node_modules/tsx/index.js',
    'to-ours': 'dist/built.txt',
    'dist/to-file': path.join(outside, 'secret.txt'),
  };
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, path.join(root, name));
  if (git) execFileSync('git', ['add', 'to-file', 'to-folder', 'to-env'], { cwd: root });
  expect(await membersOf(root)).toEqual([...PROJECT, '..odd', 'to-ours'].sort());
  const whyNot = Object.fromEntries((await packProject(root)).leftOut.map(({ name, why }) => [name, why]));
  expect(whyNot).toEqual({
    '.env': 'it looks like a credential',
    'to-env': 'it looks like a credential',
    'to-file': `it is a link to ${outside}/secret.txt, outside the project: copy that file`,
    'to-folder': `it is a link to ${outside}, outside the project: copy that file`,
    'to-module': 'it is a link to node_modules/tsx/index.js',
    'to-nothing': 'it is a broken link, or cannot be read',
  });
  expect(await membersOf(root, { include: ['dist', '..odd'] })).not.toContain('dist/to-file');
  for (const name of ['to-file', 'to-folder/secret.txt'])
    await expect(packProject(root, { include: [name] })).rejects.toThrow(
      `include: '${name}' cannot be uploaded: it is a link to ${outside}/secret.txt, outside the project: copy that file`,
    );
});

test('an uploaded node_modules has the packages in packages, and no link or credential', async () => {
  const root = project('modules');
  write(root, ['node_modules/a/node_modules/b/index.js', 'node_modules/a/.npmrc', 'node_modules/.bin/real']);
  fs.symlinkSync(scratch, path.join(root, 'node_modules/linked'));
  expect((await membersOf(root, { include: ['node_modules'] })).filter((name) => !PROJECT.includes(name))).toEqual([
    'node_modules/a/node_modules/b/index.js',
    'node_modules/tsx/index.js',
  ]);
});

test('names that a zip cannot have, repositories in a project and line breaks are reported', async () => {
  const root = project('odd');
  write(root, ['a\nb.txt', 'back\\slash', 'inner/own.txt']);
  fs.writeFileSync(Buffer.concat([Buffer.from(path.join(root, 'latin')), Buffer.of(0xe9)]), '');
  execFileSync('git', ['init', '-q'], { cwd: path.join(root, 'inner') });
  const { leftOut } = await packProject(root);
  expect(await membersOf(root)).toEqual([...PROJECT, 'a\nb.txt'].sort());
  expect(describeLeftOut(leftOut)).toEqual([
    'not uploaded: back\\slash (its name has bytes that a zip cannot store), inner (it is a separate git repository: name it with --include), ' +
      'latin\ufffd (its name has bytes that a zip cannot store)',
  ]);
  expect(await membersOf(root, { include: ['inner'] })).toEqual([...PROJECT, 'a\nb.txt', 'inner/own.txt'].sort());
});

test('a git that cannot read its repository is an error: what it ignores would be sent', async () => {
  const root = project('broken');
  fs.writeFileSync(path.join(root, '.git/config'), '[core\n');
  await expect(packProject(root)).rejects.toThrow(/^git cannot list the files of \S+broken: fatal: bad config/);
  vi.stubEnv('PATH', scratch);
  await expect(packProject(root)).rejects.toThrow(
    `${root} is in a git repository, but git, which knows the ignored files, is not installed: install git`,
  );
  await expect(packProject(project('no-git', { git: false }))).rejects.toThrow(
    'has a .gitignore, but git, which reads it, is not installed: install git',
  );
  vi.unstubAllEnvs();
  const hook = project('hook'); // variables that git sets for a hook of another repository
  vi.stubEnv('GIT_DIR', path.join(project('hooked'), '.git'));
  expect((await packProject(hook)).files).toEqual(PROJECT);
  vi.unstubAllEnvs();
});

test('a package.json that is not JSON is named', async () => {
  const root = project('not-json');
  write(root, ['package.json'], '{ "name": ');
  await expect(packProject(root)).rejects.toThrow(`${root}/package.json is not JSON: `);
});

test('no configuration of git comes along with its folder', async () => {
  const root = project('dot-git');
  write(root, ['.git/modules/a/config'], 'url = https://token@host/');
  const names = await membersOf(root, { include: ['.git'] });
  expect(names).toContain('.git/HEAD');
  expect(names.filter((name) => name.endsWith('config'))).toEqual([]);
});

test('a clone of tsxla takes the built package along, which git ignores', async () => {
  const clone = path.join(scratch, 'clone');
  write(clone, ['src/index.ts', 'dist/index.js', 'dist/ray/main.py', 'dist/.env']);
  write(clone, ['.gitignore'], 'dist\n');
  write(clone, ['package.json'], JSON.stringify({ name: 'tsxla', files: ['dist'] }));
  execFileSync('git', ['init', '-q'], { cwd: clone });
  expect(await membersOf(clone, { script: 'src/index.ts' })).toEqual([
    ...['.gitignore', 'dist/index.js', 'dist/ray/main.py', 'package.json', 'src/index.ts'],
  ]);
  fs.rmSync(path.join(clone, 'dist'), { recursive: true });
  await expect(packProject(clone)).rejects.toThrow(
    `${clone} is tsxla itself, and has no dist: run \`npm run build\` there`,
  );
});

test('what was left out is told by number and by its first names', () => {
  const files = Array.from({ length: 7 }, (_, i) => ({
    name: `k${i}.pem`,
    why: 'it looks like a credential',
    isCredential: true,
  }));
  expect(describeLeftOut(files)).toEqual([
    'not uploaded: 7 untracked files with credentials: k0.pem, k1.pem, k2.pem, k3.pem, k4.pem, ... (2 more). To upload one, name it: --include k0.pem',
  ]);
  expect(describeLeftOut([])).toEqual([]);
});

test('the name is the content: the same files, whenever and wherever, have the same one, and the same bytes', async () => {
  const [a, b] = [project('here'), project('there')];
  fs.utimesSync(path.join(b, 'package.json'), 1e9, 1e9);
  const [one, two] = [await packProject(a), await packProject(b)];
  expect(one.name).toMatch(/^_ray_pkg_[0-9a-f]{16}\.zip$/);
  expect(two.name).toBe(one.name);
  expect((await two.zip()).equals(await one.zip())).toBe(true);

  fs.writeFileSync(path.join(b, 'src/train.ts'), 'train();');
  expect((await packProject(b)).name).not.toBe(one.name);
  fs.writeFileSync(path.join(b, 'src/train.ts'), 'train()');
  expect((await packProject(b)).name).toBe(one.name);
  fs.chmodSync(path.join(b, 'src/train.ts'), 0o755);
  expect((await packProject(b)).name).not.toBe(one.name);
});

test('the zip is one that others read, with what may be run', async () => {
  const root = project('zip');
  fs.chmodSync(path.join(root, 'new.ts'), 0o755);
  fs.writeFileSync(path.join(scratch, 'it.zip'), await (await packProject(root)).zip());
  const code = `import zipfile, json
z = zipfile.ZipFile('it.zip'); assert z.testzip() is None
print(json.dumps({i.filename: [z.read(i).decode(), oct(i.external_attr >> 16)] for i in z.infolist()}))`;
  const read = JSON.parse(execFileSync('python3', ['-c', code], { cwd: scratch, encoding: 'utf8' }));
  expect(read).toEqual({
    '.gitignore': ['dist\ndata\n', '0o100644'],
    'new.ts': ['not yet added', '0o100755'],
    'package.json': ['{}', '0o100644'],
    'src/train.ts': ['train()', '0o100644'],
  });
});

test('a project that is too large says which files are', async () => {
  const root = project('large');
  await expect(packProject(root, { include: ['data'], limit: 500 })).rejects.toThrow(
    `the files of the project ${root} are larger than 500 B, the limit of an upload; the largest are data/large.bin (1000 B), `,
  );
  await expect(packProject(root, { include: ['missing'] })).rejects.toThrow(
    `include: 'missing' is not in the project ${root}`,
  );
  await expect(packProject(root, { include: ['../zip'] })).rejects.toThrow(
    `include: '../zip' is outside of the project ${root}`,
  );
});

test('a project is where its package.json is', () => {
  const root = project('nested');
  expect(projectOf(path.join(root, 'src/train.ts'))).toBe(root);
  expect(projectOf('/proc/version')).toBe('/proc');
});

test('a script is run from the project that it belongs to', () => {
  const root = fs.realpathSync(project('own'));
  const place = (script: string, cwd = root) => scriptInProject(script, cwd);
  expect(place('dist/train.js')).toEqual({ project: root, script: 'dist/train.js' });
  expect(place('train', path.join(root, 'dist'))).toEqual({ project: root, script: 'dist/train.js' }); // node train

  // A command of a package, as npm has it: it is the project's, wherever one stands, also where the package is a link.
  const command = (modules: string, name = 'tsx') => {
    fs.mkdirSync(path.join(modules, '.bin'), { recursive: true });
    fs.symlinkSync(`../${name}/index.js`, path.join(modules, '.bin', name));
    return path.join(modules, '.bin', name);
  };
  const own = { project: root, script: 'node_modules/tsx/index.js' };
  expect(place('node_modules/tsx/index.js')).toEqual(own);
  expect(place(command(path.join(root, 'node_modules')), scratch)).toEqual(own);
  fs.symlinkSync(path.join(root, 'src'), path.join(root, 'node_modules/linked'));
  fs.writeFileSync(path.join(root, 'src/index.js'), '');
  const linked = { project: root, script: 'node_modules/linked/index.js' };
  expect(place(command(path.join(root, 'node_modules'), 'linked'))).toEqual(linked);

  // One of the whole machine, or of npx's cache: the project one is in, if it has it.
  for (const name of ['lib', '_npx/1']) {
    const everywhere = path.join(scratch, 'machine', name);
    fs.cpSync(path.join(root, 'node_modules/tsx'), path.join(everywhere, 'node_modules/tsx'), { recursive: true });
    if (name !== 'lib') fs.writeFileSync(path.join(everywhere, 'package.json'), '{}');
    const tool = command(path.join(everywhere, 'node_modules'));
    expect(place(tool)).toEqual(own);
    expect(() => place(tool, scratch)).toThrow(
      /^workers run \S+tsx.index.js again, but it is not in a project that can be uploaded: run `npm install tsx` in your project and start it from there, as with npx$/,
    );
    // `npm link`, or npx in the package's own folder: what is linked is a project itself.
    fs.symlinkSync(path.join(root, 'src'), path.join(everywhere, 'node_modules/linked'));
    expect(place(command(path.join(everywhere, 'node_modules'), 'linked'), scratch)).toEqual({
      project: root,
      script: 'src/index.js',
    });
  }
});
