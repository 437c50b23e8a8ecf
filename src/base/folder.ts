// Folders, and names of files in them.
import { mkdirSync, statSync } from 'node:fs';
import path from 'node:path';

/** Whether a name is that of a file in the same folder. Files that come from elsewhere must not lead to others. */
export const isFileName = (name: string): boolean => path.basename(name) === name && !/[\\/\0]|^\.*$/.test(name);

/** Whether a place is a folder, or in it. Links are not followed. */
export function isInside(folder: string, place: string): boolean {
  const relative = path.relative(folder, place);
  return !/^\.\.([\\/]|$)/.test(relative) && !path.isAbsolute(relative); // another drive of Windows is absolute
}

/**
 * Makes a folder and those above it, one after the other: Node's own recursive mkdir never ends where a folder above can
 * have none, as in /proc.
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
