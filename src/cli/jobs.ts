// `tsxla jobs`: what runs and ran on a Ray cluster.
import { Command } from 'commander';
import pc from 'picocolors';
import { columns, plural, seconds } from '../base/format.js';
import { type Job, type JobStatus, WORKER_ENV } from '../train/ray/index.js';
import { addressOption, clusterAt } from './ray-options.js';

const COLORS: Readonly<Record<JobStatus, (text: string) => string>> = {
  PENDING: pc.yellow,
  RUNNING: pc.cyan,
  SUCCEEDED: pc.green,
  STOPPED: pc.dim,
  FAILED: pc.red,
};

export function jobsCommand(): Command {
  return new Command('jobs')
    .description('list the jobs of a Ray cluster, the newest first')
    .addOption(addressOption())
    .option('--json', 'print as JSON')
    .action(async ({ address, json }: { address?: string; json?: true }) => {
      const jobs = await clusterAt(address).jobs();
      const text = json
        ? JSON.stringify(jobs, withoutEnv, 2)
        : jobs.length
          ? columns(jobs.map(row))
          : 'there are no jobs';
      process.stdout.write(`${text}\n`);
    });
}

/** The workers' environment may hold secrets: it is not printed. */
const withoutEnv = (key: string, value: unknown): unknown => (key === WORKER_ENV ? undefined : value);

function row({ submission_id: id, status, start_time: began, end_time: ended, metadata }: Job): string[] {
  const took = began === null ? '' : seconds(((ended || Date.now()) - began) / 1000);
  const workers = metadata?.['workers'] ? plural(Number(metadata['workers']), 'worker') : '';
  return [id, COLORS[status](status), workers, began === null ? '' : new Date(began).toISOString(), took];
}
