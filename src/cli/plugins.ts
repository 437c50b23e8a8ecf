// `tsxla plugins`: shows, installs and removes the libraries with XLA for a device.
import { Argument, Command } from 'commander';
import pc from 'picocolors';
import { PluginNotFoundError } from '../base/errors.js';
import { bytes, seconds } from '../base/format.js';
import {
  DEVICE_TYPES,
  type DeviceType,
  findPlugin,
  installPlugin,
  listPlugins,
  type PluginStatus,
  removePlugin,
} from '../plugins/index.js';
import { progress } from './progress.js';

const device = () => new Argument('<device>', 'which device').choices(DEVICE_TYPES);
const print = (line: string) => void process.stdout.write(`${line}\n`);

export function pluginsCommand(): Command {
  const command = new Command('plugins');
  const list = async ({ json }: { json?: boolean }) => {
    const plugins = await listPlugins();
    if (json) print(JSON.stringify(plugins, null, 2));
    else for (const status of plugins) print(describe(status));
  };
  command
    .command('list', { isDefault: true })
    .description('show where the plugin of each device comes from')
    .option('--json', 'print as JSON')
    .action(list);
  command
    .command('install')
    .description('fetch a plugin into the store, or repair the one there')
    .addArgument(device())
    .option('--force', 'fetch it again even if it is installed and intact')
    .option('--if-missing', 'only if no plugin is found, in the store or elsewhere')
    .action(async (name: DeviceType, { force, ifMissing }: { force?: boolean; ifMissing?: boolean }) => {
      if (ifMissing && (await isFound(name))) return;
      const began = performance.now();
      const found = await installPlugin(name, { force, onProgress: progress(`fetching the ${name} plugin`) });
      const took = seconds((performance.now() - began) / 1000);
      const how = found.source === 'fetched' ? `installed in ${took}` : 'already installed and intact';
      print(`${found.package} ${found.version} ${how}: ${found.path}`);
    });
  command
    .command('remove')
    .description('remove a plugin from the store')
    .addArgument(device())
    .action(async (name: DeviceType) => {
      const removed = await removePlugin(name);
      for (const folder of removed) print(`removed ${folder}`);
      if (!removed.length) print(`the store contains no ${name} plugin`);
    });
  command
    .command('path')
    .description('print only the path of the library that would be used')
    .addArgument(device())
    .action(async (name: DeviceType) => print((await findPlugin(name, { fetch: false })).path));
  return command;
}

const isFound = (device: DeviceType): Promise<boolean> =>
  findPlugin(device, { fetch: false }).then(
    () => true,
    (e) => {
      if (e instanceof PluginNotFoundError) return false;
      throw e;
    },
  );

function describe({ device, plugin, problem, fetchable }: PluginStatus): string {
  const name = pc.bold(device.padEnd(6));
  if (plugin) {
    const what = [plugin.package, plugin.version].filter(Boolean).join(' ') || 'a library';
    return `${name}${what} (${plugin.source}, ${bytes(plugin.size)})\n      ${pc.dim(plugin.path)}`;
  }
  const missing = problem?.startsWith(`no ${device} plugin was found`) && fetchable;
  if (!missing) return `${name}${pc.red(problem ?? '')}`;
  const size = bytes(fetchable.wheel.size);
  return `${name}not installed; tsxla plugins install ${device} fetches ${fetchable.package} ${fetchable.version} (${size})`;
}
