// Finds the plugin library of a device, and fetches it if none is installed.
import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { env, platform } from '../base/env.js';
import { ArgumentError, PluginCorruptError, PluginNotFoundError } from '../base/errors.js';
import { isInside } from '../base/folder.js';
import { bytes } from '../base/format.js';
import { anyObject, readJsonSync } from '../base/json.js';
import { notice } from '../base/log.js';
import { distrustPath } from '../base/trust.js';
import { checkLibrary } from '../pjrt/library.js';
import { diskError, fetchLibrary, type OnProgress } from './fetch.js';
import { installedVersion, sitePackages } from './python.js';
import {
  checkHash,
  type Entry,
  entryName,
  entryNames,
  install,
  type Manifest,
  openEntry,
  pinned,
  recordFile,
  removeEntry,
  repairCommand,
  storeDir,
} from './store.js';
import { DEVICE_TYPES, type DeviceType, type Fetchable, fetchable, PLUGINS, variableOf } from './table.js';

export interface FoundPlugin {
  readonly device: DeviceType;
  readonly path: string;
  readonly source: 'environment' | 'npm' | 'store' | 'python' | 'fetched';
  readonly package?: string | undefined;
  readonly version?: string | undefined;
  readonly size: number;
  /** The expected checksum of the library, if known. */
  readonly sha256?: string | undefined;
}

export interface FindOptions {
  /** false: never download anything. */
  readonly fetch?: boolean | undefined;
  readonly onProgress?: OnProgress | undefined;
  /** The platform in npm's terms (linux-x64). Default: this machine's. */
  readonly platform?: string | undefined;
}

/** The plugin for a device: from the environment variable, npm, the store or Python, in this order, or else fetched. */
export async function findPlugin(device: DeviceType, options: FindOptions = {}): Promise<FoundPlugin> {
  checkDevice(device);
  const where = options.platform ?? platform();
  const what = fetchable(device, where);
  const found =
    fromEnvironment(device) ??
    (await fromNpm(device, where)) ??
    (what && (await fromStore(what))) ??
    (await fromPython(device)) ??
    (what && options.fetch !== false ? await fetchInto(what, options.onProgress, () => openEntry(what)) : undefined);
  if (!found) throw new PluginNotFoundError(what ? notFound(what) : noneFor(device, where));
  checkLibrary(found.path, where);
  if (found.source !== 'store' && found.source !== 'fetched') checkOpenToAll(found.path);
  return found;
}

/**
 * A library outside the store is the user's choice, including its owner (an administrator's Python, a colleague's environment),
 * but one that every user of the machine can change is refused.
 */
function checkOpenToAll(file: string): void {
  const { mode } = statSync(file);
  const isOpen = process.getuid && mode & 0o002;
  const reason = isOpen
    ? `every user can write to it (mode ${(mode & 0o777).toString(8)}): run chmod o-w on it`
    : distrustPath(file);
  if (reason)
    throw new PluginCorruptError(
      `${file} was not loaded: ${reason}. Or copy it to a folder that only you can write to`,
    );
}

function checkDevice(device: string): void {
  if ((DEVICE_TYPES as readonly string[]).includes(device)) return;
  throw new ArgumentError(`there is no device '${device}': use one of ${DEVICE_TYPES.join(', ')}`);
}

const npmPackage = (device: DeviceType, where: string): string => `@tsxla/${device}-${where}`;

function noneFor(device: DeviceType, where: string): string {
  const has = [
    ...new Set(PLUGINS.filter((p) => p.device === device).flatMap((p) => Object.keys(p.fetch?.wheels ?? {}))),
  ];
  return `there is no ${device} plugin for ${where} (available for: ${has.join(', ')}). If you have built \
one, set ${variableOf(device)} to its path`;
}

function notFound(what: Fetchable): string {
  const { device, wheel } = what;
  return `no ${device} plugin was found, and fetching is turned off. Looked at ${variableOf(device)} (not set), the npm package \
${npmPackage(device, what.platform)}, the store ${path.join(storeDir(), entryName(what))}, and the Python packages \
${packagesOf(device)
  .map((p) => p.package)
  .join(', ')}. Install it (${bytes(wheel.size)}) with: tsxla plugins install ${device}`;
}

const packagesOf = (device: DeviceType) => PLUGINS.filter((p) => p.device === device);

function fromEnvironment(device: DeviceType): FoundPlugin | undefined {
  const file = env(variableOf(device));
  if (!file) return undefined;
  if (!existsSync(file)) {
    throw new PluginNotFoundError(`${variableOf(device)} is ${file}, which does not exist`);
  }
  return { device, path: path.resolve(file), source: 'environment', size: statSync(file).size };
}

