// npm run docs [-- --out FOLDER]: builds the docs site into out/docs. npm run docs:dev: serves it, and what changes in docs/.
// VitePress has packages of its own (site/package.json), which are installed here, when first needed.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { BASE, madeRelative } from './relative.mjs';

const site = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(site);
const { values, positionals } = parseArgs({ options: { out: { type: 'string' } }, allowPositionals: true });
const output = path.resolve(values.out ?? path.join(root, 'out/docs'));
const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
const stage = () => run(process.execPath, ['--import', 'tsx', path.join(site, 'stage.ts')], root);
const vitepress = path.join(site, 'node_modules/vitepress/bin/vitepress.js');

function install() {
  const lock = createHash('sha256')
    .update(readFileSync(path.join(site, 'package-lock.json')))
    .digest('hex');
  const stamp = path.join(site, 'node_modules/.tsxla-lock');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  console.error('tsxla: installing the packages of the docs site');
  // As scripts/setup.mjs does: esbuild and rollup have packages for each platform.
  run('npm', ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], site);
  writeFileSync(stamp, lock);
}

/** What pages load when they are opened as files: offline.js, and the index of the search as a classic script. */
async function writeOffline() {
  const folder = path.join(output, 'offline');
  mkdirSync(folder, { recursive: true });
  copyFileSync(path.join(site, 'offline.js'), path.join(folder, 'offline.js'));
  copyFileSync(path.join(site, 'node_modules/minisearch/dist/umd/index.js'), path.join(folder, 'minisearch.js'));
  const chunks = path.join(output, 'assets/chunks');
  const name = readdirSync(chunks).find((file) => file.startsWith('@localSearchIndex'));
  const { default: json } = await import(pathToFileURL(path.join(chunks, name)).href);
  const { default: config } = await import('./.vitepress/config.mjs');
  const { searchOptions } = config.themeConfig.search.options.miniSearch;
  const options = { fields: ['title', 'titles', 'text'], storeFields: ['title', 'titles'], searchOptions };
  const search = { json: json.replaceAll(BASE, ''), options };
  writeFileSync(path.join(folder, 'index.js'), `globalThis.__SEARCH__ = ${JSON.stringify(search)};\n`);
}

install();
stage();
if (positionals[0] === 'dev') {
  let timer;
  watch(path.join(root, 'docs'), { recursive: true }, () => {
    clearTimeout(timer);
    timer = setTimeout(stage, 300);
  });
  const server = spawn(process.execPath, [vitepress, 'dev'], { cwd: site, stdio: 'inherit' });
  server.on('exit', (code) => process.exit(code ?? 1));
} else {
  rmSync(output, { recursive: true, force: true });
  run(process.execPath, [vitepress, 'build', '--outDir', output], site);
  await writeOffline();
  const files = readdirSync(output, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.(html|js|css)$/.test(file),
  );
  for (const file of files.filter((name) => !name.startsWith('offline'))) {
    const name = path.join(output, file);
    writeFileSync(name, madeRelative(file.replaceAll(path.sep, '/'), readFileSync(name, 'utf8')));
  }
  console.log(`The site is in ${path.relative(process.cwd(), output)}: open index.html, or copy it to any web server`);
}
