// Copies files that are not TypeScript to the compiled package.
import { cpSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
for (const folder of ['train/ray/driver'])
  cpSync(join(root, 'src', folder), join(process.argv[2] ?? join(root, 'dist'), folder), { recursive: true });
