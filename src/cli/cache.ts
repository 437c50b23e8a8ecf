// `tsxla cache`: shows, explains and removes the compiled programs on disk.
import { existsSync } from 'node:fs';
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import pc from 'picocolors';
import { ArgumentError } from '../base/errors.js';
import { bytes, columns, parseBytes, plural, seconds } from '../base/format.js';
import { distrustFolder } from '../base/trust.js';
import { type Difference, differences } from '../observe/cache-explain.js';
import { cacheLimit, programsDir } from '../runtime/cache.js';
import {
  clear,
  type Listed,
  listEntries,
  makeRoom,
  type Removed,
  readEntry,
  type Stored,
} from '../runtime/cache-store.js';

const print = (line: string) => void process.stdout.write(`${line}\n`);
const printJson = (value: unknown) => print(JSON.stringify(value, null, 2));
const SHORT = 12; // characters of a key that are shown

export function cacheCommand(): Command {
  const command = new Command('cache');
  const json = () => new Option('--json', 'print as JSON');
  command
    .command('list', { isDefault: true })
    .description('list the programs, most recently used first')
    .addOption(json())
    .action(async ({ json }: { json?: true }) => {
      const folder = programsDir();
      const entries = (await listEntries(folder)).reverse();
      const refused = existsSync(folder) ? distrustFolder(folder) : undefined;
      if (json) printJson({ folder, limit: cacheLimit(), ...(refused && { refused }), entries });
      else print(showList(folder, entries, refused));
    });
  command
    .command('explain')
    .description('describe a program, or the differences between two')
    .addArgument(new Argument('<key>', 'the key, or its first characters'))
    .addArgument(new Argument('[other]', 'another key'))
    .option('--text', 'print only its StableHLO')
    .addOption(json())
    .action(async (key: string, other: string | undefined, { json, text }: { json?: true; text?: true }) => {
      const stored = await find(key);
      if (other) {
        const found = differences(stored, await find(other));
        if (json) printJson(found);
        else print(found.map(showDifference).join('\n') || 'both are the same program');
      } else if (text) print(stored.text());
      else if (json) printJson(stored.header);
      else print(describe(stored));
    });
  command
    .command('prune')
    .description('remove the least recently used programs')
    .addOption(
      new Option('--size <size>', 'remove programs until the rest is no larger than this (500MB, 2GiB)').argParser(
        size,
      ),
    )
    .addOption(new Option('--older-than <age>', 'remove programs not used for this long (30d, 12h)').argParser(age))
    .addOption(json())
    .action(async ({ size, olderThan, json }: { size?: number; olderThan?: number; json?: true }) => {
      const limit = size ?? (olderThan === undefined ? cacheLimit() : Number.POSITIVE_INFINITY);
      const before = olderThan === undefined ? undefined : new Date(Date.now() - olderThan);
      report(await makeRoom(programsDir(), limit, before), json);
    });
  command
    .command('clear')
    .description('remove all programs')
    .addOption(json())
    .action(async ({ json }: { json?: true }) => report(await clear(programsDir()), json));
  return command;
}

function size(text: string): number {
  const bytes = /[a-z]/i.test(text) ? parseBytes(text) : undefined; // a number without a unit is refused
  return bytes ?? refuse('not a size: write it as 500MB or 2GiB');
}

const UNITS: Readonly<Record<string, number>> = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 }; // ms
function age(text: string): number {
  const found = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text);
  return found ? Number(found[1]) * UNITS[found[2]!]! : refuse('not an age: write it as 30d, 12h or 45m');
}

function refuse(what: string): never {
  throw new InvalidArgumentError(what);
}

function report(removed: Removed, json?: true): void {
  if (json) printJson(removed);
  else print(`removed ${plural(removed.entries, 'program')}, ${bytes(removed.bytes)}`);
}

/** The entry whose key starts with this prefix. */
async function find(prefix: string): Promise<Stored> {
  const folder = programsDir();
  const keys = (await listEntries(folder)).map((e) => e.key).filter((key) => key.startsWith(prefix.toLowerCase()));
  if (keys.length > 1) throw new ArgumentError(`${keys.length} keys begin with ${prefix}: give more characters`);
  const stored = keys[0] && (await readEntry(folder, keys[0]));
  return stored || noSuch(prefix, folder);
}

function noSuch(prefix: string, folder: string): never {
  throw new ArgumentError(`no program in ${folder} has a key that begins with ${prefix}: tsxla cache lists them`);
}

function showList(folder: string, entries: readonly Listed[], refused: string | undefined): string {
  const rows = entries.map(({ key, bytes: n, used, header: h }) => [
    key.slice(0, SHORT),
    h?.name ?? '?',
    bytes(n),
    ago(used),
    h ? seconds(h.compileSeconds) : '?',
    h?.ingredients.plugin.platform ?? '?',
  ]);
  const total = entries.reduce((sum, e) => sum + e.bytes, 0);
  return [
    ...(rows.length ? [columns([['key', 'name', 'size', 'used', 'compile', 'platform'], ...rows], ''), ''] : []),
    `${plural(entries.length, 'program')}, ${bytes(total)} of at most ${bytes(cacheLimit())} in ${folder}`,
    ...(refused ? [pc.red(`not used: ${refused}`)] : []),
  ].join('\n');
}

function ago(date: Date): string {
  const ms = Date.now() - Number(date);
  const [unit, n] = Object.entries(UNITS).findLast(([, n]) => ms >= n) ?? ['s', 1e3];
  return `${Math.max(0, Math.floor(ms / n))} ${unit} ago`;
}

function describe({ header }: Stored): string {
  const { key, name, created, compileSeconds, inputs, outputs, sizes, ingredients } = header;
  const { plugin, machine, devices, flags, options, defaults } = ingredients;
  const flagLines = Object.entries(flags).map(([variable, list]) => [variable, list.join(' ')]);
  const rows = [
    ['key', key],
    ['name', name],
    ['inputs', few(inputs)],
    ['outputs', few(outputs)],
    ['compiled', `${created}, in ${seconds(compileSeconds)}`],
    [
      'sizes',
      `executable ${bytes(sizes.executable)}, StableHLO ${bytes(sizes.text)} (${bytes(sizes.compressed)} here)`,
    ],
    ['options', JSON.stringify(options)],
    ['defaults', JSON.stringify(defaults)],
    ...flagLines,
    [
      'plugin',
      `${plugin.platform}, version ${plugin.version}, PJRT C API ${plugin.api}, sha256 ${plugin.sha256.slice(0, SHORT)}`,
    ],
    [
      'devices',
      Object.entries(devices)
        .map(([kind, n]) => `${n} x ${kind}`)
        .join(', '),
    ],
    ...(machine
      ? [['machine', `${machine.model}, ${plural(machine.cores, 'core')}, features ${machine.features}`]]
      : []),
  ];
  return columns(rows, '');
}

const few = (types: readonly string[]): string =>
  `${types.length}: ${types.slice(0, 8).join(', ')}${types.length > 8 ? `, and ${types.length - 8} more` : ''}`;

const showDifference = ({ of, a, b }: Difference): string => `${pc.bold(of)}\n  ${a}\n  ${b}`;
