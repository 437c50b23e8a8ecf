// Reads a run from its folder: metrics.jsonl (recovery), history.jsonl (TorchTrainer), events.jsonl (RunLog).
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { bytes, plural } from '../base/format.js';
import { EVENTS } from '../observe/run-log.js';
import type { Bad, Change, Compile, Finding, Mark, Patch, RunInfo, Sample, Status, Table } from './data.js';
import { RunData } from './data.js';
import { Tail } from './tail.js';

const METRICS = 'metrics.jsonl';
const HISTORY = 'history.jsonl';
export const FILES: readonly string[] = [METRICS, EVENTS, HISTORY];

type Line = Readonly<Record<string, unknown>>;
type Draft = { -readonly [K in keyof Patch]?: Patch[K] };

const MOST_RECENT = 2048; // patches kept for readers that reconnect

/** A metric may be called __proto__ or constructor. */
const noSeries = (): Record<string, [number[], (number | null)[]]> => Object.create(null);

/** Follows the folder of a run. */
export class Run {
  readonly data = new RunData();
  /** Increases when earlier data became invalid. */
  epoch = 0;
  /** Patches of this epoch. */
  count = 0;
  #recent: Patch[] = [];
  readonly #tails: ReadonlyMap<string, Tail>;
  /** Names of series, by their source file. */
  readonly #seriesOf = new Map<string, Set<string>>();
  #process: { readonly pid: number; readonly host: string } | undefined;
  #heard: number | undefined; // the time of the last event
  #ended = false;
  #reports = 0;
  #patch: Draft = {};
  #series = noSeries();

  constructor(
    readonly id: string,
    readonly name: string,
    readonly folder: string,
  ) {
    this.#tails = new Map(FILES.map((file) => [file, new Tail(path.join(folder, file))]));
  }

