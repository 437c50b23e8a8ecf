// The address of a Ray cluster's dashboard.
import { env } from '../../base/env.js';
import { ArgumentError } from '../../base/errors.js';

const DEFAULT_PORT = 8265;

const isHttp = (address: string): boolean => /^https?:\/\//.test(address) && URL.canParse(address);
/** The address without a password. */
const shown = (address: string): string => address.replace(/\/\/[^/@]*@/, '//...@');
export function parseAddress(address: string): URL {
  const url = isHttp(address) ? new URL(address) : undefined;
  if (!url)
    throw new ArgumentError(
      `the Ray address '${shown(address)}' is not the URL of a dashboard: write http://host:${DEFAULT_PORT}`,
    );
  if (!url.port && url.protocol === 'http:') url.port = String(DEFAULT_PORT);
  return url;
}

/** The address from the environment, with the variables of Ray's own commands. */
export function addressFromEnv(): string | undefined {
  const name = ['RAY_API_SERVER_ADDRESS', 'RAY_ADDRESS'].find(env);
  const address = name && env(name);
  if (!address || isHttp(address)) return address;
  throw new ArgumentError(
    `${name}=${shown(address)} is not the URL of a dashboard: set it to http://host:${DEFAULT_PORT}, or unset it to train on this machine`,
  );
}
/** The given address, or else that of the environment. */
export function rayAddress(given?: string): string {
  const address = given ?? addressFromEnv();
  if (address) return address;
  throw new ArgumentError(
    `no address of a Ray cluster: pass --address (in a program: address), or set RAY_ADDRESS=http://host:${DEFAULT_PORT}`,
  );
}
