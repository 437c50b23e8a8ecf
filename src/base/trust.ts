// Checks which other users can change a file that is run as code: cached programs and plugin libraries.
import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';

type Access = Pick<Stats, 'uid' | 'mode'>;

/**
 * Why a file or folder must not be trusted, or undefined. Executables are code: a user who can change one can do
 * everything its owner can. Root can do so anyway.
 */
export function distrust(name: string, { uid, mode }: Access): string | undefined {
  const user = process.getuid?.();
  if (user === undefined) return undefined; // Windows has no owners and modes of this kind
  if (uid !== user && uid !== 0) return `${name} belongs to another user (uid ${uid}, this process is ${user})`;
  if (mode & 0o022) return `others can write to ${name} (mode ${(mode & 0o777).toString(8)}): run chmod go-w on it`;
  return undefined;
}

/**
 * Why every user could replace `file`: a folder on its path that every user can write to. A sticky folder, such as /tmp,
 * protects its content. Symbolic links are followed, and the path of each target is checked too.
 */
export function distrustPath(file: string): string | undefined {
  if (!process.getuid) return undefined;
  for (const dir of foldersOf(path.resolve(file))) {
    const { mode } = statSync(dir);
    if (mode & 0o002 && !(mode & 0o1000))
      return `every user can write to ${dir}, and so replace ${file}: run chmod o-w on it`;
  }
  return undefined;
}

/** Both checks for a folder: the folder itself, and its path. */
export const distrustFolder = (folder: string): string | undefined =>
  distrust(folder, statSync(folder)) ?? distrustPath(folder);

/** Every folder that the system looks into while it resolves a path, in order. */
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