  /** Reads new lines. */
  async poll(): Promise<void> {
    for (const [file, tail] of this.#tails)
      for await (const lines of tail.read(() => this.#restart(file))) {
        for (const line of lines) this.#take(file, line);
        this.#commit();
      }
    const { status, heard } = await this.#state();
    const { info } = this.data;
    if (status !== info.status || (heard !== undefined && heard !== info.heard))
      this.#info({ status, ...(heard && { heard }) });
    this.#commit();
  }

  /** The changes after a position; the whole run if the position is invalid or too old. */
  changesSince(place: { readonly epoch: number; readonly count: number } | undefined): Change[] {
    const { id: run, name } = this;
    if (place?.epoch === this.epoch && this.count - place.count <= this.#recent.length && place.count <= this.count)
      return this.#recent
        .slice(this.#recent.length - (this.count - place.count))
        .map((patch) => ({ run, name, patch }));
    return [{ run, name, reset: true, patch: this.data.whole() }];
  }

  // ---- lines

  #take(file: string, text: string): void {
    let line: Line;
    try {
      line = JSON.parse(text);
      if (typeof line !== 'object' || line === null || Array.isArray(line)) throw new Error('not an object');
    } catch {
      this.#info({ damaged: this.#damaged + 1 });
      return;
    }
    if (file === EVENTS) this.#event(line);
    else if (file === METRICS) this.#numbers(file, numberOf(line['step']), line);
    else this.#history(line);
  }
  /** A report of a trainer. Newer runs also have it in their log. */
  #history(line: Line): void {
    const logged = this.#seriesOf.get(EVENTS);
    const unknown = Object.fromEntries(Object.entries(line).filter(([name]) => !logged?.has(name)));
    this.#numbers(HISTORY, numberOf(line['step']) ?? ++this.#reports, unknown);
  }
  get #damaged(): number {
    return this.#patch.info?.damaged ?? this.data.info.damaged ?? 0;
  }
  #numbers(file: string, x: number | undefined, line: Line): void {
    if (x === undefined) return;
    for (const [name, value] of Object.entries(line))
      if (!NO_METRICS.has(name) && (name !== CLOCK || file !== METRICS)) {
        const number = numberOf(value);
        if (number !== undefined) this.#add(file, name, x, number);
      }
  }
  #add(file: string, name: string, x: number, value: number): void {
    if (!Number.isFinite(x)) return;
    const known = this.data.series.get(name)?.x;
    const fresh = (this.#series[name] ??= [[], []]);
    const last = fresh[0].at(-1) ?? known?.at(-1) ?? Number.NEGATIVE_INFINITY;
    if (x <= last) {
      this.#again(file, name, x, value);
      return;
    }
    fresh[0].push(x);
    fresh[1].push(Number.isFinite(value) ? value : null);
    if (!Number.isFinite(value)) this.#list('bad', { metric: name, x, value: String(value) } satisfies Bad);
    const names = this.#seriesOf.get(file) ?? new Set();
    this.#seriesOf.set(file, names.add(name));
  }
  /** A repeated step, after a restart: the new line replaces the old one and everything after it. */
  #again(file: string, name: string, x: number, value: number): void {
    this.#commit();
    this.data.cut([name], x);
    this.#newEpoch();
    this.#add(file, name, x, value);
  }

  #event(line: Line): void {
    const t = numberOf(line['t']);
    if (t !== undefined) this.#info({ heard: t });
    const { kind } = line;
    const earlier = this.#heard;
    this.#heard = t ?? earlier;
    if (kind === 'start') this.#start(line, t, earlier);
    else if (kind === 'steps') this.#steps(line);
    else if (kind === 'metrics') this.#numbers(EVENTS, numberOf(line['step']), line);
    else if (kind === 'compile') this.#list('compiles', compileOf(line, t ?? 0));
    else if (kind === 'finding')
      this.#list('findings', textsOf(line, ['rule', 'place', 'what', 'cost', 'fix']) as unknown as Finding);
    else if (kind === 'sample') this.#list('samples', textsOf(line, ['title', 'prompt', 'text']) as unknown as Sample);
    else if (kind === 'table') this.#list('tables', tableOf(line));
    else if (kind === 'mark') {
      const value = numberOf(line['value']);
      const texts = textsOf(line, ['metric', 'label']);
      if (value !== undefined && Number.isFinite(value)) this.#list('marks', { ...texts, value } as unknown as Mark);
    } else if (kind === 'facts') this.#facts(line);
    else if (kind === 'title' && typeof line['title'] === 'string') this.#info({ title: line['title'] });
    else if (kind === 'end') this.#end(line);
  }
  #start(line: Line, t: number | undefined, earlier: number | undefined): void {
    const step = numberOf(line['step']) ?? 0;
    this.#commit();
    const isAnother = !this.#process || (step === 0 && line['resumed'] !== true);
    const { began } = this.data.info;
    const spent = isAnother || began === undefined || earlier === undefined ? 0 : earlier - began; // by earlier attempts
    if (this.#process && isAnother)
      this.#clear(EVENTS); // another run in the same folder
    else if (this.#process) {
      const names = this.#seriesOf.get(EVENTS) ?? new Set<string>();
      this.data.cut(names, step + 0.5);
      this.data.bad = this.data.bad.filter((b) => !names.has(b.metric) || b.x <= step);
      this.data.info = without(this.data.info, 'error');
      this.#newEpoch();
    }
    const [pid, host, steps] = [numberOf(line['pid']), line['host'], numberOf(line['steps'])];
    this.#process = { pid: pid ?? 0, host: String(host) };
    this.#ended = false;
    const settings = line['settings'];
    this.#info({
      status: 'live',
      ...(typeof line['title'] === 'string' && { title: line['title'] }),
      ...(steps !== undefined && { steps }),
      ...(t !== undefined && { began: t - spent }),
      ...(typeof settings === 'object' && settings !== null && { settings: settings as Line }),
    });
  }
  #steps(line: Line): void {
    const first = numberOf(line['first']);
    const [losses, seconds] = [line['loss'], line['seconds']];
    if (first === undefined) return;
    const add = (name: string, values: unknown) => {
      for (const [i, value] of (Array.isArray(values) ? values : []).entries()) {
        const number = numberOf(value);
        if (number !== undefined) this.#add(EVENTS, name, first + i, number);
      }
    };
    add('stepLoss', losses);
    add('stepTime', seconds);
  }
  #facts({ kind: _, t: __, ...facts }: Line): void {
    const shown = Object.entries(facts).map(([name, value]) => [name, factOf(name, value)]);
    this.#info({ facts: { ...this.data.info.facts, ...this.#patch.info?.facts, ...Object.fromEntries(shown) } });
  }
  #end(line: Line): void {
    const status = STATUSES.find((s) => s === line['status']) ?? 'finished';
    this.#ended = true;
    this.#info({ status, ...(typeof line['error'] === 'string' && { error: line['error'] }) });
  }

  /** Whether the run is live: by its process, or for runs that only write metrics, by a recent change of a file. */
  async #state(): Promise<{ readonly status: Status; readonly heard?: number }> {
    const { info } = this.data;
    if (this.#ended) return { status: info.status };
    if (this.#process)
      return { status: this.#process.host === os.hostname() && !isAlive(this.#process.pid) ? 'lost' : 'live' };
    const times = await Promise.all(
      FILES.map((file) =>
        fs.stat(path.join(this.folder, file)).then(
          (s) => s.mtimeMs,
          () => 0,
        ),
      ),
    );
    const heard = Math.round(Math.max(...times));
    return { status: Date.now() - heard < QUIET ? 'live' : 'recorded', heard };
  }

  // ---- patches

  #info(info: Partial<RunInfo>): void {
    this.#patch.info = { ...this.#patch.info, ...info };
  }
  #list(
    name: 'compiles' | 'findings' | 'samples' | 'tables' | 'marks' | 'bad',
    item: Compile | Finding | Sample | Table | Mark | Bad,
  ): void {
    ((this.#patch[name] ??= []) as unknown[]).push(item);
  }
  #commit(): void {
    const patch: Patch = { ...this.#patch, ...(Object.keys(this.#series).length && { series: this.#series }) };
    if (!Object.keys(patch).length) return;
    this.#patch = {};
    this.#series = noSeries();
    this.data.apply(patch);
    this.count++;
    this.#recent.push(patch);
    if (this.#recent.length > MOST_RECENT) this.#recent.splice(0, MOST_RECENT / 2);
  }
  #newEpoch(): void {
    this.epoch++;
    this.count = 0;
    this.#recent = [];
  }
  #restart(file: string): void {
    if (file === HISTORY) this.#reports = 0;
    this.#clear(file);
  }
  /** Discards the data of a file. */
  #clear(file: string): void {
    const { data } = this;
    const names = this.#seriesOf.get(file) ?? new Set<string>();
    for (const name of names) data.series.delete(name);
    data.bad = data.bad.filter((b) => !names.has(b.metric));
    this.#seriesOf.delete(file);
    if (file === EVENTS) {
      data.compiles = [];
      data.findings = [];
      data.samples = [];
      data.tables = [];
      data.marks = [];
      data.info = { status: 'recorded' };
      this.#process = undefined;
      this.#ended = false;
    }
    this.#newEpoch();
  }
}

