// Refuses empty values on the command line (`--outputs "$FILE"` with FILE not set), which would count as left out.
import type { Command } from 'commander';
import { ArgumentError } from '../base/errors.js';

/** Makes every command refuse them, except for options that take a text, which may be empty. */
export function refuseEmpty(program: Command): void {
  program.hook('preAction', (_, command) => {
    for (const option of command.options) {
      const name = option.attributeName();
      if (option.long === '--output') continue; // openOutput refuses it
      if (command.getOptionValueSource(name) !== 'cli' || /<text(\.\.\.)?>/.test(option.flags)) continue;
      if (isEmpty(command.getOptionValue(name)))
        throw new ArgumentError(
          `option '${option.flags}' has an empty value: give one${option.mandatory ? '' : ', or leave the option out'}`,
        );
    }
    command.registeredArguments.forEach((argument, i) => {
      if (isEmpty(command.processedArgs[i]))
        throw new ArgumentError(`argument '${argument.name()}' is empty: give one`);
    });
  });
}

const isEmpty = (value: unknown): boolean =>
  Array.isArray(value) ? value.some(isEmpty) : typeof value === 'string' && value.trim() === '';
