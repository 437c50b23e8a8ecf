#!/usr/bin/env node
// The `tsxla` command: parses arguments and loads only the named command; help and version load none.
import { Command } from 'commander';
import pc from 'picocolors';
import { TsxlaError } from '../base/errors.js';
import { keepOnWithoutLog } from '../base/log.js';
import { version } from '../base/version.js';
import { COMMANDS } from './commands.js';
import { refuseEmpty } from './empty.js';
import { helpArguments, nameTyposFirst } from './typos.js';

/** Former names of the commands of `tsxla ray`, not listed by --help. */
const FORMER = ['submit', 'jobs', 'logs', 'stop'];

keepOnWithoutLog(); // a closed stderr does not end a run
// A closed pipe (`tsxla plugins | head -1`) is not an error; a full disk is.
process.stdout.on('error', (e: NodeJS.ErrnoException) => {
  if (e.code !== 'EPIPE') process.stderr.write(`error: cannot write the output: ${e.message}\n`);
  process.exit(e.code === 'EPIPE' ? 0 : 1);
});

try {
  const program = new Command('tsxla')
    .description("XLA's compiler and devices from TypeScript")
    .version(version)
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .showHelpAfterError('(run with --help to see the options)');
  const [first, second] = process.argv.slice(2);
  const named = first === 'help' ? second : first;
  for (const [name, description, load] of COMMANDS) {
    const command = name === named ? await load() : new Command(name); // the others are only listed
    program.addCommand(command.description(description));
  }
  if (named !== undefined && FORMER.includes(named)) (await import('./ray.js')).addFormerNames(program);
  refuseEmpty(program);
  nameTyposFirst(program);
  const given = process.argv.slice(2);
  await program.parseAsync(first === 'help' ? helpArguments(program, given.slice(1)) : given, { from: 'user' });
} catch (e) {
  // A TsxlaError's message says it all; anything else is a bug, and its stack is needed.
  const text = e instanceof TsxlaError ? e.message : e instanceof Error ? e.stack : String(e);
  process.stderr.write(`${pc.red('error:')} ${text}\n`);
  process.exitCode = 1;
}
