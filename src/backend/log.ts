// The backend's log: records with a level, a message and fields, on stderr, as text or as lines of JSON.
import { createRequire } from 'node:module';
import type { Logger, pino as Pino, Level as PinoLevel } from 'pino';
import { env } from '../base/env.js';
import { say } from '../base/log.js';
import { checkOneOf, checkOptions } from './check.js';
import { TPUValidationError } from './errors.js';

/** Python's names of levels, and pino's. */
const LEVELS = { debug: 'debug', info: 'info', warning: 'warn', error: 'error', silent: 'silent' } as const;
export type LogLevel = keyof typeof LEVELS;
const FORMATS = ['pretty', 'json'] as const;
export type LogFormat = (typeof FORMATS)[number];

export interface LogOptions {
  /** The lowest level that is logged. Default: TSXLA_LOG_LEVEL, or else warning. */
  readonly level?: LogLevel;
  /** Default: TSXLA_LOG_FORMAT, or else pretty. */
  readonly format?: LogFormat;
  /** Where lines go. Default: stderr. */
  readonly write?: (line: string) => void;
}

const nameOf = (level: PinoLevel): string => (level === 'warn' ? 'WARNING' : level.toUpperCase());

let current: Logger | undefined;
/** Like Python's logging.basicConfig: configures all logging of the backend from now on. */
export function basicConfig(options: LogOptions = {}): void {
  checkOptions('basicConfig', ['level', 'format', 'write'], options);
  const { level, format, write = say } = options;
  const least: string = level ?? env('TSXLA_LOG_LEVEL')?.toLowerCase() ?? 'warning';
  const form: string = format ?? env('TSXLA_LOG_FORMAT') ?? 'pretty';
  checkOneOf('the log level', least, Object.keys(LEVELS) as LogLevel[]);
  checkOneOf('the log format', form, FORMATS);
  const { pino }: { readonly pino: typeof Pino } = createRequire(import.meta.url)('pino'); // not loaded unless something is logged
  current = pino(
    {
      level: LEVELS[least],
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level: nameOf(level as PinoLevel) }) },
      serializers: { error: pino.stdSerializers.err },
      messageKey: 'message',
    },
    { write: (line: string) => write(form === 'json' ? line : pretty(JSON.parse(line) as LogRecord)) },
  );
}

interface LogRecord extends Readonly<Record<string, unknown>> {
  readonly level: string;
  readonly time: string;
  readonly message: string;
}
/** 2026-01-31 12:00:00,000 - tsxla.backend - INFO - model compiled model=Sequential seconds=1.2 */
function pretty({ level, time, message, ...fields }: LogRecord): string {
  const at = time.replace('T', ' ').replace('.', ',').replace('Z', '');
  const rest = Object.entries(fields).map(([name, x]) => ` ${name}=${typeof x === 'string' ? x : JSON.stringify(x)}`);
  return `${at} - tsxla.backend - ${level} - ${message}${rest.join('')}\n`;
}

/** Any fields except the names that every record has. */
type Fields = Readonly<Record<string, unknown>> & {
  readonly [K in keyof LogRecord & ('level' | 'time' | 'message')]?: never;
};
const at =
  (level: PinoLevel) =>
  (message: string, fields: Fields = {}) => {
    if (!current) basicConfig();
    current![level](fields, message);
  };
export const log = { info: at('info'), warning: at('warn'), error: at('error') };

const announced = new Set<string>();
/** Logs a warning that holds for the whole run once. */
export function warnOnce(message: string, fields?: Fields): void {
  if (!announced.has(message)) log.warning(message, fields);
  announced.add(message);
}

/** Seconds, rounded for log records. */
export const rounded = (seconds: number): number => Math.round(seconds * 1e3) / 1e3;

/** A problem that does not stop the work: a warning, or an error if validation is strict. */
export function warnOrThrow(strict: boolean, message: string, details: Fields = {}): void {
  if (strict) throw new TPUValidationError(`${message} (enableStrictValidation makes this an error)`, { details });
  log.warning(message, details);
}
