// The notebooks run from beginning to end, headless, each in an empty folder: no cell fails, and what they show is there.

import { execFileSync } from 'node:child_process';
import { beforeAll, describe, expect, test } from 'vitest';
import { folder, type Notebook, type Output, read, run, textOf } from '../../scripts/notebooks.js';

const python = (() => {
  try {
    return execFileSync('python3', ['--version'], { encoding: 'utf8' });
  } catch {
    return ''; // nothing to run a notebook with
  }
})();

/** The outputs of the code cell that has this text. */
async function ranWith(name: string): Promise<(source: string) => readonly Output[]> {
  const committed = read(`${folder}/${name}.ipynb`);
  let { notebook } = await run(name);
  // On a busy machine Deno's kernel may send a result after it said that it is idle, and Jupyter drops it.
  const isShort = () => results(notebook) < results(committed);
  for (let tries = 1; isShort() && tries < 3; tries++) ({ notebook } = await run(name));
  expect(notebook.cells.map(({ source }) => textOf(source))).toEqual(
    committed.cells.map(({ source }) => textOf(source)),
  );
  return (source) => {
    const found = notebook.cells.filter((c) => c.cell_type === 'code' && textOf(c.source).includes(source));
    expect(found, source).toHaveLength(1);
    return found[0]!.outputs!;
  };
}
/** The number of cells that show a value. */
const results = ({ cells }: Notebook): number =>
  cells.filter(({ outputs = [] }) => outputs.some(({ data }) => data)).length;
const printed = (outputs: readonly Output[], stream = 'stdout') =>
  outputs
    .filter(({ name }) => name === stream)
    .map(({ text }) => textOf(text))
    .join('');
const shown = (outputs: readonly Output[], type: string) =>
  outputs.flatMap(({ data }) => (data?.[type] ? [textOf(data[type])] : []));
const numbers = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map((m) => Number(m[1]));

describe.skipIf(!python)('tpu_lora_kd_wikitext1024.ipynb, with a tiny model on a CPU', () => {
  let outputs: Awaited<ReturnType<typeof ranWith>>;
  beforeAll(async () => void (outputs = await ranWith('tpu_lora_kd_wikitext1024')));

  test('finds the machine, plans, caches, quantizes', () => {
    expect(printed(outputs('settings = {'))).toBe('a tiny model on a CPU\n');
    expect(printed(outputs('if-missing; fi'))).toContain('All is well: cpu works.');
    expect(printed(outputs('tsxla plan'))).toMatch(/Take v6e-1, batch 8: it takes [\d.]+ MiB of 31\.2 GiB/);
    expect(printed(outputs('tsxla kd-cache'))).toContain('cache: 256 sequences');
    expect(printed(outputs('tsxla quantize'))).toContain('student: 28 linears quantized');
  });

  test('trains, and draws the curves', () => {
    const summary = printed(outputs('tsxla train-recovery-lora'));
    const [before, after] = /perplexity\s+([\d.]+) to ([\d.]+)/.exec(summary)!.slice(1).map(Number) as [number, number];
    expect(after).toBeLessThan(before);
    const [svg] = shown(outputs('SVG("curves.svg")'), 'image/svg+xml');
    for (const metric of ['loss', 'perplexity', 'lr', 'gradNorm']) expect(svg).toContain(`>${metric}</text>`);
  });

  test('what was lost comes back, and it writes', () => {
    const result = outputs('HTML(f"<table>');
    const [table] = shown(result, 'text/html');
    const [model, student, recovered] = numbers(table!, /<td>([\d.]+)<\/td>/g) as [number, number, number];
    expect(student).toBeGreaterThan(model + 0.3);
    expect(recovered).toBeLessThan(student - (student - model) / 3);
    expect(numbers(printed(result), /(\d+)% of what was lost is back/g)[0]).toBeGreaterThan(33);
    const chat = printed(outputs('tsxla generate'));
    expect(chat.split('==').length).toBe(3);
    expect(chat.length).toBeGreaterThan(200);
  });
});

describe.skipIf(!python)('first-steps.ipynb, in Deno', () => {
  let outputs: Awaited<ReturnType<typeof ranWith>>;
  beforeAll(async () => void (outputs = await ranWith('first-steps')));

  test('tensors and gradients are tables', () => {
    const cells = (source: string) => numbers(shown(outputs(source), 'text/html')[0]!, /<td[^>]*>([-\d.]+)</g);
    expect(cells('a.matmul(a.t())')).toEqual([14, 32, 32, 77]);
    expect(cells('error.backward()')).toEqual([-5, -7, -9]);
    expect(shown(outputs('tx.linspace(0, 1, 3000)'), 'text/plain')[0]).toContain('...');
  });

  test('one program learns, and a second is explained', () => {
    const said = printed(outputs('const train = tx.compile'));
    expect(said).toContain('1 program for 400 steps');
    expect(numbers(said, /loss ([\d.]+)/g)[0]).toBeLessThan(0.05);
    expect(printed(outputs('tx.explain()'))).toContain('train again: argument [0] f32[256, 1] -> f32[128, 1]');
  });

  test('curves are pictures, and the profile counts the steps', () => {
    expect(shown(outputs("title: 'Training loss'"), 'image/svg+xml')[0]).toContain('Training loss');
    expect(shown(outputs("title: 'What it learned'"), 'image/svg+xml')[0]).toContain('network');
    expect(printed(outputs('tx.profiler.trace'))).toContain('20 steps');
  });
});
