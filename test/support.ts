// What several tests share: the CPU plugin, golden files, running the command.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type ArrayType, type Buffer, Client, type Options } from 'tsxla/pjrt';
import { findPlugin } from 'tsxla/plugins';

export const cpuPlugin = (await findPlugin('cpu')).path;
export const startCpu = (options: Options = { cpu_device_count: 1 }): Promise<Client> =>
  Client.create(cpuPlugin, options);

export const goldenPath = (name: string): string => fileURLToPath(new URL(`./golden/${name}`, import.meta.url));
export const golden = (name: string): string => readFileSync(goldenPath(name), 'utf8');

export const f32 = (...shape: number[]): ArrayType => ({ dtype: 'f32', shape });
export const upload = (client: Client, ...values: number[]): Buffer =>
  client.bufferFromHost(Float32Array.from(values), f32(values.length));

export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The `tsxla` command. */
export const main = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
/** Runs `tsxla ARGS` as a user would. */
export const tsxla = (args: readonly string[], env: Record<string, string | undefined> = {}): Promise<Ran> =>
  new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env: { ...process.env, ...env } }, (error, stdout, stderr) =>
      resolve({ status: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
    );
  });
