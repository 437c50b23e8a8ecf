// A project as Ray takes it: a zip that is named by its content, so that what was uploaded once is not uploaded again.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import yazl from 'yazl';
import { ArgumentError } from '../base/errors.js';
import { bytes as show } from '../base/format.js';
import type { RayCluster } from './jobs.js';

export interface PackOptions {
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

/** Reads a project: what git would commit (or, without git, all), never node_modules, with what is asked for besides. */
export async function packProject(root: string, options: PackOptions = {}): Promise<Pack> {
  const { include = [], extra = {}, limit = LIMIT } = options;
  const listed = (await gitFiles(root)) ?? (await walk(root));
  const added = (await Promise.all(include.map((name) => included(root, name)))).flat();
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
export async function upload(cluster: RayCluster, pack: Pack): Promise<{ uri: string; uploaded: boolean }> {
  const uploaded = !(await cluster.hasPackage(pack.name));
  if (uploaded) await cluster.putPackage(pack.name, await pack.zip());
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

/** What git has or would take, relative to the folder; undefined where there is no git. */
async function gitFiles(root: string): Promise<string[] | undefined> {
  const list = ['-C', root, 'ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const listed = await promisify(execFile)('git', list, { maxBuffer: 2 ** 28 }).catch(() => undefined);
  return listed?.stdout.split('\0').filter((name) => name && !isNever(name));
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
  const relative = path.relative(root, full).split(path.sep).join('/');
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
