// The sections below the charts: samples of text, tables, findings, compiles, settings. Each is rebuilt when it has changed.
import type { Compile, Finding, Sample } from '../data.js';
import { h, swatch } from './dom.js';
import { count, time } from './numbers.js';
import { runs, type ShownRun, shownRuns } from './state.js';

class Section {
  readonly element: HTMLElement;
  readonly #body = h('div');
  readonly #note = h('p', { class: 'note' });
  #made = '';

  constructor(
    title: string,
    /** The content, and a key that changes with it. The section is hidden without content. */
    readonly signature: () => string,
    readonly make: () => { readonly note: string; readonly content: readonly Node[] },
  ) {
    this.element = h('section', { hidden: '' }, h('h2', {}, title), this.#note, this.#body);
  }
  update(): void {
    const signature = this.signature();
    if (signature === this.#made) return;
    this.#made = signature;
    const { note, content } = this.make();
    this.element.hidden = !content.length;
    this.#note.textContent = note;
    this.#body.replaceChildren(...content);
  }
}

const title = (run: ShownRun): HTMLElement => h('span', { class: 'of' }, swatch(run.color), run.title);
const head = (...names: readonly string[]) =>
  h(
    'thead',
    {},
    h(
      'tr',
      {},
      ...names.map((name) => h('th', name.startsWith('#') ? { class: 'number' } : {}, name.replace('#', ''))),
    ),
  );
const scroll = (...children: readonly Node[]) => h('div', { class: 'scroll' }, h('table', {}, ...children));
const number = (text: string) => h('td', { class: 'number' }, text);
/** The items of shown runs, and whether there are several. */
const each = <T>(of: (run: ShownRun) => readonly T[]): (readonly [ShownRun, readonly T[]])[] =>
  shownRuns()
    .map((run) => [run, of(run)] as const)
    .filter(([, list]) => list.length);
const sign = (of: (run: ShownRun) => readonly unknown[]): string =>
  JSON.stringify(each(of).map(([run, list]) => [run.id, run.title, list]));
const isMany = () => runs.size > 1;

// ---- samples

function samples() {
  const content = each((run) => run.data.samples).flatMap(([run, list]) => {
    const prompts = [...new Set(list.map((s) => s.prompt))];
    const groups = prompts.map((prompt) =>
      h('div', { class: 'samples' }, ...list.filter((s) => s.prompt === prompt).map(card)),
    );
    return [...(isMany() ? [h('h3', {}, title(run))] : []), ...groups];
  });
  return { note: 'How the model continues a prompt.', content };
}
const card = ({ title, prompt, text }: Sample) =>
  h('figure', {}, h('figcaption', {}, title), h('p', {}, h('mark', {}, prompt), text));

// ---- tables of results

function tables() {
  const content = each((run) => run.data.tables).flatMap(([run, list]) =>
    list.flatMap((table) => {
      const isNumber = table.head.map((_, i) =>
        table.rows.every((row) => /^[\s\d.,%+\u2212-]*( ?[KMGT]?i?B| ?m?s)?$/.test(row[i] ?? '')),
      );
      const cells = (tag: 'th' | 'td', row: readonly string[]) =>
        row.map((cell, i) => h(tag, isNumber[i] ? { class: 'number' } : {}, cell));
      return [
        h('h3', {}, ...(isMany() ? [title(run), ' '] : []), table.title),
        scroll(
          h('thead', {}, h('tr', {}, ...cells('th', table.head))),
          h('tbody', {}, ...table.rows.map((row) => h('tr', {}, ...cells('td', row)))),
        ),
      ];
    }),
  );
  return { note: '', content };
}

// ---- findings of rules

function findings() {
  const all = each((run) => run.data.findings).flatMap(([run, list]) => list.map((f) => finding(run, f)));
  return { note: 'Development rules of XLA devices that the program broke.', content: all };
}
const finding = (run: ShownRun, { rule, place, what, cost, fix }: Finding) =>
  h(
    'article',
    { class: 'finding' },
    h('p', {}, h('code', { class: 'rule' }, rule), h('b', {}, what), isMany() && title(run)),
    h('p', {}, cost),
    h('p', { class: 'fix' }, fix),
    place ? h('p', { class: 'place' }, place) : undefined,
  );

// ---- compiles

const MOST = 60;
function compiles() {
  const all = each((run) => run.data.compiles).flatMap(([run, list]) => list.map((c) => [run, c] as const));
  const seconds = all.reduce((s, [, c]) => s + (c.cache === 'disk' ? 0 : c.seconds), 0);
  const again = all.filter(([, c]) => c.difference).length;
  const disk = all.filter(([, c]) => c.cache === 'disk').length;
  const note = [
    `${count(all.length)} ${all.length === 1 ? 'program' : 'programs'}`,
    seconds && `${time(seconds)} in the compiler`,
    disk && `${disk} from the disk cache`,
    again ? `${again} recompiled: the reason is below each` : '',
  ];
  // Programs with reasons come first, then by compile time.
  const order = [...all].sort(
    ([, a], [, b]) => Number(!!b.difference) - Number(!!a.difference) || b.seconds - a.seconds,
  );
  const rows = (list: typeof all) => list.flatMap(([run, c]) => compile(run, c));
  const columns = head(...(isMany() ? ['run'] : []), 'program', '#took', '#operations', '#inputs', 'cause', 'where');
  const table = (list: typeof all) => scroll(columns.cloneNode(true), h('tbody', {}, ...rows(list)));
  const rest = order.slice(MOST);
  const more = rest.length
    ? [h('details', {}, h('summary', {}, `${rest.length} more`), table(rest.slice(0, 500)))]
    : [];
  return {
    note: `${note.filter(Boolean).join(', ')}.`,
    content: all.length ? [table(order.slice(0, MOST)), ...more] : [],
  };
}
function compile(run: ShownRun, c: Compile): Node[] {
  const name = c.name ?? (c.internal ? 'set-up' : 'lazy values');
  const row = h(
    'tr',
    c.difference ? { class: 'again' } : {},
    ...(isMany() ? [h('td', {}, title(run))] : []),
    h('td', {}, h('b', {}, name)),
    number(c.cache === 'disk' ? `${time(c.seconds)} (disk)` : time(c.seconds)),
    number(count(c.operations)),
    number(count(c.inputs)),
    h('td', { class: 'soft' }, c.cause),
    h('td', { class: 'place' }, c.at),
  );
  const d = c.difference;
  if (!d) return [row];
  const what = d.was || d.now ? `${d.what}: was ${d.was}, now ${d.now}` : d.what;
  const cell = h(
    'td',
    { class: 'why' },
    h('p', {}, what),
    d.at ? h('p', { class: 'place' }, d.at) : undefined,
    h('p', { class: 'fix' }, d.fix),
  );
  cell.colSpan = row.cells.length;
  return [row, h('tr', { class: 'reason' }, cell)];
}

// ---- settings, side by side

const shown = (x: unknown): string =>
  x === undefined
    ? ''
    : Array.isArray(x)
      ? x.map(shown).join(', ')
      : typeof x === 'object'
        ? JSON.stringify(x)
        : String(x);
function settings() {
  const all = shownRuns().filter(({ data }) => data.info.settings || data.info.facts);
  const of = ({ data: { info } }: ShownRun): Readonly<Record<string, unknown>> => ({ ...info.facts, ...info.settings });
  const names = [...new Set(all.flatMap((run) => Object.keys(of(run))))];
  const rows = names.map((name) => {
    const values = all.map((run) => shown(of(run)[name]));
    return h(
      'tr',
      new Set(values).size > 1 ? { class: 'differs' } : {},
      h('th', {}, name),
      ...values.map((v) => h('td', {}, v)),
    );
  });
  const titles = h('thead', {}, h('tr', {}, h('th'), ...all.map((run) => h('th', {}, title(run)))));
  const content = rows.length
    ? [
        h(
          'details',
          {},
          h('summary', {}, `${rows.length} of them`),
          scroll(...(all.length > 1 ? [titles] : []), h('tbody', {}, ...rows)),
        ),
      ]
    : [];
  return { note: all.length > 1 ? 'Differences between the runs are marked.' : '', content };
}

export const sections = [
  new Section('Samples', () => sign((run) => run.data.samples), samples),
  new Section('Results', () => sign((run) => run.data.tables), tables),
  new Section('Findings', () => sign((run) => run.data.findings), findings),
  new Section('Compiles', () => sign((run) => run.data.compiles), compiles),
  new Section('Settings', () => sign((run) => [run.data.info.settings, run.data.info.facts]), settings),
];
