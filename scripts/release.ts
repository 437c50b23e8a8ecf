// Packs a release under release/: tsxla itself, the starter create-tsxla, and the CPU plugin as npm packages of one platform each.
// With those, `npm install tsxla` brings a working CPU and needs no Python.
// Run: npx tsx scripts/release.ts [--only linux-x64]
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { progress } from '../src/cli/progress.js';
import { fetchLibrary } from '../src/plugins/fetch.js';
import { entryName } from '../src/plugins/store.js';
import { type Fetchable, fetchable, PLUGINS } from '../src/plugins/table.js';

const root = path.join(import.meta.dirname, '..');
const release = path.join(root, 'release');
const repository = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
/** npm's provenance wants the repository whose workflow publishes. */
const { GITHUB_REPOSITORY, GITHUB_SERVER_URL } = process.env;
const origin = GITHUB_REPOSITORY
  ? { repository: { type: 'git', url: `git+${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}.git` } }
  : {};
const writeJson = (file: string, value: unknown) => fs.writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

function emptyFolder(name: string): string {
  const folder = path.join(release, name);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

function copy(names: string[], folder: string): void {
  for (const name of names.filter((n) => fs.existsSync(path.join(root, n)))) {
    fs.copyFileSync(path.join(root, name), path.join(folder, name));
  }
}

function pack(folder: string): void {
  const file = execFileSync('npm', ['pack', '--silent', '--pack-destination', release], {
    cwd: folder,
    encoding: 'utf8',
  });
  const tarball = path.join(release, file.trim());
  console.log(`${path.relative(root, tarball)}  ${(fs.statSync(tarball).size / 1e6).toFixed(1)} MB`);
}

/** Returns the name and version of the npm package. */
async function packPlugin(what: Fetchable): Promise<[name: string, version: string]> {
  const [os, cpu] = what.platform.split('-') as [string, string];
  const folder = emptyFolder(`${what.device}-${what.platform}`);
  const library = await fetchLibrary(what, folder, { onProgress: progress(`fetching ${entryName(what)}`) });
  const name = `@tsxla/${what.device}-${what.platform}`;
  writeJson(path.join(folder, 'package.json'), {
    name,
    version: what.version, // the plugin's own: a new tsxla with the same plugin needs no new upload
    description: `XLA's ${what.device} plugin for tsxla on ${what.platform} (the library of ${what.package} ${what.version})`,
    license: 'Apache-2.0', // OpenXLA's
    os: [os],
    cpu: [cpu],
    libc: ['glibc'],
    files: [library],
    ...origin,
    tsxla: { library, ...what.wheel.library, package: what.package, version: what.version },
  });
  copy(['LICENSE'], folder); // the same one; the wheel brings none
  pack(folder);
  return [name, what.version];
}

/** Builds and packs tsxla from a copy, so that the repository's package.json and dist stay as they are. */
function packTsxla(plugins: Record<string, string>): void {
  const folder = emptyFolder('tsxla');
  const out = path.join(folder, 'dist');
  execFileSync(
    process.execPath,
    [
      'node_modules/typescript-7/bin/tsc',
      '-p',
      'tsconfig.build.json',
      '--outDir',
      out,
      '--incremental',
      'false',
      '--tsBuildInfoFile',
      'null',
    ],
    {
      cwd: root,
      stdio: 'inherit',
    },
  );
  for (const script of ['bundle', 'copy'])
    execFileSync(process.execPath, [`scripts/${script}.mjs`, out], { cwd: root, stdio: 'inherit' });
  copy(['README.md', 'LICENSE', 'CHANGELOG.md'], folder);
  const { devDependencies: _, scripts: __, ...published } = repository;
  writeJson(path.join(folder, 'package.json'), { ...published, ...origin, optionalDependencies: plugins });
  pack(folder);
}

function packStarter(): void {
  const folder = emptyFolder('create-tsxla');
  fs.cpSync(path.join(root, 'packages/create-tsxla'), folder, { recursive: true });
  const about = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  writeJson(path.join(folder, 'package.json'), { ...about, ...origin });
  copy(['LICENSE'], folder);
  pack(folder);
}

const { only } = new Command()
  .option('--only <platform>', 'pack for this platform only (linux-x64)')
  .parse()
  .opts<{ only?: string }>();
const platforms = Object.keys(PLUGINS.find((p) => p.device === 'cpu')!.fetch!.wheels).filter(
  (p) => !only || p === only,
);
if (!platforms.length) throw new Error(`there is no CPU plugin for ${only}`);
const plugins: Record<string, string> = {};
for (const platform of platforms) {
  const [name, version] = await packPlugin(fetchable('cpu', platform)!);
  plugins[name] = version;
}
packTsxla(plugins);
packStarter();
