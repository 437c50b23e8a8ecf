// Who else can change a file that is run as code: cached programs and plugin libraries.
import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';

type Access = Pick<Stats, 'uid' | 'mode'>;

/**
 * Why a file or folder must not be trusted, or undefined. Executables are code: a user who can change one can do
 * everything that its owner may. Root can do so anyway.
 */
export function distrust(name: string, { uid, mode }: Access): string | undefined {
  const user = process.getuid?.();
  if (user === undefined) return undefined; // Windows has no such owners and modes
  if (uid !== user && uid !== 0) return `${name} belongs to another user (uid ${uid}, this process is ${user})`;
  if (mode & 0o022) return `others can write to ${name} (mode ${(mode & 0o777).toString(8)}): run chmod go-w on it`;
  return undefined;
}

/**
 * Why every user could exchange `file`: a folder on the way to it that everybody can write to. A sticky one, as /tmp
 * is, protects what lies in it. Symbolic links are followed, and the way to each target is checked too.
 */
export function distrustWay(file: string): string | undefined {
  if (!process.getuid) return undefined;
  for (const dir of foldersOf(path.resolve(file))) {
    const { mode } = statSync(dir);
    if (mode & 0o002 && !(mode & 0o1000))
      return `everybody can write to ${dir}, and so exchange ${file}: run chmod o-w on it`;
  }
  return undefined;
}

/** Both checks for a folder: the folder itself, and the way to it. */
export const distrustFolder = (folder: string): string | undefined =>
  distrust(folder, statSync(folder)) ?? distrustWay(folder);

/** Every folder that is looked into while the system resolves a path, in order. */
function foldersOf(file: string): Set<string> {
  const folders = new Set<string>();
  const rest = partsOf(file);
  let at = path.parse(file).root;
  for (let links = 0; rest.length; ) {
    folders.add(at);
    const next = path.resolve(at, rest.shift()!);
    if (links < 40 && lstatSync(next).isSymbolicLink()) {
      const target = path.resolve(at, readlinkSync(next));
      rest.unshift(...partsOf(target));
      at = path.parse(target).root;
      links++;
    } else at = next;
  }
  return folders;
}
const partsOf = (file: string): string[] => file.split(path.sep).filter(Boolean);
