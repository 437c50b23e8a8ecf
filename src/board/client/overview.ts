// The table of runs: the state of each and its latest numbers. A click on a name hides or shows its curves.
import type { Status } from '../data.js';
import { quantile } from '../data.js';
import { h, setText, swatch } from './dom.js';
import { count, fixed, memory, plain, span, time } from './numbers.js';
import { runs, type ShownRun } from './state.js';

const WORDS: Readonly<Record<Status, string>> = {
  live: 'running',
  finished: 'finished',
  stopped: 'stopped',
  failed: 'failed',
  lost: 'process lost',
  recorded: 'recorded',
};

const some = <T>(x: T | null | undefined, format: (x: T) => string): string =>
  x === undefined || x === null ? '' : format(x);
const stepTime = (p: number) => (run: ShownRun) => {
  const times = run.series('stepTime');
  return times ? some(quantile(times.y.slice(-1000), p), time) : '';
};
const loss = (run: ShownRun): string => {
  const mean = run.smooth(0.9)?.y.at(-1) ?? run.last('loss');
  return run.data.bad.some((b) => /loss/i.test(b.metric)) ? 'not finite' : some(mean, fixed(4));
};
function clock(run: ShownRun): string {
  const { status, began, heard } = run.data.info;
  if (run.secondsLeft !== undefined) return `${span(run.secondsLeft)} left`;
  return status !== 'recorded' && began && heard ? span((heard - began) / 1000) : '';
}

const NUMBERS: readonly (readonly [title: string, hint: string, value: (run: ShownRun) => string])[] = [
  ['loss', 'The mean of the last steps', loss],
  ['perplexity', 'By the last evaluation', (run) => some(run.last('perplexity'), fixed(2))],
  ['tokens/s', '', (run) => some(run.last('tokensPerSecond'), plain)],
  ['step p50', 'Half of the last 1000 steps took less', stepTime(0.5)],
  ['step p90', 'Nine of ten took less', stepTime(0.9)],
  ['step p99', '99 of 100 took less', stepTime(0.99)],
  ['memory', 'On the device', (run) => some(run.last('memory'), memory)],
  ['time', 'That it took, or until it is done', clock],
];

class Row {
  readonly element: HTMLTableRowElement;
  readonly #name = h('b');
  readonly #folder = h('small');
  readonly #status = h('span');
  readonly #bar = h('i');
  readonly #steps = h('span');
  readonly #cells: readonly HTMLElement[];
  readonly #toggle: HTMLButtonElement;

  constructor(
    readonly run: ShownRun,
    onToggle: () => void,
  ) {
    const toggle = () => {
      run.on = !run.on;
      this.update();
      onToggle();
    };
    this.#toggle = h(
      'button',
      { type: 'button', class: 'run', onclick: toggle },
      swatch(run.color),
      h('span', {}, this.#name, this.#folder),
    );
    this.#cells = NUMBERS.map(([title]) => h('td', { class: 'number', 'data-label': title }));
    this.element = h(
      'tr',
      {},
      h('td', { class: 'name' }, this.#toggle),
      h('td', { class: 'state' }, this.#status),
      h('td', { class: 'progress' }, h('span', { class: 'track' }, this.#bar), this.#steps),
      ...this.#cells,
    );
  }
  update(): void {
    const { run } = this;
    const { info } = run.data;
    setText(this.#name, run.title);
    setText(this.#folder, run.title === run.name ? '' : run.name);
    this.#toggle.setAttribute('aria-pressed', String(run.on));
    this.#toggle.title = run.on ? 'Hide its curves' : 'Show its curves';
    setText(this.#status, WORDS[info.status]);
    this.#status.className = `status ${info.status}`;
    const part = info.steps ? run.step / info.steps : undefined;
    this.#bar.style.width = `${100 * Math.min(1, part ?? 0)}%`;
    this.#bar.parentElement!.hidden = part === undefined;
    setText(this.#steps, info.steps === undefined ? count(run.step) : `${count(run.step)} / ${count(info.steps)}`);
    for (const [i, cell] of this.#cells.entries()) setText(cell, NUMBERS[i]![2](run));
  }
}

export class Overview {
  readonly element: HTMLElement;
  readonly #body = h('tbody');
  readonly #errors = h('div', { class: 'errors' });
  readonly #rows = new Map<ShownRun, Row>();

  constructor(readonly onToggle: () => void) {
    const titles = NUMBERS.map(([title, hint]) => h('th', { class: 'number', ...(hint && { title: hint }) }, title));
    this.element = h(
      'section',
      { class: 'overview' },
      h(
        'div',
        { class: 'scroll' },
        h(
          'table',
          {},
          h('thead', {}, h('tr', {}, h('th', {}, 'run'), h('th', {}, ''), h('th', {}, 'steps'), ...titles)),
          this.#body,
        ),
      ),
      this.#errors,
    );
  }
  update(): void {
    for (const run of runs.values()) {
      let row = this.#rows.get(run);
      if (!row) {
        row = new Row(run, this.onToggle);
        this.#rows.set(run, row);
        this.#body.append(row.element);
      }
      row.update();
    }
    // Columns that are empty for all runs are left out.
    const isEmpty = NUMBERS.map(([, , value]) => [...runs.values()].every((run) => value(run) === ''));
    for (const row of this.element.querySelectorAll('tr'))
      for (const [i, cell] of [...row.querySelectorAll<HTMLElement>('.number')].entries()) cell.hidden = isEmpty[i]!;
    const failed = [...runs.values()].filter(({ data }) => data.info.error);
    this.#errors.replaceChildren(
      ...failed.map((run) => h('p', { class: 'error' }, h('b', {}, run.title), ` ${run.data.info.error}`)),
    );
  }
  /** The n-th run, counted from 0. */
  toggle(n: number): void {
    [...this.#rows.values()][n]?.element.querySelector('button')?.click();
  }
}
