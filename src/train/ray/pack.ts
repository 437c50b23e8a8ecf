// Packs a project as a zip for Ray. The name is a hash of the content, so that an unchanged project is uploaded only once.
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { ArgumentError } from '../../base/errors.js';
import { plural, bytes as show } from '../../base/format.js';
import { notice } from '../../base/log.js';
import {
  builtFiles,
  type Entry,
  FileSelection,
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
  /** The script that workers run. If git ignores it (compiled code), its top folder in the project is uploaded too. */
  readonly script?: string;
  /**
   * Ignored files and folders to upload, relative to the project, such as `['dist']`. A file with credentials is only uploaded if
   * it is named itself.
   */
  readonly include?: readonly string[];
  /** Additional files, by name. */
  readonly extra?: Readonly<Record<string, Uint8Array>>;
  /** The largest total size of the files, in bytes. Default: 100 MiB, Ray's limit. */
  readonly limit?: number;
}

export interface Pack {
  /** A hash of names, contents and modes: the same project has the same name on every machine. */
  readonly name: string;
  readonly files: readonly string[];
  /** Files of the project that are not uploaded. */
  readonly leftOut: readonly LeftOut[];
  /** Total size of the files, in bytes. */
  readonly size: number;
  readonly zip: () => Promise<Buffer>;
}

const LIMIT = 100 * 2 ** 20;

/** The nearest folder above a file that has a package.json, else the file's folder. */
export function projectOf(file: string): string {
  const own = path.dirname(path.resolve(file));
  for (let folder = own; ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, 'package.json'))) return folder;
    if (folder === path.dirname(folder)) return own;
  }
}

/**
 * The project that a script belongs to, and the script's path in it, where workers run it. A script in node_modules (`npx tsxla`)
 * belongs to the project that installed it; a globally installed one, to the project of the current folder.
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
    `workers run ${file} again, but it is not in a project that can be uploaded: run \`npm install ${name}\` in your project and start it from there, as with npx`,
  );
}
const placeIn = (project: string, file: string) => ({ project, script: slashed(path.relative(project, file)) });

/**
 * Reads a project: the files that git tracks or would add and those of `include`; never node_modules. Links out of the project
 * are left out, and so are untracked files with credentials unless `include` names each of them.
 */
export async function packProject(root: string, options: PackOptions = {}): Promise<Pack> {
  const { include = [], extra = {}, limit = LIMIT, script } = options;
  const base = await realpath(root).catch(() => {
    throw new ArgumentError(`the project ${root} does not exist`);
  });
  refuseHome(base);
  const selection = new FileSelection(base);
  for (const name of include) await selection.add(name);
  const tracked = await selection.addProject(include.length > 0);
  if (script !== undefined && !selection.files.has(script) && !isNever(script))
    await selection.add(script.split('/')[0]!);
  if (script !== undefined) selection.named.add(script);
  for (const name of builtFiles(base)) await selection.add(name);

  const entries: Entry[] = [];
  const leftOut: LeftOut[] = [];
  let size = 0;
  for (const name of [...selection.files].filter((file) => !Object.hasOwn(extra, file)).sort()) {
    const file = await look(base, name, { tracked, named: selection.named, room: limit - size });
    if (!file) continue;
    if (file === 'too large') throw new ArgumentError(await tooLarge(base, [...selection.files], limit));
    if ('why' in file) {
      if (selection.named.has(name)) throw new ArgumentError(`include: '${name}' cannot be uploaded: ${file.why}`);
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

/** Uploads a pack unless the cluster has it, and logs what is uploaded. Returns the URI for jobs. */
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
/** Log lines about the files that were left out: how many, and the first of them. */
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
  // A fixed time (1980 is the first year of zip) so that the same files give the same bytes.
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
    `the files of the project ${root} are larger than ${show(limit)}, the limit of an upload; the largest are ` +
    `${largest.map(({ name, size }) => `${name} (${show(size)})`).join(', ')}. Add them to .gitignore, and keep data on a disk that the workers share`
  );
}
