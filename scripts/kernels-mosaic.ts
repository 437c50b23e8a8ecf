// The second half of kernels-mosaic.py: fingerprints of the modules in a folder, into test/golden/mosaic/.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fingerprint } from '../test/kernels/mosaic-fingerprint.js';

const [folder] = process.argv.slice(2) as [string];
for (const file of readdirSync(folder).filter((f) => f.endsWith('.mlir'))) {
  const name = basename(file, '.mlir');
  writeFileSync(`test/golden/mosaic/${name}.txt`, `${fingerprint(readFileSync(join(folder, file), 'utf8'))}\n`);
}
