#!/usr/bin/env node
// The `tsxla` command: parse, call, print. Only the command that is named is loaded; help and version load none.
import { Command } from 'commander';
import pc from 'picocolors';
import { TsxlaError } from '../base/errors.js';
import { keepOnWithoutLog } from '../base/log.js';
import { version } from '../base/version.js';
import { refuseEmpty } from './empty.js';

// biome-ignore format: a table
const COMMANDS: readonly (readonly [name: string, description: string, load: () => Promise<Command>])[] = [
  ['doctor', 'check Node, plugins, devices and caches, and run a matmul on every device that starts', async () => (await import('./doctor.js')).doctorCommand()],
  ['plugins', 'show, install and remove the plugins that bring XLA to a device', async () => (await import('./plugins.js')).pluginsCommand()],
  ['hlo', 'run or compile a StableHLO module', async () => (await import('./hlo.js')).hloCommand()],
  ['generate', 'continue a text with a Qwen3 model', async () => (await import('./generate.js')).generateCommand()],
  ['kd-cache', 'run a teacher over text and keep its most likely tokens, for distillation; continues what was stopped', async () => (await import('./kd-cache.js')).kdCacheCommand()],
  ['kd-convert', "write a KD cache of the original's .pt files from one of ours, or one of ours from such files", async () => (await import('./kd-cache.js')).kdConvertCommand()],
  ['quantize', "quantize a Qwen3 model's linears to 2 or 4 bits: a student for recovery", async () => (await import('./quantize.js')).quantizeCommand()],
  ['merge-lora', "put adapters into a model's weights; a quantized one becomes plain, or is quantized again", async () => (await import('./merge-lora.js')).mergeLoraCommand()],
  ['eval-perplexity', 'the perplexity of a model on a text: exp of the mean loss over tokens', async () => (await import('./eval-perplexity.js')).evalPerplexityCommand()],
  ['train-recovery-lora', 'give a quantized Qwen3 its quality back: small adapters learn what a teacher said (tsxla kd-cache)', async () => (await import('./train-recovery-lora.js')).trainRecoveryLoraCommand()],
  ['plan', 'whether a workload fits TPUs that are not here, the largest batch, and how fast it can be', async () => (await import('./plan.js')).planCommand()],
  ['cache', 'show, explain and remove compiled programs kept on disk', async () => (await import('./cache.js')).cacheCommand()],
  ['ray', 'jobs on a Ray cluster: submit, list, logs, stop', async () => (await import('./ray.js')).rayCommand()],
];
/** Those of `tsxla ray`, by their former names, not listed. */
const FORMER = ['submit', 'jobs', 'logs', 'stop'];

keepOnWithoutLog();
// Output that nobody reads any more (`tsxla plugins | head -1`) is no reason to complain; a full disk is.
process.stdout.on('error', (e: NodeJS.ErrnoException) => {
  if (e.code !== 'EPIPE') process.stderr.write(`error: cannot write the output: ${e.message}\n`);
  process.exit(e.code === 'EPIPE' ? 0 : 1);
});

try {
  const program = new Command('tsxla')
    .description("XLA's compiler and devices from TypeScript")
    .version(version)
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .showHelpAfterError('(run with --help to see what is possible)');
  const [first, second] = process.argv.slice(2);
  const named = first === 'help' ? second : first;
  for (const [name, description, load] of COMMANDS) {
    const command = name === named ? await load() : new Command(name); // the others are only listed
    program.addCommand(command.description(description));
  }
  if (named !== undefined && FORMER.includes(named)) (await import('./ray.js')).addFormerNames(program);
  refuseEmpty(program);
  await program.parseAsync();
} catch (e) {
  // An error of ours says all there is to say; anything else is a bug, whose stack is wanted.
  const text = e instanceof TsxlaError ? e.message : e instanceof Error ? e.stack : String(e);
  process.stderr.write(`${pc.red('error:')} ${text}\n`);
  process.exitCode = 1;
}
