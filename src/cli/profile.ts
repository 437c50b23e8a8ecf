// `tsxla profile FILE`: prints a one-page summary of a profile.
import fs from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { showProfile, summarizeProfile } from '../profiler/index.js';

export function profileCommand(): Command {
  return new Command('profile')
    .argument('<file>', 'a profile (.xplane.pb), or the folder it was written to')
    .option('--json', 'print the summary as JSON')
    .action((name: string, { json }: { json?: true }) => {
      const file = newestIn(name);
      const summary = summarizeProfile(file);
      process.stdout.write(
        json ? `${JSON.stringify({ file, ...summary }, null, 2)}\n` : `${file}\n${showProfile(summary)}`,
      );
    });
}

/** A file itself; for a folder, the newest profile in it. */
function newestIn(name: string): string {
  const found = fs.statSync(name, { throwIfNoEntry: false });
  if (!found) throw new ArgumentError(`${name} does not exist: pass a profile (.xplane.pb), or the DIR of --profile`);
  if (!found.isDirectory()) return name;
  const files = fs
    .readdirSync(name, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.xplane.pb'))
    .map((file) => path.join(name, file));
  const [newest] = files.sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs || (a < b ? -1 : 1));
  if (!newest)
    throw new ArgumentError(`${name} contains no profile (.xplane.pb): pass a file, or the DIR of --profile`);
  return newest;
}
