// A project as Ray takes it: a zip that is named by its content, so that what was uploaded once is not uploaded again.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { mkdtemp, readdir, readFile, realpath, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import yazl from 'yazl';
import { ArgumentError } from '../base/errors.js';
import { plural, bytes as show } from '../base/format.js';
import { notice } from '../base/log.js';
import { holdsSecret, isCredential, MARKS_OF_HOME } from './credentials.js';
import type { RayCluster } from './jobs.js';

export interface PackOptions {
  /** What workers run. Where it is ignored (compiled), the folder of the project that it is in comes along. */
  readonly script?: string;
  /**
   * Ignored files and folders that are to come along after all: `['dist']`. Relative to the project. Credentials in a folder
   * stay here: a file that holds some is only sent if it is named itself.
   */
  readonly include?: readonly string[];
  /** Files that are not in the project: name to content. */
  readonly extra?: Readonly<Record<string, Uint8Array>>;
  /** The most the files may have together, in bytes. Default 100 MiB, which is what Ray takes. */
  readonly limit?: number;
}

export interface LeftOut {
  readonly name: string;
  readonly why: string;
  /** It has, or looks like it has, a secret. */
  readonly isCredential: boolean;
}

export interface Pack {
  /** Of names, contents and modes: the same project gives the same name everywhere. */
  readonly name: string;
  readonly files: readonly string[];
  /** What is in the project, and is not sent. */
  readonly leftOut: readonly LeftOut[];
  /** Of all files, in bytes. */
  readonly size: number;
  readonly zip: () => Promise<Buffer>;
}

const LIMIT = 100 * 2 ** 20;
const NEVER = new Set(['node_modules', '.git', '.venv', '__pycache__', '.DS_Store']);

/** The folder above a file that has a package.json, else the file's own. */
export function projectOf(file: string): string {
  const own = path.dirname(path.resolve(file));
  for (let folder = own; ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, 'package.json'))) return folder;
    if (folder === path.dirname(folder)) return own;
  }
}

/**
 * The project that a program's script belongs to, and the script's place there, where workers run it. A script in node_modules
 * (`npx tsxla`) belongs to who has installed it; one that is installed for the whole machine, to the project one is in.
 */
export function placeOf(script: string, cwd = process.cwd()): { readonly project: string; readonly script: string } {
  const given = path.resolve(cwd, script);
  const full = statSync(given, { throwIfNoEntry: false })?.isFile() ? given : createRequire(given).resolve(given); // `node .`
  // A command is a link to a file of its package.
  const file = lstatSync(full).isSymbolicLink() ? path.resolve(path.dirname(full), readlinkSync(full)) : full;
  const [, owner, inside] = /^(.*?)[\\/](node_modules[\\/].*)$/.exec(file) ?? [];
  if (owner === undefined || inside === undefined) return placeIn(projectOf(file), file);
  const isCache = /[\\/]_npx[\\/]/.test(owner);
  const projects = [...(isCache ? [] : [owner]), projectOf(path.join(cwd, 'package.json'))];
  const project = projects.find((p) => [inside, 'package.json'].every((name) => existsSync(path.join(p, name))));
  if (project) return placeIn(project, path.join(project, inside));
  const linked = realpathSync(file); // `npm link` links to a project
  if (!/[\\/]node_modules[\\/]/.test(linked)) return placeIn(projectOf(linked), linked);
  const name = /^node_modules.((?:@[^\\/]+.)?[^\\/]+)/.exec(inside)![1];
  throw new ArgumentError(
    `workers run ${file} again, and it is in no project that could be uploaded to them: npm install ${name} in yours, and start it there, as with npx`,
  );
}
const placeIn = (project: string, file: string) => ({ project, script: slashed(path.relative(project, file)) });
const slashed = (name: string): string => name.split(path.sep).join('/');

interface Entry {
  readonly name: string;
  readonly content: Uint8Array;
  readonly mode: number;
}

/**
 * Reads a project: what git has or would take, with what is named besides; never node_modules. Untracked files that hold
 * credentials are left out unless `include` names them one by one, and so are links that lead out of the project.
 */