async function fromNpm(device: DeviceType, where: string): Promise<FoundPlugin | undefined> {
  const name = npmPackage(device, where);
  let file: string;
  try {
    file = createRequire(import.meta.url).resolve(`${name}/package.json`);
  } catch {
    return undefined; // not installed
  }
  const folder = path.dirname(file);
  const error = (message: string) => new PluginCorruptError(`${message}. To repair it, ${npmRepair(folder)}`);
  const about = Object(readJsonSync(file, anyObject, { error })?.['tsxla']) as Partial<Manifest>;
  const { package: pkg, version, sha256, library: inside } = about;
  const what = fetchable(device, where);
  const isPinned = what && pkg === what.package && version === what.version;
  const isOwn = typeof inside === 'string' && isInside(folder, path.join(folder, inside));
  if (!isOwn || typeof sha256 !== 'string' || (isPinned && sha256 !== what.wheel.library.sha256)) {
    throw error(`${file} is not the one tsxla published: its "tsxla" is ${JSON.stringify(about)}`);
  }
  const library = path.join(folder, inside);
  const size = existsSync(library) ? statSync(library).size : 0;
  if (size !== about.size) {
    throw error(`${library} has ${size} of ${about.size} bytes`);
  }
  await checkHash(library, sha256, npmRepair(folder), recordFile(`npm-${device}-${where}`));
  return { device, path: library, source: 'npm', package: pkg, version, size, sha256 };
}
const npmRepair = (folder: string): string => `remove ${folder}, then run npm install`;

const fromEntry = (e: Entry, source: 'store' | 'fetched'): FoundPlugin => {
  const { device, package: pkg, version, size, sha256 } = e;
  return { device, path: e.path, source, package: pkg, version, size, sha256 };
};

async function fromStore(what: Fetchable): Promise<FoundPlugin | undefined> {
  const entry = await openEntry(what);
  return entry && fromEntry(entry, 'store');
}

async function fromPython(device: DeviceType): Promise<FoundPlugin | undefined> {
  for (const site of await sitePackages()) {
    for (const p of packagesOf(device)) {
      const file = path.join(site, p.library);
      if (!existsSync(file)) continue;
      const version = await installedVersion(site, p.package);
      return { device, path: file, source: 'python', package: p.package, version, size: statSync(file).size };
    }
  }
  return undefined;
}

export interface InstallOptions {
  /** Fetch again, even if the installed plugin is intact. Default: false. */
  readonly force?: boolean | undefined;
  readonly onProgress?: OnProgress | undefined;
  readonly platform?: string | undefined;
}

/** Installs the pinned plugin of a device into the store. An intact one is kept; a damaged one is replaced. */
export async function installPlugin(device: DeviceType, options: InstallOptions = {}): Promise<FoundPlugin> {
  checkDevice(device);
  const where = options.platform ?? platform();
  const what = fetchable(device, where);
  if (!what) throw new PluginNotFoundError(noneFor(device, where));
  const whole = () => openEntry(what, { full: true });
  return fetchInto(what, options.onProgress, options.force ? undefined : whole);
}

async function fetchInto(what: Fetchable, onProgress?: OnProgress, accept?: () => Promise<Entry | undefined>) {
  const { package: pkg, version, wheel } = what;
  let fetched = false;
  const fill = async (folder: string, signal: AbortSignal) => {
    if (!onProgress) notice(`fetching ${pkg} ${version} (${bytes(wheel.size)}, once) into ${storeDir()}`);
    await fetchLibrary(what, folder, { onProgress, signal });
    fetched = true;
    return pinned(what);
  };
  try {
    const entry = await install(entryName(what), fill, accept);
    return fromEntry(entry, fetched ? 'fetched' : 'store');
  } catch (e) {
    throw diskError(e, what, storeDir()) ?? e;
  }
}

/** Removes all versions of a device's plugins from the store; returns the removed folders. */
export async function removePlugin(device: DeviceType): Promise<string[]> {
  checkDevice(device);
  const prefixes = packagesOf(device).map((p) => `${p.package}-`);
  const names = (await entryNames({ unfinished: true })).filter((name) =>
    prefixes.some((prefix) => name.startsWith(prefix)),
  );
  return Promise.all(names.map(removeEntry));
}

/** Computes the library's checksum and compares it with the expected one, if known. */
export async function verifyPlugin(found: FoundPlugin): Promise<void> {
  if (!found.sha256) return;
  const repair = found.source === 'npm' ? npmRepair(path.dirname(found.path)) : repairCommand(found.device);
  await checkHash(found.path, found.sha256, repair);
}
