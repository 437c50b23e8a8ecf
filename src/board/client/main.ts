// The board in the browser: reads the embedded data or the server's stream, and draws.
import type { Change, PageData } from '../data.js';
import { Chart } from './chart.js';
import { specs } from './charts.js';
import { h, setText } from './dom.js';
import { Overview } from './overview.js';
import { sections } from './sections.js';
import { applyChanges, runs, view } from './state.js';

const data: PageData = JSON.parse(document.getElementById('data')!.textContent!);
const root = document.getElementById('board')!;

// ---- the user's settings

const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];
/** localStorage may be unavailable for pages from files. */
const kept = {
  get: (name: string): string | null => {
    try {
      return localStorage.getItem(`tsxla ${name}`);
    } catch {
      return null;
    }
  },
  set: (name: string, value: string): void => {
    try {
      localStorage.setItem(`tsxla ${name}`, value);
    } catch {}
  },
};
let theme: Theme = THEMES.find((t) => t === kept.get('theme')) ?? 'auto';

const button = (text: string, title: string, onclick: () => void) =>
  h('button', { type: 'button', class: 'control', title, onclick }, text);
const themeButton = button('', 'Colours (t)', () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!));
const logButton = button('log', 'Logarithmic scale (l)', () => {
  view.log = !view.log;
  logButton.setAttribute('aria-pressed', String(view.log));
  draw();
});
logButton.setAttribute('aria-pressed', 'false');
const zoomButton = button('all steps', 'Show all steps (Esc)', () => zoom(undefined));
zoomButton.hidden = true;
const smoothing = Object.assign(document.createElement('input'), {
  type: 'range',
  min: '0',
  max: '0.99',
  step: '0.01',
  value: String(view.smoothing),
});
smoothing.setAttribute('aria-label', 'smoothing of the loss');
const smoothingValue = h('output', {}, view.smoothing.toFixed(2));
smoothing.addEventListener('input', () => {
  view.smoothing = Number(smoothing.value);
  setText(smoothingValue, view.smoothing.toFixed(2));
  draw();
});
const smoothingControl = h(
  'label',
  { class: 'control smoothing', title: 'Weight of the steps before in the mean of losses' },
  'smoothing',
  smoothing,
  smoothingValue,
);

function setTheme(to: Theme): void {
  theme = to;
  kept.set('theme', to);
  if (to === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = to;
  setText(themeButton, `theme: ${to}`);
  for (const chart of charts.values()) chart.redraw();
}
function zoom(range: readonly [number, number] | undefined): void {
  view.range = range;
  zoomButton.hidden = range === undefined;
  draw();
}

// ---- the page

const state = h('span', { class: 'connection', role: 'status' });
const heading = h('h1');
const keys = h(
  'p',
  { class: 'keys' },
  'Keys: 1\u20139 show or hide a run, l logarithmic scale, t colours, Esc all steps. In a chart: arrows move, + and \u2212 zoom; dragging zooms, a double click shows all.',
);
const empty = h(
  'section',
  { class: 'empty' },
  h(
    'p',
    {},
    data.live ? 'No run yet. It appears here once it writes its first line.' : 'There is no run in this report.',
  ),
);
const grid = h('div', { class: 'charts' });
const overview = new Overview(() => draw());
const charts = new Map<string, Chart>();
const isReport = !data.live;
const written = data.written ? `report of ${new Date(data.written).toLocaleString()}` : '';
root.replaceChildren(
  h(
    'header',
    { class: 'top' },
    h('div', {}, h('p', { class: 'kicker' }, isReport ? 'tsxla report' : 'tsxla board'), heading),
    h('div', { class: 'controls' }, state, zoomButton, smoothingControl, logButton, themeButton),
  ),
  empty,
  overview.element,
  grid,
  ...sections.map((s) => s.element),
  h('footer', {}, keys),
);
if (isReport) setText(state, written);

let isDue = false;
/** Draws once before the next frame, even if called several times. */
function draw(): void {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    drawNow();
  });
}
function drawNow(): void {
  const all = [...runs.values()];
  empty.hidden = all.length > 0;
  overview.element.hidden = grid.hidden = !all.length;
  setText(heading, all.length === 1 ? all[0]!.title : all.length ? `${all.length} runs` : 'Waiting for a run');
  if (data.live) document.title = `${heading.textContent} \u00b7 tsxla board`;
  smoothingControl.hidden = !all.some((run) => run.series('stepLoss'));
  for (const spec of specs()) {
    if (charts.has(spec.key)) continue;
    const chart = new Chart(spec, zoom);
    charts.set(spec.key, chart);
    grid.append(chart.element);
  }
  overview.update();
  for (const chart of charts.values()) chart.update();
  for (const section of sections) section.update();
}

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLInputElement) return;
  if (e.key === 't') themeButton.click();
  else if (e.key === 'l') logButton.click();
  else if (e.key === 'Escape') zoom(undefined);
  else if (/^[1-9]$/.test(e.key)) overview.toggle(Number(e.key) - 1);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setTheme(theme));

// ---- changes from the server

function listen(): void {
  const token = new URLSearchParams(location.search).get('token') ?? '';
  const source = new EventSource(`events?token=${encodeURIComponent(token)}`);
  const say = (text: string, kind: string) => {
    setText(state, text);
    state.className = `connection ${kind}`;
  };
  source.onopen = () => say('live', 'on');
  source.onmessage = ({ data: text }) => {
    applyChanges(JSON.parse(text) as Change[]);
    draw();
  };
  source.addEventListener('end', () => {
    source.close();
    say('the server has ended: these are its last data', 'off');
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) say('no longer connected: open the link again', 'off');
    else say('reconnecting \u2026', 'wait');
  };
}

setTheme(theme);
applyChanges(data.changes ?? []);
drawNow();
if (data.live) listen();