export async function packProject(root: string, options: PackOptions = {}): Promise<Pack> {
  const { include = [], extra = {}, limit = LIMIT, script } = options;
  const base = await realpath(root).catch(() => {
    throw new ArgumentError(`there is no project ${root}`);
  });
  refuseHome(base);
  const asked = new Asked(base);
  for (const name of include) await asked.add(name);
  const tracked = await asked.addProject(include.length > 0);
  if (script !== undefined && !asked.files.has(script) && !isNever(script)) await asked.add(script.split('/')[0]!);
  if (script !== undefined) asked.named.add(script);
  for (const name of builtFiles(base)) await asked.add(name);

  const entries: Entry[] = [];
  const leftOut: LeftOut[] = [];
  let size = 0;
  for (const name of [...asked.files].filter((file) => !(file in extra)).sort()) {
    const file = await look(base, name, tracked, asked.named);
    if (!file) continue;
    if ('why' in file) {
      if (asked.named.has(name)) throw new ArgumentError(`include: '${name}' is not sent: ${file.why}`);
      leftOut.push(file);
      continue;
    }
    size += file.content.length;
    if (size > limit) throw new ArgumentError(await tooLarge(base, [...asked.files], limit));
    entries.push(file);
  }
  for (const [name, content] of Object.entries(extra)) entries.push({ name, content, mode: 0o100644 });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));

  const hash = createHash('sha256');
  for (const { name, content, mode } of entries) hash.update(`${name}\0${mode}\0${content.length}\0`).update(content);
  return {
    name: `_ray_pkg_${hash.digest('hex').slice(0, 16)}.zip`,
    files: entries.map((e) => e.name),
    leftOut,
    size: entries.reduce((sum, { content }) => sum + content.length, 0),
    zip: () => zipOf(entries),
  };
}

/** A folder of somebody's private files, or one that many programs share, is never uploaded as a project. */
function refuseHome(base: string): void {
  const mark = MARKS_OF_HOME.find((name) => existsSync(path.join(base, name)));
  const reals = (folders: readonly string[]) => folders.filter((f) => existsSync(f)).map((f) => realpathSync(f));
  const what = mark
    ? `has ${mark}, as home folders do`
    : reals(homes()).some((home) => !isOutside(path.relative(base, home)))
      ? 'is your home folder, or contains it'
      : reals([os.tmpdir(), '/tmp', '/var/tmp']).includes(base)
        ? 'is a folder for temporary files'
        : undefined;
  if (what)
    throw new ArgumentError(
      `${base} ${what}, and is not uploaded: give the program a folder of its own with a package.json (run \`npm init\` there)`,
    );
}
/** By the environment, and by the list of users. */
function homes(): string[] {
  try {
    return [os.homedir(), os.userInfo().homedir];
  } catch {
    return [os.homedir()]; // a user without an entry, as in containers
  }
}

/** The files that are to be uploaded, by their paths in the project. */
class Asked {
  readonly files = new Set<string>();
  /** Those that the user has named one by one. */
  readonly named = new Set<string>();
  readonly #folders = new Set<string>();
  constructor(readonly base: string) {}

