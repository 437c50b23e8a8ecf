// tsxla/plugins: the libraries with XLA for a device. Finds installed ones, fetches missing ones once.
import { platform } from '../base/env.js';
import { messageOf } from '../base/thrown.js';
import { type FoundPlugin, findPlugin } from './find.js';
import { type Entry, listEntries } from './store.js';
import { DEVICE_TYPES, type DeviceType, type Fetchable, fetchable } from './table.js';

export {
  ArgumentError,
  PluginCorruptError,
  PluginFetchError,
  PluginLoadError,
  PluginNotFoundError,
} from '../base/errors.js';
export { type CudaLibraries, cudaMissing, findCudaLibraries } from './cuda.js';
export type { OnProgress } from './fetch.js';
export {
  type FindOptions,
  type FoundPlugin,
  findPlugin,
  type InstallOptions,
  installPlugin,
  removePlugin,
  verifyPlugin,
} from './find.js';
export { DEVICE_TYPES, type DeviceType, PLUGINS, type PluginPackage, variableOf } from './table.js';

export interface PluginStatus {
  readonly device: DeviceType;
  /** What findPlugin would return now, without fetching. */
  readonly plugin?: FoundPlugin;
  /** Why there is no usable plugin: not installed, or damaged. */
  readonly problem?: string;
  /** The package that would be fetched. */
  readonly fetchable?: Fetchable | undefined;
  /** Plugins for this device in the store, of any version. */
  readonly installed: readonly Entry[];
}

/** For each device, where its plugin would come from now. */
export async function listPlugins(): Promise<PluginStatus[]> {
  const entries = await listEntries();
  return Promise.all(
    DEVICE_TYPES.map(async (device) => {
      const installed = entries.filter((e) => e.device === device);
      const known = { device, fetchable: fetchable(device, platform()), installed };
      try {
        return { ...known, plugin: await findPlugin(device, { fetch: false }) };
      } catch (e) {
        return { ...known, problem: messageOf(e) };
      }
    }),
  );
}
