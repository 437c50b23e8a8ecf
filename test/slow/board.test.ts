// The board in Chromium: a live run, finished runs compared, one that fails with NaN, 100,000 steps, a phone, dark mode, the
// keyboard, a connection that is cut. Skipped, and said so, where no Chromium is found (CHROMIUM names one).
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { type Board, serveBoard, writeReport } from 'tsxla/board';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { append, newFolder, start, steps } from '../board/support.js';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = [process.env['CHROMIUM'], ...PLACES].find((file) => file && fs.existsSync(file));
if (!executablePath) console.log('board: no Chromium found (set CHROMIUM to one): its tests in a browser are skipped');

const EVIL = '</script><img src=x onerror="window.evil=1"><script>window.evil=1</script>';
const curve = (n: number, from = 1) =>
  Array.from({ length: n }, (_, i) => 1 + 2 * Math.exp(-(from + i) / 200) + 0.1 * Math.sin(from + i));

describe.skipIf(!executablePath)('in Chromium', () => {
  let browser: Browser;
  let board: Board | undefined;
  const errors: string[] = [];
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox'] });
  });
  afterAll(() => browser?.close());
  afterEach(async () => {
    await board?.close();
    board = undefined;
    expect(errors.splice(0)).toEqual([]);
  });
  async function open(url: string, options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
    page.on('pageerror', (e) => errors.push(e.message));
    page.on('console', (m) => m.type() === 'error' && !/ERR_CONNECTION|net::/.test(m.text()) && errors.push(m.text()));
    await page.goto(url);
    return page;
  }
  const serve = async (root: string) => (board = await serveBoard([root], { port: 0, interval: 20 }));
  const readout = (page: Page, chart: string) => page.locator(`[data-chart="${chart}"] .readout`);
  const rowOf = (page: Page, name: string) => page.locator('.overview tbody tr', { hasText: name });
  /** How many pixels of a chart have a run's colour, about. */
  const painted = (page: Page, chart: string, [r, g, b]: readonly [number, number, number]) =>
    page.locator(`[data-chart="${chart}"] canvas`).evaluate(
      (canvas, [r, g, b]) => {
        const { width, height } = canvas as unknown as { width: number; height: number };
        // biome-ignore lint/suspicious/noExplicitAny: types of the DOM are the page's
        const { data } = (canvas as any).getContext('2d').getImageData(0, 0, width, height);
        let count = 0;
        for (let i = 0; i < data.length; i += 4)
          if (
            data[i + 3] > 200 &&
            Math.abs(data[i] - r!) + Math.abs(data[i + 1] - g!) + Math.abs(data[i + 2] - b!) < 30
          )
            count++;
        return count;
      },
      [r, g, b] as const,
    );
  const BLUE = [0x42, 0x69, 0xd0] as const;
  const RED = [0xff, 0x72, 0x5c] as const;

  test('a live run: curves grow as lines come, through a connection that is cut', async () => {
    const root = newFolder();
    const run = path.join(root, 'live');
    append(run, 'events.jsonl', start({ steps: 400 }), steps(1, curve(100)));
    const { port, url } = await serve(root);
    const sockets = new Set<net.Socket>(); // of a tunnel to the board, which can be cut
    const tunnel = net.createServer((socket) => {
      sockets.add(socket.on('error', () => {}));
      const inner = net.connect(port, '127.0.0.1').on('error', () => {});
      socket.pipe(inner).pipe(socket);
      socket.on('close', () => inner.destroy());
    });
    await new Promise<void>((resolve) => tunnel.listen(0, '127.0.0.1', resolve));
    const page = await open(url.replace(`:${port}`, `:${(tunnel.address() as net.AddressInfo).port}`));
    await rowOf(page, 'live').getByText('100 / 400').waitFor();
    expect(await rowOf(page, 'live').locator('.status').textContent()).toBe('running');
    const before = await painted(page, 'loss', BLUE);
    append(run, 'events.jsonl', steps(101, curve(100, 101)));
    await rowOf(page, 'live').getByText('200 / 400').waitFor();
    await expect.poll(() => painted(page, 'loss', BLUE)).not.toBe(before);
    for (const socket of sockets) socket.destroy();
    await page.locator('.connection.wait').waitFor();
    append(run, 'events.jsonl', steps(201, curve(200, 201)), { kind: 'end', status: 'finished' });
    await rowOf(page, 'live').getByText('400 / 400').waitFor();
    await rowOf(page, 'live').getByText('finished', { exact: true }).waitFor();
    await board!.close();
    await page.getByText('the server has ended').waitFor();
    expect(await rowOf(page, 'live').getByText('400 / 400').count()).toBe(1); // what it has stays
    board = undefined;
    await page.close();
    tunnel.close();
  });

  test('two runs compared, one of them failed with NaN; texts with HTML in them stay texts', async () => {
    const root = newFolder();
    const error = 'the loss of step 60 is NaN: the adapters are lost';
    append(
      path.join(root, 'a'),
      'events.jsonl',
      start({ steps: 300, title: EVIL }),
      steps(1, curve(300)),
      { kind: 'sample', title: EVIL, prompt: EVIL, text: EVIL },
      { kind: 'end', status: 'finished' },
    );
    append(path.join(root, 'b'), 'events.jsonl', start({ steps: 300 }), steps(1, [...curve(59), 'NaN']), {
      kind: 'end',
      status: 'failed',
      error,
    });
    await serve(root);
    const page = await open(board!.url);
    await rowOf(page, 'b').getByText('failed').waitFor();
    expect(await page.locator('.error').textContent()).toBe(`b ${error}`);
    expect(await rowOf(page, 'b').textContent()).toContain('not finite');
    expect(await painted(page, 'loss', BLUE)).toBeGreaterThan(100);
    expect(await painted(page, 'loss', RED)).toBeGreaterThan(20);
    expect(await page.locator('figure p').textContent()).toBe(EVIL + EVIL);
    expect(await page.locator('.run b').first().textContent()).toBe(EVIL);
    expect(await page.evaluate('window.evil')).toBeUndefined();
    await page.keyboard.press('1'); // hides the first
    await expect.poll(() => painted(page, 'loss', BLUE)).toBe(0);
    expect(await painted(page, 'loss', RED)).toBeGreaterThan(20);
    await page.keyboard.press('1');
    await page.locator('[data-chart=loss] .plot').focus();
    await page.keyboard.press('Home');
    const cursor = page.locator('[data-chart=loss] .at', { hasText: 'step 1' });
    await cursor.waitFor();
    await page.keyboard.press('1'); // a new plot, with the cursor where it was
    await expect.poll(() => painted(page, 'loss', BLUE)).toBe(0);
    await cursor.waitFor();
    await page.keyboard.press('1');
    await expect.poll(() => painted(page, 'loss', BLUE)).toBeGreaterThan(100);
    await page.keyboard.press('+');
    await page.getByRole('button', { name: 'all steps' }).waitFor();
    await page.keyboard.press('Escape');
    expect(await page.getByRole('button', { name: 'all steps' }).isVisible()).toBe(false);
    await page.keyboard.press('l');
    expect(await page.getByRole('button', { name: 'log' }).getAttribute('aria-pressed')).toBe('true');
    await page.close();
  });

  test('100,000 steps are drawn, and drawn again where one looks closer', async () => {
    const root = newFolder();
    const run = path.join(root, 'long');
    append(run, 'events.jsonl', start({ steps: 100_000 }));
    for (let first = 1; first < 100_000; first += 10_000)
      append(run, 'events.jsonl', steps(first, curve(10_000, first)));
    append(run, 'events.jsonl', { kind: 'end', status: 'finished' });
    await serve(root);
    const began = performance.now();
    const page = await open(board!.url);
    await rowOf(page, 'long').getByText('100,000 / 100,000').waitFor();
    const loaded = performance.now() - began;
    const whole = await painted(page, 'loss', BLUE);
    expect(whole).toBeGreaterThan(500);
    await page.locator('[data-chart=loss] .plot').focus();
    const draws = await page.evaluate(async () => {
      const frame = () => new Promise((resolve) => globalThis.setTimeout(resolve, 0));
      const began = performance.now();
      for (let i = 0; i < 5; i++) {
        // biome-ignore lint/suspicious/noExplicitAny: types of the DOM are the page's
        const { document, KeyboardEvent, requestAnimationFrame } = globalThis as any;
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }));
        await new Promise((resolve) => requestAnimationFrame(() => resolve(0)));
        await frame();
      }
      return (performance.now() - began) / 5;
    });
    console.log(`board: 100,000 steps: shown after ${Math.round(loaded)} ms, a zoom ${Math.round(draws)} ms`);
    await page.getByRole('button', { name: 'all steps' }).waitFor();
    expect(await painted(page, 'loss', BLUE)).not.toBe(whole);
    expect(await readout(page, 'loss').textContent()).toMatch(/\d\.\d{4}/);
    await page.close();
  });

  test('a report from a file, on a phone, in the dark', async () => {
    const root = newFolder();
    append(path.join(root, 'a'), 'events.jsonl', start({ steps: 300 }), steps(1, curve(300)), {
      kind: 'end',
      status: 'finished',
    });
    const file = path.join(root, 'report.html');
    await writeReport(file, [root]);
    const requests: string[] = [];
    const page = await browser.newPage({ viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    page.on('pageerror', (e) => errors.push(e.message));
    page.on('request', (r) => requests.push(r.url()));
    await page.goto(`file://${file}`);
    expect(await painted(page, 'loss', BLUE)).toBeGreaterThan(50);
    expect(requests.filter((url) => !/^(file|data):/.test(url))).toEqual([]);
    // Nothing is wider than the phone.
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const dark = await background();
    await page.keyboard.press('t'); // light
    const light = await background();
    await page.keyboard.press('t'); // dark
    expect([dark, light]).toEqual(['rgb(18, 20, 23)', 'rgb(247, 247, 245)']);
    expect(await background()).toBe(dark);
    await page.close();
  });

  test('another origin gets nothing, and a wrong token neither', async () => {
    const root = newFolder();
    append(path.join(root, 'a'), 'events.jsonl', start(), steps(1, [1]));
    const { url } = await serve(root);
    const page = await browser.newPage(); // about:blank is another origin
    const asked = url.replace('/?', '/events?');
    const answers = await page.evaluate(async (asked) => {
      const get = (mode: 'cors' | 'no-cors') =>
        fetch(asked, { mode }).then(
          (r) => r.type,
          (e: Error) => e.name,
        );
      return [await get('cors'), await get('no-cors')];
    }, asked);
    expect(answers).toEqual(['TypeError', 'TypeError']);
    const answer = page.waitForEvent('response');
    await page.goto(url.replace(/token=.*/, 'token=wrong')).catch(() => {}); // an error page of the browser's own
    expect((await answer).status()).toBe(403);
    expect(await page.locator('#board').count()).toBe(0);
    await page.close();
  });
});
