// `tsxla stop`: ends a job on a Ray cluster, with all it has started there.
import { Command } from 'commander';
import { isFinal, stopJob } from '../train/ray/index.js';
import { addressOption, clusterAt } from './ray-options.js';

export function stopCommand(): Command {
  return new Command('stop')
    .description('end a job on a Ray cluster, and wait until it has ended')
    .argument('<job>', 'its id: `tsxla jobs` lists them')
    .addOption(addressOption())
    .action(async (id: string, { address }: { address?: string }) => {
      const cluster = clusterAt(address);
      const before = await cluster.job(id);
      const { status } = isFinal(before.status) ? before : await stopJob(cluster, id);
      const had = isFinal(before.status) ? 'had ended before' : 'has ended';
      process.stdout.write(`${id} ${had}: ${status.toLowerCase()}\n`);
    });
}
