// What the commands that talk to a Ray cluster have in common.
import { InvalidArgumentError, Option } from 'commander';
import type { RayOptions } from '../train/index.js';
import { RayCluster, rayAddress } from '../train/ray/index.js';
import { RAY_ENV } from '../train/ray/run.js';
import { count } from './numbers.js';

export const addressOption = (): Option =>
  new Option('--address <url>', "of the cluster's dashboard, as http://host:8265 (default: RAY_ADDRESS)");

export const clusterAt = (address: string | undefined): RayCluster => new RayCluster(rayAddress(address));

const several = (text: string, before: string[] = []): string[] => [...before, text];
const pair = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('NAME=value');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
};

/** How a run is submitted. */
export type RayFlags = Omit<RayOptions, 'token'>;
// biome-ignore format: a table
const FLAGS: readonly (readonly [name: keyof RayFlags, flags: string, help: string, parse?: (text: string, before: never) => unknown])[] = [
  ['detach', '--detach', 'leave when the job is submitted: `tsxla ray logs --follow` shows it then'],
  ['install', '--install', 'let workers install what they lack: npm packages by the lock file, the plugin'],
  ['modules', '--modules <folder>', 'the node_modules of the workers, if they have them elsewhere than this machine'],
  ['include', '--include <path>', 'an ignored file or folder of the project that they need; a file with credentials by its own name (repeatable)', several],
  ['python', '--python <command>', "the cluster's Python that has Ray (default: python)"],
  ['startTimeout', '--start-timeout <seconds>', 'how long the cluster may take to place the workers (default: 60)', count],
  ['env', '--env <NAME=value>', "for the workers' environment (repeatable)", pair],
];
export const rayFlags = (): Option[] =>
  FLAGS.map(([, flags, help, parse]) => {
    const option = new Option(flags, help);
    return parse ? option.argParser(parse as (text: string, before: unknown) => unknown) : option;
  });

/** Those that were given, and what else was. */
export function takeFlags<G extends RayFlags>(given: G): { ray: RayFlags; others: Omit<G, keyof RayFlags> } {
  const names = new Set<string>(FLAGS.map(([name]) => name));
  const those = (isRay: boolean) => Object.fromEntries(Object.entries(given).filter(([n]) => names.has(n) === isRay));
  return { ray: those(true), others: those(false) as Omit<G, keyof RayFlags> };
}

/** How they reach the trainer in another process: through its environment. */
export const rayEnv = (flags: RayFlags): Record<string, string> =>
  Object.keys(flags).length ? { [RAY_ENV]: JSON.stringify(flags) } : {};
