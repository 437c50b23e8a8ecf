#!/usr/bin/env node
// The `tsxla` command: parse, call, print.
import { Command } from 'commander';
import pc from 'picocolors';
import { TsxlaError } from '../base/errors.js';
import { keepOnWithoutLog } from '../base/log.js';
import { version } from '../base/version.js';
import { cacheCommand } from './cache.js';
import { doctorCommand } from './doctor.js';
import { refuseEmpty } from './empty.js';
import { evalPerplexityCommand } from './eval-perplexity.js';
import { generateCommand } from './generate.js';
import { hloCommand } from './hlo.js';
import { kdCacheCommand, kdConvertCommand } from './kd-cache.js';
import { mergeLoraCommand } from './merge-lora.js';
import { planCommand } from './plan.js';
import { pluginsCommand } from './plugins.js';
import { quantizeCommand } from './quantize.js';
import { addFormerNames, rayCommand } from './ray.js';
import { trainRecoveryLoraCommand } from './train-recovery-lora.js';

const program = new Command('tsxla')
  .description("XLA's compiler and devices from TypeScript")
  .version(version)
  .addCommand(doctorCommand())
  .addCommand(pluginsCommand())
  .addCommand(hloCommand())
  .addCommand(generateCommand())
  .addCommand(kdCacheCommand())
  .addCommand(kdConvertCommand())
  .addCommand(quantizeCommand())
  .addCommand(mergeLoraCommand())
  .addCommand(evalPerplexityCommand())
  .addCommand(trainRecoveryLoraCommand())
  .addCommand(planCommand())
  .addCommand(cacheCommand())
  .addCommand(rayCommand())
  .showHelpAfterError('(run with --help to see what is possible)');

addFormerNames(program);
refuseEmpty(program);
keepOnWithoutLog();
// Output that nobody reads any more (`tsxla plugins | head -1`) is no reason to complain; a full disk is.
process.stdout.on('error', (e: NodeJS.ErrnoException) => {
  if (e.code !== 'EPIPE') process.stderr.write(`error: cannot write the output: ${e.message}\n`);
  process.exit(e.code === 'EPIPE' ? 0 : 1);
});

try {
  await program.parseAsync();
} catch (e) {
  // An error of ours says all there is to say; anything else is a bug, whose stack is wanted.
  const text = e instanceof TsxlaError ? e.message : e instanceof Error ? e.stack : String(e);
  process.stderr.write(`${pc.red('error:')} ${text}\n`);
  process.exitCode = 1;
}
