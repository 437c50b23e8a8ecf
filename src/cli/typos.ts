// Better messages for misspelled options and commands, where commander's own message hides the wrong word.
import type { Command } from 'commander';

/** Reports an unknown option before a missing one: `--modle` is the reason why `--model` is missing. */
export function nameTyposFirst(command: Command): void {
  // Not in commander's types: the method it calls for a missing required option. `args` then has the unknown words.
  const internals = command as Command & Record<'missingMandatoryOptionValue' | 'unknownOption', (x: unknown) => void>;
  const missing = internals.missingMandatoryOptionValue;
  internals.missingMandatoryOptionValue = (option) => {
    const unknown = command.args.find((word) => /^--?[a-z]/i.test(word));
    if (unknown) internals.unknownOption(unknown);
    else missing.call(command, option);
  };
  for (const inner of command.commands) nameTyposFirst(inner);
}

/** Turns `help ray submit` into `ray submit --help`; an unknown command is left last, for commander to report. */
export function helpArguments(program: Command, words: readonly string[]): string[] {
  let command = program;
  for (const [i, word] of words.entries()) {
    if (!command.commands.length) break; // the words after it are not commands
    const inner = command.commands.find((c) => c.name() === word || c.aliases().includes(word));
    if (!inner) return words.slice(0, i + 1);
    command = inner;
  }
  return [...words, '--help'];
}
