// A project as Ray takes it: a zip that is named by its content, so that what was uploaded once is not uploaded again.
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { ArgumentError } from '../../base/errors.js';
import { plural, bytes as show } from '../../base/format.js';
import { notice } from '../../base/log.js';
import {
  Asked,
  builtFiles,
  type Entry,
  isNever,
  type LeftOut,
  look,
  quotedName,
  refuseHome,
  slashed,
} from './files.js';
import type { RayCluster } from './jobs.js';

export type { LeftOut } from './files.js';

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
export function scriptInProject(
  script: string,
  cwd = process.cwd(),
): { readonly project: string; readonly script: string } {
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
  for (const name of [...asked.files].filter((file) => !Object.hasOwn(extra, file)).sort()) {
    const file = await look(base, name, { tracked, named: asked.named, room: limit - size });
    if (!file) continue;
    if (file === 'too large') throw new ArgumentError(await tooLarge(base, [...asked.files], limit));
    if ('why' in file) {
      if (asked.named.has(name)) throw new ArgumentError(`include: '${name}' is not sent: ${file.why}`);
      leftOut.push(file);
      continue;
    }
    size += file.content.length;
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
          `not uploaded: ${plural(credentials!.length, 'untracked file')} with credentials: ${list(credentials!, (f) => quotedName(f.name))}. ` +
            `To upload one, name it: --include ${quotedName(credentials![0]!.name)}`,
        ]
      : []),
    ...(others!.length ? [`not uploaded: ${list(others!, (f) => `${quotedName(f.name)} (${f.why})`)}`] : []),
  ];
}

async function zipOf(entries: readonly Entry[]): Promise<Buffer> {
  const { default: yazl } = await import('yazl');
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
