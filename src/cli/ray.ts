// `tsxla ray submit|jobs|logs|stop`: jobs on a Ray cluster.
import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import pc from 'picocolors';
import { ArgumentError, RayError } from '../base/errors.js';
import { columns, plural, seconds } from '../base/format.js';
import { onSignals, STOP_SIGNALS } from '../base/signals.js';
import {
  eventsOf,
  isFinal,
  type Job,
  type JobStatus,
  rayAddress,
  showEvent,
  stopJob,
  watchRun,
} from '../train/ray/index.js';
import { WORKER_ENV } from '../train/ray/run.js';
import { count } from './numbers.js';
import { addressOption, clusterAt, type RayFlags, rayEnv, rayFlags } from './ray-options.js';

const commands = () => [submitCommand(), jobsCommand(), logsCommand(), stopCommand()];

export function rayCommand(): Command {
  const ray = new Command('ray');
  for (const command of commands()) ray.addCommand(command);
  return ray;
}

/** Adds `tsxla submit`, `jobs`, `logs` and `stop`: the former names of `tsxla ray submit` and so on, not listed by --help. */
export function addFormerNames(program: Command): Command {
  for (const command of commands()) program.addCommand(command, { hidden: true });
  return program;
}

// ---- submit: runs a script whose fit() trains on a cluster. The script runs on this machine; options reach it through its environment.

interface SubmitFlags extends RayFlags {
  readonly address?: string;
  readonly workers?: number;
}

function submitCommand(): Command {
  const command = new Command('submit')
    .description('run a training script on a Ray cluster and show its logs; Ctrl-C stops the run')
    .argument('<script>', 'a program that calls new TorchTrainer({...}).fit()')
    .argument('[args...]', 'its arguments, after --')
    .addOption(addressOption())
    .option('--workers <n>', "number of workers, overrides the script's", count);
  for (const option of rayFlags()) command.addOption(option);
  return command.action(async (script: string, args: string[], { address, workers, ...options }: SubmitFlags) => {
    if (!statSync(script, { throwIfNoEntry: false })?.isFile())
      throw new ArgumentError(`ray submit: file ${script} does not exist: pass the program that calls fit()`);
    await clusterAt(address).version(); // report problems with the cluster before the script runs
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
        `ray submit: ${script} ended without submitting a job to ${clusterAt(address).url.origin}: it must call new TorchTrainer({...}).fit()`,
      );
  });
}

const jobsAt = async (address: string | undefined): Promise<string[]> =>
  (await clusterAt(address).jobs()).map((job) => job.submission_id);

/** Node options to run TypeScript: the project's tsx; none if this Node strips types itself. */
function loaderFor(script: string): string[] {
  if (!/\.[cm]?tsx?$/.test(script)) return [];
  try {
    createRequire(path.resolve(script)).resolve('tsx/package.json');
    return ['--import', 'tsx'];
  } catch {
    if ('typescript' in process.features && process.features.typescript) return [];
    throw new ArgumentError(
      `ray submit: ${script} is TypeScript, but the project has no tsx: npm install --save-dev tsx`,
    );
  }
}

/** Runs the script; returns its exit code. Signals are forwarded: it stops the run on the cluster, then exits. */
function runScript(command: string[], env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, command, { stdio: 'inherit', env });
    // A terminal's Ctrl-C reaches the child by itself.
    const unlisten = onSignals(STOP_SIGNALS, (signal) => void (signal === 'SIGTERM' && child.kill(signal)));
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      unlisten();
      resolve(code ?? 128 + os.constants.signals[signal!]);
    });
  });
}

// ---- jobs: running and finished ones

const COLORS: Readonly<Record<JobStatus, (text: string) => string>> = {
  PENDING: pc.yellow,
  RUNNING: pc.cyan,
  SUCCEEDED: pc.green,
  STOPPED: pc.dim,
  FAILED: pc.red,
};

function jobsCommand(): Command {
  return new Command('jobs')
    .description('list the jobs of a Ray cluster, newest first')
    .addOption(addressOption())
    .option('--json', 'print as JSON')
    .action(async ({ address, json }: { address?: string; json?: true }) => {
      const jobs = await clusterAt(address).jobs();
      const text = json ? JSON.stringify(jobs, withoutEnv, 2) : jobs.length ? columns(jobs.map(row)) : 'no jobs';
      process.stdout.write(`${text}\n`);
    });
}

/** Leaves out the workers' environment, which may contain secrets. */
const withoutEnv = (key: string, value: unknown): unknown => (key === WORKER_ENV ? undefined : value);

function row({ submission_id: id, status, start_time: began, end_time: ended, metadata }: Job): string[] {
  const took = began === null ? '' : seconds(((ended || Date.now()) - began) / 1000);
  const workers = metadata?.['workers'] ? plural(Number(metadata['workers']), 'worker') : '';
  return [id, COLORS[status](status), workers, began === null ? '' : new Date(began).toISOString(), took];
}

// ---- logs: the output of a job from its start; with --follow until its end

function logsCommand(): Command {
  return new Command('logs')
    .description('print the output of a job on a Ray cluster')
    .argument('<job>', 'its id: `tsxla ray jobs` lists them')
    .addOption(addressOption())
    .option('-f, --follow', 'continue until the job has ended. Ctrl-C ends this command, not the job')
    .action(async (id: string, { address, follow }: { address?: string; follow?: true }) => {
      const cluster = clusterAt(address);
      const print = (text: string | undefined) => text !== undefined && process.stdout.write(`${text}\n`);
      if (!follow) {
        for (const event of eventsOf(await cluster.logs(id))) print(showEvent(event));
        return;
      }
      await cluster.job(id); // throws for a job that does not exist, instead of waiting for it
      const run = watchRun(cluster, id);
      let next = await run.next();
      for (; !next.done; next = await run.next()) print(showEvent(next.value));
      const { status } = next.value;
      if (status !== 'SUCCEEDED') throw new RayError(`the job ${id} has ${status.toLowerCase()}`);
    });
}

// ---- stop: stops a job and all its processes

function stopCommand(): Command {
  return new Command('stop')
    .description('stop a job on a Ray cluster, and wait until it has ended')
    .argument('<job>', 'its id: `tsxla ray jobs` lists them')
    .addOption(addressOption())
    .action(async (id: string, { address }: { address?: string }) => {
      const cluster = clusterAt(address);
      const before = await cluster.job(id);
      const { status } = isFinal(before.status) ? before : await stopJob(cluster, id);
      const had = isFinal(before.status) ? 'had already ended' : 'has ended';
      process.stdout.write(`${id} ${had}: ${status.toLowerCase()}\n`);
    });
}
