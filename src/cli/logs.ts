// `tsxla logs`: what a job on a Ray cluster prints, from its beginning; with --follow until its end.
import { Command } from 'commander';
import { RayError } from '../base/errors.js';
import { eventsOf, showEvent, watchRun } from '../train/ray/index.js';
import { addressOption, clusterAt } from './ray-options.js';

export function logsCommand(): Command {
  return new Command('logs')
    .description('print what a job on a Ray cluster has printed')
    .argument('<job>', 'its id: `tsxla jobs` lists them')
    .addOption(addressOption())
    .option('-f, --follow', 'go on until the job has ended. Ctrl-C ends this command, and not the job')
    .action(async (id: string, { address, follow }: { address?: string; follow?: true }) => {
      const cluster = clusterAt(address);
      const print = (text: string | undefined) => text !== undefined && process.stdout.write(`${text}\n`);
      if (!follow) {
        for (const event of eventsOf(await cluster.logs(id))) print(showEvent(event));
        return;
      }
      await cluster.job(id); // one that is not there is said, and not waited for
      const run = watchRun(cluster, id);
      let next = await run.next();
      for (; !next.done; next = await run.next()) print(showEvent(next.value));
      const { status } = next.value;
      if (status !== 'SUCCEEDED') throw new RayError(`the job ${id} has ${status.toLowerCase()}`);
    });
}
