// A project as Ray takes it: a zip that is named by its content, so that what was uploaded once is not uploaded again.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import yazl from 'yazl';
import { ArgumentError } from '../base/errors.js';
import { bytes as show } from '../base/format.js';
import type { RayCluster } from './jobs.js';

export interface PackOptions {
  /** What workers run. Where it is ignored (compiled), the folder of the project that it is in comes along. */
  readonly script?: string;
  /** Ignored files and folders that are to come along after all: `['dist']`. Relative to the project. */
  readonly include?: readonly string[];
  /** Files that are not in the project: name to content. */
  readonly extra?: Readonly<Record<string, Uint8Array>>;
  /** The most the files may have together, in bytes. Default 100 MiB, which is what Ray takes. */
  readonly limit?: number;
}

export interface Pack {
  /** Of names, contents and modes: the same project gives the same name everywhere. */
  readonly name: string;
  readonly files: readonly string[];
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

/** Reads a project: what git would commit (or, without git, all), never node_modules, with what is asked for besides. */
export async function packProject(root: string, options: PackOptions = {}): Promise<Pack> {
  const { include = [], extra = {}, limit = LIMIT, script } = options;
  const listed = (await gitFiles(root)) ?? (await walk(root));
  const ignored = script !== undefined && !listed.includes(script) && !isNever(script) ? [script.split('/')[0]!] : [];
  const added = (await Promise.all([...include, ...ignored].map((name) => included(root, name)))).flat();
  const files = [...new Set([...listed, ...added])].filter((name) => !(name in extra)).sort();
  const entries: { name: string; content: Uint8Array; mode: number }[] = [];
  let size = 0;
  for (const name of files) {
    const info = await stat(path.join(root, name)).catch(() => undefined); // deleted, and git does not know yet
    if (!info?.isFile()) continue;
    size += info.size;
    if (size > limit) throw new ArgumentError(await tooLarge(root, files, limit));
    const content = await readFile(path.join(root, name));
    entries.push({ name, content, mode: info.mode & 0o111 ? 0o100755 : 0o100644 });
  }
  for (const [name, content] of Object.entries(extra)) entries.push({ name, content, mode: 0o100644 });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));

  const hash = createHash('sha256');
  for (const { name, content, mode } of entries) hash.update(`${name}\0${mode}\0${content.length}\0`).update(content);
  return {
    name: `_ray_pkg_${hash.digest('hex').slice(0, 16)}.zip`,
    files: entries.map((e) => e.name),
    size,
    zip: () => zipOf(entries),
  };
}

/** Uploads a pack unless the cluster has it, and gives the address under which jobs name it. */
export async function upload(
  cluster: RayCluster,
  pack: Pack,
  signal?: AbortSignal,
): Promise<{ uri: string; uploaded: boolean }> {
  const uploaded = !(await cluster.hasPackage(pack.name));
  if (uploaded) await cluster.putPackage(pack.name, await pack.zip(), signal);
  return { uri: `gcs://${pack.name}`, uploaded };
}

async function zipOf(entries: readonly { name: string; content: Uint8Array; mode: number }[]): Promise<Buffer> {
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

/** What git has or would take, relative to the folder; undefined where there is no git, or one that ignores the folder. */
async function gitFiles(root: string): Promise<string[] | undefined> {
  const list = ['-C', root, 'ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const listed = await promisify(execFile)('git', list, { maxBuffer: 2 ** 28 }).catch(() => undefined);
  return listed?.stdout ? listed.stdout.split('\0').filter((name) => name && !isNever(name)) : undefined;
}

async function walk(root: string, folder = ''): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(path.join(root, folder), { withFileTypes: true })) {
    const name = path.posix.join(folder, entry.name);
    if (NEVER.has(entry.name)) continue;
    if (entry.isDirectory()) names.push(...(await walk(root, name)));
    else if (entry.isFile()) names.push(name);
  }
  return names;
}

async function included(root: string, name: string): Promise<string[]> {
  const full = path.resolve(root, name);
  const relative = slashed(path.relative(root, full));
  if (relative.startsWith('..')) throw new ArgumentError(`include: '${name}' is outside of the project ${root}`);
  const info = await stat(full).catch(() => undefined);
  if (!info) throw new ArgumentError(`include: '${name}' is not in the project ${root}`);
  return info.isDirectory() ? walk(root, relative) : [relative];
}

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
