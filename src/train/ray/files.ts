// Selects the files of a project to upload: those that git tracks or would add and those that the user names, without credentials
// and without files from outside the project.
import { execFile } from 'node:child_process';
import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { ArgumentError } from '../../base/errors.js';
import { isInside } from '../../base/folder.js';
import { anyObject, readJsonSync } from '../../base/json.js';
import { temporaryFolder } from '../../base/temporary.js';
import { holdsSecret, isCredential, MARKS_OF_HOME } from './credentials.js';

export interface LeftOut {
  readonly name: string;
  readonly why: string;
  /** Whether it has, or seems to have, a secret. */
  readonly isCredential: boolean;
}

/** A file to upload. */
export interface Entry {
  readonly name: string;
  readonly content: Uint8Array;
  readonly mode: number;
}

const NEVER = new Set(['node_modules', '.git', '.venv', '__pycache__', '.DS_Store']);
export const isNever = (name: string) => name.split('/').some((part) => NEVER.has(part));
export const slashed = (name: string): string => name.split(path.sep).join('/');
/** A file name on one line. */
export const quotedName = (name: string): string => (/[\p{C}'"]/u.test(name) ? JSON.stringify(name) : name);

/** Throws for home folders and folders for temporary files: they are never uploaded as a project. */
export function refuseHome(base: string): void {
  const mark = MARKS_OF_HOME.find((name) => existsSync(path.join(base, name)));
  const reals = (folders: readonly string[]) => folders.filter((f) => existsSync(f)).map((f) => realpathSync(f));
  const what = mark
    ? `has ${mark}, as home folders do`
    : reals(homes()).some((home) => isInside(base, home))
      ? 'is your home folder, or contains it'
      : reals([os.tmpdir(), '/tmp', '/var/tmp']).includes(base)
        ? 'is a folder for temporary files'
        : undefined;
  if (what)
    throw new ArgumentError(
      `${base} ${what}, and is not uploaded: move the program to a separate folder with a package.json (run \`npm init\` there)`,
    );
}
/** The user's home folders: by the environment and by the list of users. */
function homes(): string[] {
  try {
    return [os.homedir(), os.userInfo().homedir];
  } catch {
    return [os.homedir()]; // a user without an entry, as in containers
  }
}

/** The files selected for the upload, by their paths in the project. */
export class FileSelection {
  readonly files = new Set<string>();
  /** Files that the user named individually. */
  readonly named = new Set<string>();
  readonly #folders = new Set<string>();
  constructor(readonly base: string) {}

  /** Adds a file or folder that the user named. */
  async add(name: string): Promise<void> {
    const full = path.resolve(this.base, name);
    const relative = slashed(path.relative(this.base, full));
    if (!isInside(this.base, full))
      throw new ArgumentError(`include: '${name}' is outside of the project ${this.base}`);
    const info = await stat(full).catch(() => undefined);
    if (!info) throw new ArgumentError(`include: '${name}' is not in the project ${this.base}`);
    (info.isDirectory() ? this.#folders : this.named).add(relative);
    for (const file of info.isDirectory() ? await walk(this.base, relative) : [relative]) this.files.add(file);
  }

  /** Adds the files of the project. Returns those that git tracks. */
  async addProject(hasNamed: boolean): Promise<ReadonlySet<string>> {
    const { base } = this;
    const isPackage = existsSync(path.join(base, 'package.json'));
    const listed = (await gitFiles(base)) ?? (isPackage ? await withoutGit(base) : undefined);
    if (!listed && !hasNamed)
      throw new ArgumentError(
        `${base} has no package.json and is not in a git repository, so all its files would be uploaded: run \`npm init\` or ` +
          '`git init` there, or name the files that workers need with --include (ray: { include: [...] })',
      );
    for (const { name } of listed ?? []) if (!isNever(name) && !this.#folders.has(name)) this.files.add(name);
    return new Set(listed?.filter(({ isTracked }) => isTracked).map(({ name }) => name));
  }
}

/** What decides about a file: secrets are allowed in files that git tracks or that the user names. */
interface Judged {
  readonly tracked?: ReadonlySet<string>;
  readonly named?: ReadonlySet<string>;
  /** The largest size of a file, in bytes. */
  readonly room?: number;
}
const NONE: ReadonlySet<string> = new Set();

/** Reads a file to upload, or returns why it is not uploaded; undefined if it was deleted. Links are checked by their targets. */
export async function look(
  base: string,
  name: string,
  { tracked = NONE, named = NONE, room = Number.POSITIVE_INFINITY }: Judged = {},
): Promise<Entry | LeftOut | 'too large' | undefined> {
  const out = (why: string, isCredential = false): LeftOut => ({ name, why, isCredential });
  const full = path.join(base, name);
  if (name.includes('\ufffd') || name.includes('\\')) return out('its name has bytes that a zip cannot store');
  const real = await realpath(full).catch(() => undefined);
  if (real === undefined)
    return lstatSync(full, { throwIfNoEntry: false }) && out('it is a broken link, or cannot be read'); // else git still lists a deleted file
  const target = slashed(path.relative(base, real));
  if (!isInside(base, real)) return out(`it is a link to ${quotedName(real)}, outside the project: copy that file`);
  const info = await stat(real);
  if (info.isDirectory())
    return out(
      target === name ? 'it is a separate git repository: name it with --include' : 'it is a link to a folder',
    );
  if (!info.isFile()) return out('it is not a regular file');
  if (target !== name && isNever(target)) return out(`it is a link to ${quotedName(target)}`);
  const isMeant = (file: string) => tracked.has(file) || named.has(file);
  const looksPrivate = [name, target].some((file) => isCredential(file) && !isMeant(file));
  if (looksPrivate) return out('it looks like a credential', true);
  if (info.size > room) return 'too large';
  const content = await readFile(real).catch((e: NodeJS.ErrnoException) => {
    throw new ArgumentError(
      `${name} of the project ${base} cannot be read (${e.code}): make it readable, or add it to .gitignore`,
    );
  });
  if (!isMeant(target) && holdsSecret(name, content)) return out('it has a private key or a secret', true);
  return { name, content, mode: info.mode & 0o111 ? 0o100755 : 0o100644 };
}

/** The built package of a clone of tsxla, which git ignores but workers need. */
export function builtFiles(base: string): string[] {
  const { name, files } = packageIn(base);
  if (name !== 'tsxla' || !Array.isArray(files) || !files.every((file) => typeof file === 'string')) return [];
  const packed = files.filter((file) => !file.startsWith('!')); // the others say what npm leaves out
  const missing = packed.find((file) => !existsSync(path.join(base, file)));
  if (missing === undefined) return packed;
  throw new ArgumentError(`${base} is tsxla itself, and has no ${missing}: run \`npm run build\` there`);
}
/** The folder in the upload with a tsxla that the project links to. The driver installs it (driver/start.py). */
const LINKED = 'tsxla_package';

/** The files of a built tsxla linked by `npm link` or a file: dependency: other machines do not have the target of the link. */
export async function linkedPackage(project: string): Promise<Record<string, Uint8Array>> {
  const link = path.join(project, 'node_modules/tsxla');
  const real = lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() && (await realpath(link).catch(() => ''));
  if (!real || /[\\/]node_modules[\\/]/.test(real)) return {}; // pnpm's links lead into node_modules
  const { scripts: _, devDependencies: __, ...own } = packageIn(real);
  const files: Record<string, Uint8Array> = { [`${LINKED}/package.json`]: Buffer.from(JSON.stringify(own)) };
  const selection = new FileSelection(real);
  for (const name of builtFiles(real)) await selection.add(name);
  for (const name of selection.files) {
    const file = await look(real, name);
    if (file && typeof file === 'object' && 'content' in file) files[`${LINKED}/${name}`] = file.content;
  }
  return files;
}

const packageIn = (folder: string): Readonly<Record<string, unknown>> => ({
  ...readJsonSync(path.join(folder, 'package.json'), anyObject),
});

interface Listed {
  readonly name: string;
  readonly isTracked: boolean;
}
const LIST = ['ls-files', '-t', '--cached', '--others', '--exclude-standard', '-z'];

/** Files that git tracks or would add, relative to the folder; undefined without a repository, or if git ignores the folder. */
async function gitFiles(base: string): Promise<Listed[] | undefined> {
  const { stdout, missing, error } = await git(['-C', base, ...LIST]);
  if (missing && !isInGit(base)) return undefined;
  if (missing)
    throw new ArgumentError(
      `${base} is in a git repository, but git, which knows the ignored files, is not installed: install git`,
    );
  if (error !== undefined && !/not a git repository/.test(error))
    throw new ArgumentError(`git cannot list the files of ${base}: ${error}`);
  return stdout ? listedIn(stdout) : undefined;
}

/** Files that git would add if the project were a repository, so that .gitignore is respected. */
async function withoutGit(base: string): Promise<Listed[]> {
  const folder = await temporaryFolder('list');
  try {
    const { missing } = await git(['init', '--quiet', '--bare', folder.path]);
    if (missing && existsSync(path.join(base, '.gitignore')))
      throw new ArgumentError(`${base} has a .gitignore, but git, which reads it, is not installed: install git`);
    if (missing) return (await walk(base)).map((name) => ({ name, isTracked: false }));
    const { stdout, error } = await git(['-C', base, `--git-dir=${folder.path}`, `--work-tree=${base}`, ...LIST]);
    if (error !== undefined) throw new ArgumentError(`git cannot list the files of ${base}: ${error}`);
    return listedIn(stdout);
  } finally {
    await folder.remove();
  }
}

/** Parses `git ls-files -t`: a letter is before each name, ? for untracked files. */
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

/** The files and links of a folder. Folders of NEVER are skipped, unless the given folder is inside one. */
async function walk(base: string, folder = ''): Promise<string[]> {
  const never = [...NEVER].filter((name) => !folder.split('/').includes(name));
  const names: string[] = [];
  const visit = async (at: string): Promise<void> => {
    for (const entry of await entriesOf(path.join(base, at))) {
      const isBin = entry.name === '.bin' && path.posix.basename(at) === 'node_modules'; // links to commands
      if (never.includes(entry.name) || isBin) continue;
      const name = path.posix.join(at, entry.name);
      if (entry.isDirectory()) await visit(name);
      else names.push(name);
    }
  };
  await visit(folder);
  return names;
}

const entriesOf = (folder: string) =>
  readdir(folder, { withFileTypes: true }).catch((e: NodeJS.ErrnoException) => {
    throw new ArgumentError(`the folder ${folder} cannot be read (${e.code}): make it readable, or do not include it`);
  });
