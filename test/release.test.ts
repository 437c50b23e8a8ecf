// What a release rests on: one version everywhere, a changelog with a section for it, a workflow whose commands exist.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { dated, notes, problems, set } from '../scripts/version.mjs';

const root = path.join(import.meta.dirname, '..');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-release-'));
afterAll(() => fs.rmSync(scratch, { recursive: true }));

const FILES = ['package.json', 'package-lock.json', 'packages/create-tsxla/package.json', 'CHANGELOG.md'];
/** The files of this repository that have the version. */
function copy(): string {
  const folder = fs.mkdtempSync(path.join(scratch, 'copy-'));
  for (const file of FILES) fs.cpSync(path.join(root, file), path.join(folder, file));
  return folder;
}
const edit = (folder: string, file: string, change: (text: string) => string) =>
  fs.writeFileSync(path.join(folder, file), change(fs.readFileSync(path.join(folder, file), 'utf8')));

test('the packages of this repository have one version', () => expect(problems(root)).toEqual([]));

test('a version is set everywhere, and its tag is then right; another tag is not', () => {
  const folder = copy();
  set(folder, '9.1.0', '2026-11-19');
  expect(problems(folder, 'v9.1.0')).toEqual([]);
  for (const file of FILES.slice(0, 3))
    expect(JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8')).version).toBe('9.1.0');
  const changelog = fs.readFileSync(path.join(folder, 'CHANGELOG.md'), 'utf8');
  expect(changelog).toContain('\n## Unreleased\n\n## 9.1.0 - 2026-11-19\n');
  expect(notes(changelog, 'v9.1.0')).toMatch(/^### /);
  expect(problems(folder, 'v9.2.0')).toEqual(['the tag is v9.2.0, and package.json has 9.1.0: tag it v9.1.0']);
  expect(() => set(folder, '9.1.0', '2026-11-19')).toThrow('CHANGELOG.md has 9.1.0 already');
  expect(() => set(folder, '9.2.0', '2026-11-20')).toThrow('nothing under Unreleased: there is nothing to release');
  // Work that came in between the version and the tag.
  edit(folder, 'CHANGELOG.md', (text) => text.replace('## Unreleased\n', '## Unreleased\n\n- Something new.\n'));
  expect(problems(folder, 'v9.1.0')).toEqual([
    'CHANGELOG.md has lines under Unreleased that 9.1.0 would leave out: move them below its heading',
  ]);
});

test('what differs is named', () => {
  const folder = copy();
  const { version } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  edit(folder, 'packages/create-tsxla/package.json', (text) => text.replace(`"${version}"`, '"0.0.9"'));
  expect(problems(folder)).toEqual([
    `packages/create-tsxla/package.json has version 0.0.9, and package.json ${version}`,
  ]);
  expect(() => set(folder, 'next', '2026-11-19')).toThrow('next is no version: write 1.2.3');
});

test('notes are the section of the version, and no more', () => {
  const changelog =
    '# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 - 2026-02-01\n\n### Added\n\n- b\n\n## 0.1.0 - 2026-01-01\n\n- a\n';
  expect(notes(changelog, 'v0.2.0')).toBe('### Added\n\n- b');
  expect(notes(changelog, '0.1.0')).toBe('- a');
  expect(() => notes(changelog, 'v0.3.0')).toThrow('CHANGELOG.md has no section for 0.3.0');
  expect(notes(dated(changelog, '0.3.0', '2026-03-01'), '0.3.0')).toBe('- c');
});

test('the command exits with 1, and says how it is used', () => {
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [path.join(root, 'scripts/version.mjs'), ...args], { encoding: 'utf8' });
  expect(run('check').status).toBe(0);
  expect(run('check', 'v0.0.0')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('the tag is v0.0.0, and'),
  });
  expect(run('set')).toMatchObject({ status: 1, stderr: expect.stringMatching(/^use: node scripts\/version\.mjs/) });
});

test('the files and commands of the workflow exist', () => {
  const workflow = fs.readFileSync(path.join(root, '.github/workflows/release.yml'), 'utf8');
  const files = [...workflow.matchAll(/\b((?:scripts|test)\/[\w./-]+|vitest\.\w+\.config\.ts)/g)].map((m) => m[1]!);
  expect(files.length).toBeGreaterThan(5);
  expect(files.filter((file) => !fs.existsSync(path.join(root, file)))).toEqual([]);
  for (const command of [...workflow.matchAll(/\bnpx ([a-z]+)/g)].map((m) => m[1]!))
    expect(fs.existsSync(path.join(root, 'node_modules/.bin', command)), command).toBe(true);
});
