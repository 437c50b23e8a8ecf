// `tsxla submit`: runs a script whose fit() trains on a Ray cluster. The script is started here, as `node script` would, and what
// is asked for on the command line reaches it through its environment.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { RAY_ENV, rayAddress } from '../ray/index.js';
import { addressOption, clusterAt } from './ray-options.js';

interface Options {
  readonly address?: string;
  readonly workers?: number;
  readonly detach?: true;
  readonly install?: true;
  readonly modules?: string;
  readonly include?: string[];
  readonly python?: string;
  readonly startTimeout?: number;
  readonly env?: Record<string, string>;
}

const positive = (text: string): number => {
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

export function submitCommand(): Command {
  return new Command('submit')
    .description('run a training script on a Ray cluster, with its logs; Ctrl-C ends the run there')
    .argument('<script>', 'a program that calls new TorchTrainer({...}).fit()')
    .argument('[args...]', 'its arguments, behind --')
    .addOption(addressOption())
    .option('--workers <n>', 'instead of what the script says', positive)
    .option('--detach', 'leave when the job is submitted: `tsxla logs --follow` shows it then')
    .option('--install', 'let workers install what they lack: npm packages by the lock file, the plugin')
    .option('--modules <folder>', 'the node_modules of the workers, if they have them elsewhere than this machine')
    .option('--include <path>', 'an ignored file or folder of the project that they need (repeatable)', several)
    .option('--python <command>', "the cluster's Python that has Ray: python unless told")
    .option('--start-timeout <seconds>', 'how long the cluster may take to place the workers: 60 unless told', positive)
    .option('--env <NAME=value>', "for the workers' environment (repeatable)", pair)
    .action(async (script: string, args: string[], { address, workers, ...options }: Options) => {
      if (!existsSync(script)) throw new ArgumentError(`submit: there is no file ${script}`);
      await clusterAt(address).version(); // what is wrong with the cluster is said before the script does anything
      const env = {
        ...process.env,
        RAY_ADDRESS: rayAddress(address),
        [RAY_ENV]: JSON.stringify(options),
        ...(workers && { TSXLA_TRAIN_WORKERS: String(workers) }),
      };
      process.exitCode = await runScript([...loaderFor(script), script, ...args], env);
    });
}

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
      resolve(code ?? 128 + (signal === 'SIGINT' ? 2 : signal === 'SIGTERM' ? 15 : 9));
    });
  });
}
