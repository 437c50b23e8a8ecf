// Folders and files for one test file, gone when it is done.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';

export function scratch(name: string) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), `tsxla-${name}-`));
  afterAll(() => fs.rmSync(root, { recursive: true, force: true }));
  let folders = 0;
  return {
    newFolder: (): string => path.join(root, `folder-${folders++}`),
    file(name: string, text: string): string {
      fs.writeFileSync(path.join(root, name), text);
      return path.join(root, name);
    },
  };
}
