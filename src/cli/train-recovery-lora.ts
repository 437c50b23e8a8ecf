// `tsxla train-recovery-lora`: trains recovery adapters. Its flags come from the table in recovery/options.ts; it prints the run's events.
import { Command, Option } from 'commander';
import { bytes, columns, plural, seconds, timeLeft } from '../base/format.js';
import { notice, say, stand } from '../base/log.js';
import type { RecoveryEvent, RecoveryOptions, RecoveryResult } from '../recovery/index.js';
import { FLAGS, type Flag, flagOf } from '../recovery/options.js';
import { programBytes } from '../runtime/memory.js';
import { number } from './numbers.js';
import { type Progress, progress } from './progress.js';
import { type RayFlags, rayFlags, takeFlags } from './ray-options.js';

type Given = RecoveryOptions &
  RayFlags & { readonly json?: true; readonly clipGradNorm?: number; readonly fullLogits: boolean };

export function trainRecoveryLoraCommand(): Command {
  const command = new Command('train-recovery-lora');
  for (const [name, flag] of Object.entries(FLAGS))
    for (const option of optionsOf(name, flag)) command.addOption(option);
  for (const option of rayFlags()) command.addOption(option.helpGroup(`With ${flagOf('ray')}:`));
  return command.option('--json', 'print the summary as one JSON object').action((given: Given) => {
    const { ray, others } = takeFlags(given);
    const { json, clipGradNorm: gradClip, fullLogits, ...options } = others;
    return run(
      { ...options, ...(gradClip !== undefined && { gradClip }), ...(!fullLogits && { compute: 'gather' }) },
      json,
      ray,
    );
  });
}

const VALUES = { text: ' <name>', texts: ' <files...>', number: ' <x>', whole: ' <n>', switch: '' };

/** The command-line options for a row of the table; a switch that is on by default also gets --no-NAME. */
function* optionsOf(name: string, flag: Flag): Generator<Option> {
  const { kind, group } = flag;
  const make = (flags: string, help: string) => new Option(flags, help).helpGroup(`${group}:`);
  const option = make(`${flagOf(name)}${typeof kind === 'object' ? ' <name>' : VALUES[kind]}`, helpOf(flag));
  if (typeof kind === 'object') option.choices(kind);
  if (kind === 'number' || kind === 'whole') option.argParser(number);
  if (flag.default !== true) yield option;
  if (flag.off) yield make(flagOf(name).replace('--', '--no-'), flag.off);
  if (name === 'gradClip')
    yield make('--clip-grad-norm <x>', 'the same as --grad-clip').argParser(number).conflicts('gradClip');
  if (name === 'compute') yield make('--no-full-logits', 'the same as --compute gather').conflicts('compute');
}
const helpOf = ({ text, otherwise, default: value }: Flag): string =>
  otherwise ? `${text} (${otherwise})` : value === undefined || value === false ? text : `${text} (${value})`;

/** The exit code of an interrupted command in shells, so that a command after && does not run on half a run. */
const STOPPED = 130;

async function run(options: RecoveryOptions, json: true | undefined, ray: RayFlags): Promise<void> {
  const { trainRecoveryLora } = await import('../recovery/index.js');
  const result = await trainRecoveryLora(options, shower(), ray);
  if (!result.finished) process.exitCode = STOPPED;
  process.stdout.write(json ? `${JSON.stringify(result, null, 2)}\n` : summary(result, options));
}

/** Prints the run's events: a bar on a terminal, otherwise lines; with --verbose, lines for each step. */
export function shower(): (event: RecoveryEvent) => void {
  let rest = '';
  let bar: Progress | undefined;
  const evaluating = process.stderr.isTTY ? progress('evaluating', String, () => ' rows') : undefined;
  const shown = {
    student: (e) =>
      notice(`${count(e.trained)} of ${count(e.parameters)} parameters are trained; ${e.dtype} on ${e.device}`),
    preflight: ({ memory: m, available, ...e }) => {
      const needed = programBytes(m);
      const of = Number.isFinite(available) ? ` of ${bytes(available)}: it fits` : '';
      notice(
        `the step ${e.cached ? 'was found in the cache' : `was compiled in ${seconds(e.seconds)}`}; it needs ${bytes(needed)}${of} (weights, state and batch ${bytes(m.arguments)}, temporaries ${bytes(m.temporaries)})`,
      );
    },
    resumed: ({ step, steps }) =>
      notice(
        step < steps
          ? `resuming after step ${step}`
          : `the run is finished: all ${plural(step, 'step')} were done before. To train its adapters further, pass them as --resume-from, with another --output`,
      ),
    step: (e) => say(`${verbose(e)}\n`),
    progress: (e) => {
      const parts = [
        e.tokensPerSecond > 0 && e.step < e.steps && `${timeLeft(e.secondsLeft)} left`,
        e.loss !== undefined && `loss ${e.loss.toFixed(4)}`,
        `lr ${e.lr.toExponential(1)}`,
        e.tokensPerSecond > 0 && `${Math.round(e.tokensPerSecond)} tokens/s`,
        bytes(e.memory),
      ];
      rest = ` steps, ${parts.filter(Boolean).join(', ')}`;
      bar ??= progress('training', String, () => rest);
      bar(e.step, e.steps);
    },
    log: () => {},
    evaluating: ({ done, total }) => evaluating?.(done, total),
    eval: ({ step, perplexity }) => notice(`perplexity ${perplexity.toFixed(2)} after ${plural(step, 'step')}`),
    stopped: ({ step }) => {
      stand('');
      notice(`stopped after step ${step}: the same command with --resume continues`);
    },
  } satisfies { [K in RecoveryEvent['kind']]: (event: Extract<RecoveryEvent, { kind: K }>) => void };
  return (event) => (shown[event.kind] as (e: RecoveryEvent) => void)(event);
}

const count = (n: number): string =>
  n >= 1e9 ? `${(n / 1e9).toFixed(2)} B` : n >= 1e6 ? `${(n / 1e6).toFixed(2)} M` : n.toLocaleString('en');

function verbose({ step, phase, shape, seconds: s, loss }: Extract<RecoveryEvent, { kind: 'step' }>): string {
  const took = `(${s.toFixed(1)}s)`;
  const text = {
    collated: `Starting...\n[Step ${step}] Batch collated: [${shape.join(', ')}]`,
    started: `Forward, backward and optimizer started as one program ${took}`,
    done: `Done ${took}: loss ${loss?.toFixed(4)}`,
  }[phase];
  return `[Step ${step}] ${text}`;
}

function summary(r: RecoveryResult, { maxSteps }: RecoveryOptions): string {
  const { perplexity: p } = r;
  const rows = [
    ['steps', r.finished ? String(r.steps) : `${r.steps}${maxSteps ? ` of ${maxSteps}` : ''}, stopped`],
    ...(r.loss === undefined ? [] : [['loss', r.loss.toFixed(4)]]),
    ...(p
      ? [
          [
            'perplexity',
            `${p.before.toFixed(2)} to ${p.after.toFixed(2)}${p.best < p.after ? `, at best ${p.best.toFixed(2)}` : ''}`,
          ],
        ]
      : []),
    ['time', `${seconds(r.seconds)}, ${Math.round(r.tokensPerSecond)} tokens/s`],
    ['memory', `${bytes(r.peakMemory)} at most`],
    ['programs', `${r.compiles} compiled`],
    ['adapters', r.adapters],
    ...(r.best ? [['best', r.best]] : []),
    ['metrics', r.metrics],
  ];
  return `${columns(rows)}\n`;
}
