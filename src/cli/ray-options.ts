// Options shared by the commands that use a Ray cluster.
import { InvalidArgumentError, Option } from 'commander';
import type { RayOptions } from '../train/index.js';
import { RayCluster, rayAddress } from '../train/ray/index.js';
import { RAY_ENV } from '../train/ray/run.js';
import { count } from './numbers.js';

export const addressOption = (): Option =>
  new Option('--address <url>', "URL of the cluster's dashboard, such as http://host:8265 (default: RAY_ADDRESS)");

export const clusterAt = (address: string | undefined): RayCluster => new RayCluster(rayAddress(address));

const several = (text: string, before: string[] = []): string[] => [...before, text];
const pair = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('NAME=value');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
};

/** Options of a submission. */
export type RayFlags = Omit<RayOptions, 'token'>;
// biome-ignore format: a table
const FLAGS: readonly (readonly [name: keyof RayFlags, flags: string, help: string, parse?: (text: string, before: never) => unknown])[] = [
  ['detach', '--detach', 'exit when the job is submitted; `tsxla ray logs --follow` shows its output'],
  ['install', '--install', 'install what workers lack: npm packages by the lock file, and the plugin'],
  ['modules', '--modules <folder>', "path of the workers' node_modules, if it differs from this machine's"],
  ['include', '--include <path>', 'also upload this ignored file or folder of the project; files with credentials only by their exact name (repeatable)', several],
  ['python', '--python <command>', 'the Python on the cluster that has Ray (default: python)'],
  ['startTimeout', '--start-timeout <seconds>', 'how long the cluster may take to place the workers (default: 60)', count],
  ['env', '--env <NAME=value>', "set a variable in the workers' environment (repeatable)", pair],
];
export const rayFlags = (): Option[] =>
  FLAGS.map(([, flags, help, parse]) => {
    const option = new Option(flags, help);
    return parse ? option.argParser(parse as (text: string, before: unknown) => unknown) : option;
  });

/** Splits given options into those of Ray and the others. */
export function takeFlags<G extends RayFlags>(given: G): { ray: RayFlags; others: Omit<G, keyof RayFlags> } {
  const names = new Set<string>(FLAGS.map(([name]) => name));
  const those = (isRay: boolean) => Object.fromEntries(Object.entries(given).filter(([n]) => names.has(n) === isRay));
  return { ray: those(true), others: those(false) as Omit<G, keyof RayFlags> };
}

/** The environment variables that pass these flags to the trainer in another process. */
export const rayEnv = (flags: RayFlags): Record<string, string> =>
  Object.keys(flags).length ? { [RAY_ENV]: JSON.stringify(flags) } : {};
