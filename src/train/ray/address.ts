// Where a Ray cluster is: the address of its dashboard.
import { env } from '../../base/env.js';
import { ArgumentError } from '../../base/errors.js';

const DEFAULT_PORT = 8265;

const isHttp = (address: string): boolean => /^https?:\/\//.test(address) && URL.canParse(address);
/** Without the password that it may have. */
const shown = (address: string): string => address.replace(/\/\/[^/@]*@/, '//...@');
export function parseAddress(address: string): URL {
  const url = isHttp(address) ? new URL(address) : undefined;
  if (!url)
    throw new ArgumentError(
      `the Ray address '${shown(address)}' is no address of a dashboard: write http://host:${DEFAULT_PORT}`,
    );
  if (!url.port && url.protocol === 'http:') url.port = String(DEFAULT_PORT);
  return url;
}

/** The address that the environment names, as Ray's own commands take it. */
export function addressFromEnv(): string | undefined {
  const name = ['RAY_API_SERVER_ADDRESS', 'RAY_ADDRESS'].find(env);
  const address = name && env(name);
  if (!address || isHttp(address)) return address;
  throw new ArgumentError(
    `${name}=${shown(address)} is no address of a dashboard: set it to http://host:${DEFAULT_PORT}, or unset it to train on this machine`,
  );
}
/** The address that is given, or that of the environment. */
export function rayAddress(given?: string): string {
  const address = given ?? addressFromEnv();
  if (address) return address;
  throw new ArgumentError(`which Ray cluster? Give its address, or set RAY_ADDRESS=http://host:${DEFAULT_PORT}`);
}
