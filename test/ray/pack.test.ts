// A project as it is uploaded: what is in it, and that its name is its content.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { packProject, placeOf, projectOf } from 'tsxla/ray';
import { afterAll, expect, test } from 'vitest';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-pack-'));
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
  expect((await packProject(inner, { script: 'train.js' })).files).toEqual(['kernel.so', 'train.js']);
});

test('without git all is taken but node_modules', async () => {
  const { files } = await packProject(project('plain', { git: false }));
  expect(files).toEqual(
    Object.keys(FILES)
      .filter((f) => !f.startsWith('node_modules'))
      .sort(),
  );
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
    `the project ${root} has more than 500 B of files, which is the most that is uploaded; the largest are data/large.bin (1000 B), `,
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
  const place = (script: string, cwd = root) => placeOf(script, cwd);
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
      /^workers run \S+tsx.index.js again, and it is in no project that could be uploaded to them: npm install tsx in yours, and start it there, as with npx$/,
    );
    // `npm link`, or npx in the package's own folder: what is linked is a project itself.
    fs.symlinkSync(path.join(root, 'src'), path.join(everywhere, 'node_modules/linked'));
    expect(place(command(path.join(everywhere, 'node_modules'), 'linked'), scratch)).toEqual({
      project: root,
      script: 'src/index.js',
    });
  }
});
