// Sets up a fresh clone: npm packages, the compiled package, the CPU plugin. Fast if everything is up to date.
// Plain JavaScript without dependencies, because it runs before they are installed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const run = (command, ...args) => execFileSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
const node = (file, ...args) => run(process.execPath, join(root, file), ...args);

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`tsxla needs Node 20.19 or later; this is ${process.version}`);
  process.exit(1);
}

// node_modules remembers the lock file it was installed from.
const lock = createHash('sha256')
  .update(readFileSync(join(root, 'package-lock.json')))
  .digest('hex');
const stamp = join(root, 'node_modules', '.tsxla-lock');
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== lock) {
  console.error('tsxla: installing npm packages');
  // Not `npm ci`: it refuses a lock file that lacks the optional packages of platforms we do not run on.
  run('npm', 'install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error');
  writeFileSync(stamp, lock);
}

node('scripts/functions.mjs');
node('node_modules/typescript-7/bin/tsc', '-p', 'tsconfig.build.json'); // incremental
node('scripts/bundle.mjs');
node('scripts/copy.mjs');

// `npx tsxla` takes the command from here; tsc writes files that cannot be executed.
chmodSync(join(root, 'dist/cli/main.js'), 0o755);
const command = join(root, 'node_modules/.bin/tsxla');
rmSync(command, { force: true });
symlinkSync('../../dist/cli/main.js', command);

node('dist/cli/main.js', 'plugins', 'install', 'cpu', '--if-missing');
