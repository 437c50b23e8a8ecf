// What the commands that talk to a Ray cluster have in common.
import { InvalidArgumentError, Option } from 'commander';
import { RAY_ENV, RayCluster, rayAddress } from '../ray/index.js';

export const addressOption = (): Option =>
  new Option('--address <url>', "of the cluster's dashboard, as http://host:8265; RAY_ADDRESS unless told");

export const clusterAt = (address: string | undefined): RayCluster => new RayCluster(rayAddress(address));

export const positive = (text: string): number => {
  const n = Number(text);
  if (!(Number.isSafeInteger(n) && n > 0)) throw new InvalidArgumentError('a whole number, 1 or more');
  return n;
};
const several = (text: string, before: string[] = []): string[] => [...before, text];
const pair = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('NAME=value');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
};

/** How a run is submitted. */
export interface RayFlags {
  readonly detach?: true;
  readonly install?: true;
  readonly modules?: string;
  readonly include?: string[];
  readonly python?: string;
  readonly startTimeout?: number;
  readonly env?: Record<string, string>;
}
// biome-ignore format: a table
const FLAGS: readonly (readonly [name: keyof RayFlags, flags: string, help: string, parse?: (text: string, before: never) => unknown])[] = [
  ['detach', '--detach', 'leave when the job is submitted: `tsxla logs --follow` shows it then'],
  ['install', '--install', 'let workers install what they lack: npm packages by the lock file, the plugin'],
  ['modules', '--modules <folder>', 'the node_modules of the workers, if they have them elsewhere than this machine'],
  ['include', '--include <path>', 'an ignored file or folder of the project that they need (repeatable)', several],
  ['python', '--python <command>', "the cluster's Python that has Ray: python unless told"],
  ['startTimeout', '--start-timeout <seconds>', 'how long the cluster may take to place the workers: 60 unless told', positive],
  ['env', '--env <NAME=value>', "for the workers' environment (repeatable)", pair],
];
export const rayFlags = (): Option[] =>
  FLAGS.map(([, flags, help, parse]) => {
    const option = new Option(flags, help);
    return parse ? option.argParser(parse as (text: string, before: unknown) => unknown) : option;
  });

/** Those that were given. */
export const givenFlags = (given: RayFlags): [string, unknown][] =>
  FLAGS.flatMap(([name]) => (given[name] === undefined ? [] : [[name, given[name]]]));

/** How they reach the trainer, in this process or in another: through its environment. */
export function rayEnv(given: RayFlags): Record<string, string> {
  const own = givenFlags(given);
  return own.length ? { [RAY_ENV]: JSON.stringify(Object.fromEntries(own)) } : {};
}