const QUIET = 120_000; // milliseconds
const NO_METRICS = new Set(['step', 't', 'kind']);
const CLOCK = 'seconds'; // of train-recovery-lora: since it began
const STATUSES = ['finished', 'stopped', 'failed'] as const;

/** A number, which may be NaN or infinite as a string in JSON; undefined for other values. */
function numberOf(x: unknown): number | undefined {
  if (typeof x === 'number') return x;
  return x === 'NaN' || x === 'Infinity' || x === '-Infinity' ? Number(x) : undefined;
}
const textsOf = (line: Line, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, String(line[name] ?? '')]));

function compileOf(line: Line, t: number): Compile {
  const texts = textsOf(line, ['cause', 'hash', 'at', 'cache']);
  const numbers = ['inputs', 'outputs', 'operations', 'earlier', 'seconds'].map((n) => [n, numberOf(line[n]) ?? 0]);
  const { name, difference, internal } = line;
  return {
    t,
    name: typeof name === 'string' ? name : null,
    ...texts,
    ...Object.fromEntries(numbers),
    ...(internal === true && { internal }),
    ...(typeof difference === 'object' &&
      difference !== null && { difference: textsOf(difference as Line, ['what', 'was', 'now', 'at', 'fix']) }),
  } as unknown as Compile;
}
function tableOf(line: Line): Table {
  const cells = (x: unknown): string[] => (Array.isArray(x) ? x.map(String) : []);
  const rows = Array.isArray(line['rows']) ? line['rows'].map(cells) : [];
  return { title: String(line['title'] ?? ''), head: cells(line['head']), rows };
}
function factOf(name: string, value: unknown): string {
  if (typeof value !== 'number') return String(value);
  if (/bytes|memory/i.test(name)) return bytes(value);
  return name === 'devices' ? plural(value, 'device') : value.toLocaleString('en');
}
const without = <T extends object>(o: T, key: keyof T): T => {
  const { [key]: _, ...rest } = o;
  return rest as T;
};
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'EPERM';
  }
}