  /** A file or a folder that is named. */
  async add(name: string): Promise<void> {
    const full = path.resolve(this.base, name);
    const relative = slashed(path.relative(this.base, full));
    if (isOutside(relative)) throw new ArgumentError(`include: '${name}' is outside of the project ${this.base}`);
    const info = await stat(full).catch(() => undefined);
    if (!info) throw new ArgumentError(`include: '${name}' is not in the project ${this.base}`);
    (info.isDirectory() ? this.#folders : this.named).add(relative);
    for (const file of info.isDirectory() ? await walk(this.base, relative) : [relative]) this.files.add(file);
  }

  /** What belongs to the project; gives those of them that git tracks. */
  async addProject(hasNamed: boolean): Promise<ReadonlySet<string>> {
    const { base } = this;
    const isPackage = existsSync(path.join(base, 'package.json'));
    const listed = (await gitFiles(base)) ?? (isPackage ? await withoutGit(base) : undefined);
    if (!listed && !hasNamed)
      throw new ArgumentError(
        `${base} has no package.json and is in no git repository, so that all of it would be uploaded: run \`npm init\` or ` +
          '`git init` there, or name the files that workers need with --include (ray: { include: [...] })',
      );
    for (const { name } of listed ?? []) if (!isNever(name) && !this.#folders.has(name)) this.files.add(name);
    return new Set(listed?.filter(({ isTracked }) => isTracked).map(({ name }) => name));
  }
}

/** A file as it is sent, or why it is not; undefined where it is gone. Links are judged by what they lead to. */
async function look(
  base: string,
  name: string,
  tracked: ReadonlySet<string>,
  named: ReadonlySet<string>,
): Promise<Entry | LeftOut | undefined> {
  const out = (why: string, isCredential = false): LeftOut => ({ name, why, isCredential });
  const full = path.join(base, name);
  if (name.includes('\ufffd') || name.includes('\\')) return out('its name has bytes that a zip cannot have');
  const real = await realpath(full).catch(() => undefined);
  if (real === undefined)
    return lstatSync(full, { throwIfNoEntry: false }) && out('it is a link to nothing, or cannot be read'); // else deleted, and git does not know yet
  const target = slashed(path.relative(base, real));
  if (isOutside(target)) return out(`it is a link to ${printable(real)}, outside of the project: copy that file`);
  const info = await stat(real);
  if (info.isDirectory())
    return out(
      target === name ? 'it is a git repository of its own: name it with --include' : 'it is a link to a folder',
    );
  if (!info.isFile()) return out('it is not a regular file');
  if (target !== name && isNever(target)) return out(`it is a link to ${printable(target)}`);
  const isMeant = (file: string) => tracked.has(file) || named.has(file);
  const looksPrivate = [name, target].some((file) => isCredential(file) && !isMeant(file));
  if (looksPrivate) return out('it looks like a credential', true);
  const content = await readFile(real).catch((e: NodeJS.ErrnoException) => {
    throw new ArgumentError(
      `${name} of the project ${base} cannot be read (${e.code}): make it readable, or name it in .gitignore`,
    );
  });
  if (!isMeant(target) && holdsSecret(name, content)) return out('it has a private key or a secret', true);
  return { name, content, mode: info.mode & 0o111 ? 0o100755 : 0o100644 };
}

/** What git ignores in a clone of tsxla, and workers need: the built package. */
function builtFiles(base: string): string[] {
  const { name, files } = packageIn(base);
  if (name !== 'tsxla' || !Array.isArray(files)) return [];
  const missing = files.find((file) => !existsSync(path.join(base, file)));
  if (missing === undefined) return files;
  throw new ArgumentError(`${base} is tsxla itself, and has no ${missing}: run \`npm run build\` there`);
}
function packageIn(folder: string): { readonly name?: unknown; readonly files?: unknown } {
  try {
    return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) ?? {};
  } catch {
    return {}; // npm says what is wrong with it
  }
}

/** Uploads a pack unless the cluster has it, says what is sent, and gives the address under which jobs name it. */
export async function upload(
  cluster: RayCluster,
  pack: Pack,
  signal?: AbortSignal,
): Promise<{ uri: string; uploaded: boolean }> {
  const uploaded = !(await cluster.hasPackage(pack.name));
  const { files, size, leftOut } = pack;
  const what = `${plural(files.length, 'file')}, ${show(size)}`;
  notice(
    uploaded ? `uploading ${what} to ${cluster.url.origin}` : `already uploaded to ${cluster.url.origin}: ${what}`,
  );
  for (const line of describeLeftOut(leftOut)) notice(line);
  if (uploaded) await cluster.putPackage(pack.name, await pack.zip(), signal);
  return { uri: `gcs://${pack.name}`, uploaded };
}

const NAMED = 5;
/** What was left out, in words: how many files, and the first of them. */
export function describeLeftOut(leftOut: readonly LeftOut[]): string[] {
  const list = (files: readonly LeftOut[], show: (file: LeftOut) => string) =>
    files.slice(0, NAMED).map(show).join(', ') + (files.length > NAMED ? `, ... (${files.length - NAMED} more)` : '');
  const [credentials, others] = [true, false].map((is) => leftOut.filter((file) => file.isCredential === is));
  return [
    ...(credentials!.length
      ? [
          `not uploaded: ${plural(credentials!.length, 'untracked file')} with credentials: ${list(credentials!, (f) => printable(f.name))}. ` +
            `To upload one, name it: --include ${printable(credentials![0]!.name)}`,
        ]
      : []),
    ...(others!.length ? [`not uploaded: ${list(others!, (f) => `${printable(f.name)} (${f.why})`)}`] : []),
  ];
}
/** A file name on one line. */
const printable = (name: string): string => (/[\p{C}'"]/u.test(name) ? JSON.stringify(name) : name);

async function zipOf(entries: readonly Entry[]): Promise<Buffer> {
  const zip = new yazl.ZipFile();
  // 1980 is the first year a zip knows: the same files give the same bytes.
  const mtime = new Date(1980, 0, 1);
  for (const { name, content, mode } of entries)
    zip.addBuffer(Buffer.from(content.buffer, content.byteOffset, content.length), name, { mtime, mode });
  zip.end();
  const parts: Buffer[] = [];
  for await (const part of zip.outputStream) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

const isNever = (name: string) => name.split('/').some((part) => NEVER.has(part));

interface Listed {
  readonly name: string;
  readonly isTracked: boolean;
}
const LIST = ['ls-files', '-t', '--cached', '--others', '--exclude-standard', '-z'];

/** What git has or would take, relative to the folder; undefined where there is no git, or one that ignores the folder. */
async function gitFiles(base: string): Promise<Listed[] | undefined> {
  const { stdout, missing, error } = await git(['-C', base, ...LIST]);
  if (missing && !isInGit(base)) return undefined;
  if (missing)
    throw new ArgumentError(
      `${base} is in a git repository, and git is not installed: which files it ignores is not known`,
    );
  if (error !== undefined && !/not a git repository/.test(error))
    throw new ArgumentError(`git cannot list the files of ${base}: ${error}`);
  return stdout ? listedIn(stdout) : undefined;
}

/** What git would take if the project were a repository: its .gitignore files count. */
async function withoutGit(base: string): Promise<Listed[]> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'tsxla-list-'));
  try {
    const { missing } = await git(['init', '--quiet', '--bare', folder]);
    if (missing && existsSync(path.join(base, '.gitignore')))
      throw new ArgumentError(`${base} has a .gitignore, and git, which reads it, is not installed`);
    if (missing) return (await walk(base)).map((name) => ({ name, isTracked: false }));
    const { stdout, error } = await git(['-C', base, `--git-dir=${folder}`, `--work-tree=${base}`, ...LIST]);
    if (error !== undefined) throw new ArgumentError(`git cannot list the files of ${base}: ${error}`);
    return listedIn(stdout);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Each name has a letter before it, which is ? for those that are not tracked. */
const listedIn = (stdout: string): Listed[] =>
  stdout
    .split('\0')
    .filter(Boolean)
    .map((line) => ({ name: line.slice(2).replace(/\/$/, ''), isTracked: line[0] !== '?' }));

async function git(args: string[]): Promise<{ stdout: string; missing?: boolean; error?: string }> {
  const own = Object.entries(process.env).filter(([name]) => !/^GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX)$/.test(name)); // of a hook
  const env = { ...Object.fromEntries(own), LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0' };
  try {
    return await promisify(execFile)('git', args, { maxBuffer: 2 ** 28, env });
  } catch (e) {
    const { code, stderr, message } = e as NodeJS.ErrnoException & { readonly stderr?: string };
    if (code === 'ENOENT') return { stdout: '', missing: true };
    return { stdout: '', error: (stderr || message).trim().replaceAll(/\s*\n\s*/g, ' ') };
  }
}

const isInGit = (folder: string): boolean =>
  existsSync(path.join(folder, '.git')) || (folder !== path.dirname(folder) && isInGit(path.dirname(folder)));

/** The files and links of a folder. What is never taken is, if the folder is in one: the user has named it. */
async function walk(base: string, folder = ''): Promise<string[]> {
  const never = [...NEVER].filter((name) => !folder.split('/').includes(name));
  const names: string[] = [];
  const visit = async (at: string): Promise<void> => {
    for (const entry of await readdir(path.join(base, at), { withFileTypes: true })) {
      const isBin = entry.name === '.bin' && path.posix.basename(at) === 'node_modules'; // links that mean nothing as files
      if (never.includes(entry.name) || isBin) continue;
      const name = path.posix.join(at, entry.name);
      if (entry.isDirectory()) await visit(name);
      else names.push(name);
    }
  };
  await visit(folder);
  return names;
}

const isOutside = (relative: string): boolean => /^\.\.([\\/]|$)/.test(relative) || path.isAbsolute(relative);

async function tooLarge(root: string, files: readonly string[], limit: number): Promise<string> {
  const sizes = await Promise.all(
    files.map(async (name) => ({ name, size: (await stat(path.join(root, name)).catch(() => undefined))?.size ?? 0 })),
  );
  const largest = sizes.sort((a, b) => b.size - a.size).slice(0, 3);
  return (
    `the project ${root} has more than ${show(limit)} of files, which is the most that is uploaded; the largest are ` +
    `${largest.map(({ name, size }) => `${name} (${show(size)})`).join(', ')}. Name them in .gitignore, and keep data on a disk that the workers see`
  );
}
