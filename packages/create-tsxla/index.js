#!/usr/bin/env node
// npm create tsxla@latest my-model: copies the template into a new folder and gives it its name.
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

const { version } = JSON.parse(fs.readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const template = new URL('template', import.meta.url);

const USAGE = `Usage: npm create tsxla@latest FOLDER [-- --tsxla SPEC]

Starts a TypeScript project that trains with tsxla, in a new or empty folder.

  --tsxla SPEC  the tsxla to depend on: a version, a range, or the path of a packed .tgz (default: ^${version})
  --help        print this
  --version     print the version`;

/** A mistake of the user's: printed without a stack. */
class Mistake extends Error {}

// npm refuses to install a package into one of the same name.
const TAKEN = ['tsxla', 'tsx', 'typescript', 'eslint', 'typescript-eslint', 'node_modules', 'favicon.ico'];

function checkName(name) {
  const rule = 'use lower-case letters, digits, -, . and _, and begin with a letter or digit (at most 214 of them)';
  if (!/^[a-z0-9][a-z0-9._-]{0,213}$/.test(name))
    throw new Mistake(`'${name}' cannot be the name of a package: ${rule}`);
  if (TAKEN.includes(name)) throw new Mistake(`'${name}' cannot be the name of this project: another package has it`);
}

function checkFolder(folder) {
  const found = fs.statSync(folder, { throwIfNoEntry: false });
  if (found && !found.isDirectory()) throw new Mistake(`${folder} is a file: give the name of a new folder`);
  const there = found ? fs.readdirSync(folder).filter((name) => name !== '.git') : [];
  if (there.length)
    throw new Mistake(`${folder} is not empty: it has ${there.slice(0, 3).join(', ')}. Give a new or an empty folder`);
}

/** What package.json says: of a tarball, its path. */
function dependency(spec) {
  if (!/\.(tgz|tar\.gz)$/.test(spec)) return spec;
  const file = path.resolve(spec);
  if (!fs.existsSync(file)) throw new Mistake(`--tsxla ${spec}: there is no such file`);
  return `file:${file}`;
}

function create(folder, spec) {
  const name = path.basename(path.resolve(folder));
  checkName(name);
  checkFolder(folder);
  const tsxla = dependency(spec);
  fs.cpSync(template, folder, { recursive: true });
  fs.renameSync(path.join(folder, 'gitignore'), path.join(folder, '.gitignore')); // npm packs no .gitignore
  for (const file of ['package.json', 'README.md']) {
    const text = fs.readFileSync(path.join(folder, file), 'utf8');
    fs.writeFileSync(
      path.join(folder, file),
      text.replaceAll('{{name}}', name).replaceAll('"{{tsxla}}"', JSON.stringify(tsxla)),
    );
  }
}

function main() {
  const options = { tsxla: { type: 'string' }, help: { type: 'boolean', short: 'h' }, version: { type: 'boolean' } };
  let parsed;
  try {
    parsed = parseArgs({ options, allowPositionals: true });
  } catch (e) {
    throw new Mistake(`${e.message.split('. ')[0]}\n\n${USAGE}`);
  }
  const { values, positionals } = parsed;
  if (values.help) return console.log(USAGE);
  if (values.version) return console.log(version);
  if (positionals.length !== 1) throw new Mistake(`give one folder, ${positionals.length} are given\n\n${USAGE}`);
  const [folder] = positionals;
  create(folder, values.tsxla ?? `^${version}`);
  const steps = [...(path.resolve(folder) === process.cwd() ? [] : [`cd ${folder}`]), 'npm install', 'npm start'];
  console.log(`Made ${folder}. Next:\n\n${steps.map((step) => `  ${step}`).join('\n')}`);
}

try {
  main();
} catch (e) {
  const isMistake = e instanceof Mistake || e.syscall !== undefined; // a disk that is full, a folder that is not ours
  console.error(isMistake ? `create-tsxla: ${e.message}` : e);
  process.exitCode = 1;
}
