// Folders of models and adapters are replaced whole: for concurrent readers, and when the writer is killed.
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch } from '../scratch.js';
import { type Kind, numbersIn, startSaver } from './saving.js';

const { newFolder } = scratch('saving');

test.each<Kind>(['model', 'adapters'])('%s: read while it is saved, every read is one whole save', async (kind) => {
  const folder = newFolder();
  const saver = await startSaver(kind, folder, 1);
  const seen = new Set<number>();
  try {
    for (let read = 0; read < 40 || seen.size < 3; read++) {
      const numbers = await numbersIn[kind](folder);
      expect(new Set(numbers).size, `${numbers}`).toBe(1);
      seen.add(numbers[0]!);
      for (const name of ['config.json', 'adapter_config.json'].map((n) => path.join(folder, n)))
        if (fs.existsSync(name)) JSON.parse(fs.readFileSync(name, 'utf8')); // another program reads one file
    }
  } finally {
    await saver.kill();
  }
});
