// `tsxla submit`: runs a script whose fit() trains on a Ray cluster. The script is started here, as `node script` would, and what
// is asked for on the command line reaches it through its environment.
import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { rayAddress } from '../train/ray/index.js';
import { count } from './numbers.js';
import { addressOption, clusterAt, type RayFlags, rayEnv, rayFlags } from './ray-options.js';

interface Options extends RayFlags {
  readonly address?: string;
  readonly workers?: number;
}

export function submitCommand(): Command {
  const command = new Command('submit')
    .description('run a training script on a Ray cluster, with its logs; Ctrl-C ends the run there')
    .argument('<script>', 'a program that calls new TorchTrainer({...}).fit()')
    .argument('[args...]', 'its arguments, behind --')
    .addOption(addressOption())
    .option('--workers <n>', 'instead of what the script says', count);
  for (const option of rayFlags()) command.addOption(option);
  return command.action(async (script: string, args: string[], { address, workers, ...options }: Options) => {
    if (!statSync(script, { throwIfNoEntry: false })?.isFile())
      throw new ArgumentError(`submit: there is no file ${script}: give the program that calls fit()`);
    await clusterAt(address).version(); // what is wrong with the cluster is said before the script does anything
    const before = await jobsAt(address);
    const env = {
      ...process.env,
      RAY_ADDRESS: rayAddress(address),
      ...rayEnv(options),
      ...(workers && { TSXLA_TRAIN_WORKERS: String(workers) }),
    };
    process.exitCode = await runScript([...loaderFor(script), script, ...args], env);
    if (process.exitCode === 0 && (await jobsAt(address)).every((id) => before.includes(id)))
      throw new ArgumentError(
        `submit: ${script} has ended, and has submitted nothing to ${clusterAt(address).url.origin}: it must call new TorchTrainer({...}).fit()`,
      );
  });
}

const jobsAt = async (address: string | undefined): Promise<string[]> =>
  (await clusterAt(address).jobs()).map((job) => job.submission_id);

/** TypeScript is run by the project's tsx; a Node that takes types away itself needs none. */
function loaderFor(script: string): string[] {
  if (!/\.[cm]?tsx?$/.test(script)) return [];
  try {
    createRequire(path.resolve(script)).resolve('tsx/package.json');
    return ['--import', 'tsx'];
  } catch {
    if ('typescript' in process.features && process.features.typescript) return [];
    throw new ArgumentError(`submit: ${script} is TypeScript, and the project has no tsx: npm install --save-dev tsx`);
  }
}

/** The script's exit code. Signals reach it, too: it ends the run on the cluster, and then itself. */
function runScript(command: string[], env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, command, { stdio: 'inherit', env });
    const ignore = () => {}; // a terminal's Ctrl-C reaches the child by itself
    const forward = () => void child.kill('SIGTERM');
    process.on('SIGINT', ignore).on('SIGTERM', forward);
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      process.off('SIGINT', ignore).off('SIGTERM', forward);
      resolve(code ?? 128 + os.constants.signals[signal!]);
    });
  });
}
