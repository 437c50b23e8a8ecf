// The process in which readers run: cases one after another, each told to the parent before it begins and when it has ended.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { TsxlaError } from 'tsxla';
import { sameValue } from './compare.js';
import { Random } from './random.js';
import { type Files, mutantOf, type Target, writeFiles } from './target.js';

/** What a child says. */
export type Report =
  | { readonly kind: 'begin'; readonly case: number; readonly what: string }
  | {
      readonly kind: 'end';
      readonly case: number;
      readonly outcome: Outcome;
      readonly what: string;
      readonly memory: Memory;
    }
  | { readonly kind: 'seed refused'; readonly message: string }
  | { readonly kind: 'done' };
/** In bytes: the most that was resident so far, and what the address space has grown by in this case. */
export interface Memory {
  readonly resident: number;
  readonly reserved: number;
}
export type Outcome =
  | { readonly is: 'same' | 'refused' | 'changed' }
  | { readonly is: 'failure'; readonly why: FailureKind; readonly message: string };
export type FailureKind = 'crash' | 'hang' | 'memory' | 'foreign error' | 'nameless error' | 'silent change';

const [name, seed, from, to, module] = process.argv.slice(2) as [string, string, string, string, string];
const { TARGETS } = (await import(module)) as { readonly TARGETS: readonly Target[] };
const target = TARGETS.find((t) => t.name === name)!;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-fuzz-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
process.on('disconnect', () => process.exit()); // the parent has ended

const say = (report: Report): void => void process.send!(report);
function outcomeOf(value: unknown, base: unknown, before: Files, after: Files): Outcome {
  if (sameValue(value, base)) return { is: 'same' };
  const wrong = target.legal({ before, after, base, value });
  return wrong ? { is: 'failure', why: 'silent change', message: wrong } : { is: 'changed' };
}

function outcomeOfError(e: unknown, dir: string, files: Files): Outcome {
  if (!(e instanceof TsxlaError))
    return {
      is: 'failure',
      why: 'foreign error',
      message: e instanceof Error ? String(e.stack) : `thrown: ${String(e)}`,
    };
  const names = [dir, ...[...files.keys()].map((f) => path.basename(f))];
  if (target.named !== false && !names.some((n) => e.message.includes(n)))
    return { is: 'failure', why: 'nameless error', message: String(e.stack) };
  return { is: 'refused' };
}

const seeds = await target.make();
const bases: unknown[] = [];
for (const [i, files] of seeds.entries()) {
  const dir = writeFiles(path.join(folder, `seed-${i}`), files);
  const base = target.read(dir, files).catch((e: unknown) => {
    if (!(e instanceof TsxlaError)) throw e;
    say({ kind: 'seed refused', message: e.message.replaceAll(dir, '') });
  });
  bases.push(await base);
}

/** The largest size of the address space so far, in bytes; 0 where the system does not tell. */
const addresses = (): number =>
  process.platform === 'linux'
    ? 1024 * Number(/VmPeak:\s*(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))?.[1] ?? 0)
    : 0;

const dir = path.join(folder, 'case');
for (let number = Number(from); number < Number(to); number++) {
  const { files, seed: which, what } = mutantOf(target, seeds, new Random(`${name} ${seed} ${number}`));
  writeFiles(dir, files);
  say({ kind: 'begin', case: number, what });
  const before = addresses();
  const outcome = await target.read(dir, files).then(
    (value) => outcomeOf(value, bases[which], seeds[which]!, files),
    (e: unknown) => outcomeOfError(e, dir, files),
  );
  const memory = {
    resident: process.resourceUsage().maxRSS * 1024,
    reserved: target.reserves ? 0 : addresses() - before,
  };
  say({ kind: 'end', case: number, outcome, what, memory });
}
say({ kind: 'done' });
process.disconnect();
