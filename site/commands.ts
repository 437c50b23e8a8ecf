// The reference of commands, from the tables that the commands themselves read.
import type { Argument, Command, Option } from 'commander';
import { COMMANDS } from '../dist/cli/commands.js';

const cell = (text: string): string => text.replaceAll('|', '\\|').replace(/\s*\n\s*/g, ' ');
const shown = (value: unknown): string => `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;

function optionRow(option: Option): string {
  const { flags, description, defaultValue, defaultValueDescription, argChoices, mandatory } = option;
  const more = [
    argChoices?.length && `One of ${argChoices.map(shown).join(', ')}.`,
    mandatory && 'Required.',
    defaultValueDescription !== undefined
      ? `Default: ${defaultValueDescription}.`
      : defaultValue !== undefined && !(option.negate && defaultValue === true) && `Default: ${shown(defaultValue)}.`,
  ].filter(Boolean);
  return `| \`${cell(flags)}\` | ${cell(`${description}${more.length ? `${/[.?!]$/.test(description) ? '' : '.'} ${more.join(' ')}` : ''}`)} |`;
}
const argumentRow = (argument: Argument): string =>
  `| \`${argument.required ? `<${argument.name()}>` : `[${argument.name()}]`}\` | ${cell(argument.description)} |`;

function sectionOf(command: Command, names: readonly string[], level: string): string {
  const name = names.join(' ');
  const help = command.createHelp();
  const options = help.visibleOptions(command).filter(({ long }) => long !== '--help');
  const args = help.visibleArguments(command);
  const inner = command.commands.filter((each) => !(each as { _hidden?: boolean })._hidden);
  const rows = [...args.map(argumentRow), ...options.map(optionRow)];
  return [
    `${level} tsxla ${name}`,
    `${command.description()}.`.replace(/\.\.$/, '.').replace(/^./, (c) => c.toUpperCase()),
    `\`\`\`sh\nnpx tsxla ${name} ${command.usage()}\n\`\`\``,
    rows.length && `| option | meaning |\n|---|---|\n${rows.join('\n')}`,
    ...inner.map((each) => sectionOf(each, [...names, each.name()], `${level}#`)),
  ]
    .filter(Boolean)
    .join('\n\n');
}

/** The page of all commands. */
export async function commandsPage(): Promise<string> {
  const sections: string[] = [];
  for (const [name, description, load] of COMMANDS) {
    const command = await load();
    if (!command.description()) command.description(description);
    sections.push(sectionOf(command, [name], '##'));
  }
  return `# Commands\n\nEach has \`--help\`, which says the same. \`npx tsxla doctor\` checks a machine.\n\n${sections.join('\n\n')}\n`;
}
