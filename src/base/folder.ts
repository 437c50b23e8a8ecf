// Folders and file names.
import { mkdirSync, statSync } from 'node:fs';
import path from 'node:path';

/** Whether a name is that of a file in the same folder: untrusted files must not lead to other places. */
export const isFileName = (name: string): boolean => path.basename(name) === name && !/[\\/\0]|^\.*$/.test(name);

/** Whether a path is a folder, or inside it. Links are not followed. */
export function isInside(folder: string, place: string): boolean {
  const relative = path.relative(folder, place);
  return !/^\.\.([\\/]|$)/.test(relative) && !path.isAbsolute(relative); // another drive of Windows is absolute
}

/**
 * Creates a folder and its parents, one by one: Node's own recursive mkdir never returns if a parent cannot have subfolders,
 * as in /proc.
 */
export function makeFolder(folder: string, mode = 0o777): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  const above = path.dirname(folder);
  if (above !== folder) makeFolder(above, mode);
  try {
    mkdirSync(folder, mode);
  } catch (e) {
    const isThere = (e as NodeJS.ErrnoException).code === 'EEXIST' && statSync(folder).isDirectory();
    if (!isThere) throw e;
  }
}
