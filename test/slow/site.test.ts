// The docs site, built as `npm run docs` builds it: its pages, their links, the search, and what a browser makes of it from a
// server and from a folder.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COMMANDS } from '../../dist/cli/commands.js';
import { CONTENTS } from '../../site/contents.js';
import { BASE } from '../../site/relative.mjs';
import { pageOf } from '../../site/stage.js';
import { scratch } from '../scratch.js';

const root = path.join(import.meta.dirname, '../..');
const site = path.join(scratch('site').newFolder(), 'deep/docs');
const build = ['site/build.mjs', '--out', site];
beforeAll(() => promisify(execFile)(process.execPath, build, { cwd: root, maxBuffer: 1 << 26 }), 1_800_000);
const read = (file: string) => fs.readFileSync(path.join(site, file), 'utf8');
const files = () =>
  fs.readdirSync(site, { recursive: true, encoding: 'utf8' }).map((file) => file.replaceAll(path.sep, '/'));
const pages = () => files().filter((file) => file.endsWith('.html'));

test('every page of the contents is there, with its heading', () => {
  const entries = CONTENTS.flatMap(({ groups }) => groups.flatMap(({ entries }) => entries));
  for (const { page } of entries) {
    const file = page === 'api' ? 'api/index.html' : page === 'cli' ? 'cli.html' : pageOf(page).replace(/md$/, 'html');
    expect(read(file), page).toMatch(/<h1 id=/);
  }
});

test('the reference has the operations, the commands and their options', () => {
  const operations = read('api/operations.html');
  for (const name of ['softmax', 'matmul', 'crossEntropy', 'conv2d']) expect(operations).toContain(`id="${name}"`);
  expect(read('api/optim.html')).toContain('id="AdamW"');
  expect(read('api/tensor.html')).toContain('backward');
  const commands = read('cli.html');
  for (const [name] of COMMANDS) expect(commands).toContain(`>tsxla ${name} <`);
  expect(commands).toContain('--max-new-tokens');
});

test('no link is dead, anchors included, and no page knows the folder of the site', () => {
  const texts = new Map(pages().map((file) => [file, read(file)]));
  const ids = new Map(
    [...texts].map(([file, text]) => [file, new Set([...text.matchAll(/ id="([^"]+)"/g)].map((m) => m[1]!))]),
  );
  const all = new Set(files());
  const dead: string[] = [];
  let count = 0;
  for (const [file, text] of texts) {
    for (const [, link] of text.matchAll(/<(?:a|link|script|img)\b[^>]* (?:href|src)="([^"]+)"/g)) {
      if (/^\w+:/.test(link!) || file === '404.html') continue;
      count++;
      const [to, anchor] = decodeURI(link!.replaceAll('&amp;', '&')).split('#') as [string, string?];
      const target = to ? path.posix.join(path.posix.dirname(file), to) : file;
      if (!all.has(target) || (anchor && !ids.get(target)?.has(anchor))) dead.push(`${file}: ${link}`);
    }
  }
  expect(count).toBeGreaterThan(10_000);
  expect(dead).toEqual([]);
  const searched = (file: string) => file.includes('@localSearchIndex'); // replaced when it is loaded
  const scripts = files().filter((file) => /\.(html|css|js)$/.test(file) && !searched(file));
  expect(scripts.filter((file) => read(file).includes(BASE))).toEqual([]);
});

test('the search has the sections of pages, and not the files of the repository', () => {
  const index = read('offline/index.js');
  for (const id of ['steps.html#a-plain-loop', 'api/operations.html#softmax', 'cli.html#tsxla-plan'])
    expect(index).toContain(id);
  expect(index).not.toContain('source/test');
});

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = [process.env['CHROMIUM'], ...PLACES].find((file) => file && fs.existsSync(file));
if (!executablePath) console.log('site: no Chromium found (set CHROMIUM to one): its tests in a browser are skipped');

describe.skipIf(!executablePath)('in Chromium', () => {
  let browser: Browser;
  let server: http.Server;
  const types: Record<string, string> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.svg': 'image/svg+xml',
  };
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox'] });
    server = http.createServer((request, response) => {
      const name = path.join(site, '../..', decodeURI(new URL(request.url!, 'http://site').pathname));
      const file = fs.existsSync(name) && fs.statSync(name).isDirectory() ? path.join(name, 'index.html') : name;
      if (!fs.existsSync(file)) return void response.writeHead(404).end();
      response.writeHead(200, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' });
      response.end(fs.readFileSync(file));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    await browser?.close();
    server?.close();
  });
  const errors: string[] = [];
  async function open(url: string): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
    page.on('pageerror', (e) => errors.push(e.message));
    // Of a folder, browsers load neither modules nor fonts.
    page.on('console', (m) => m.type() === 'error' && !/CORS|net::ERR_FAILED/.test(m.text()) && errors.push(m.text()));
    await page.goto(url);
    return page;
  }
  const ways = [
    ['from a server, in a folder', () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/deep/docs/`],
    ['from a folder, without a server', () => `${pathToFileURL(site).href}/`],
  ] as const;

  test.each(ways)('%s: light and dark, search, links', async (_name, address) => {
    const page = await open(`${address()}steps.html`);
    const isDark = () => page.evaluate("document.documentElement.classList.contains('dark')");
    await page.waitForSelector('.VPDocAsideOutline.has-outline');
    expect(await isDark()).toBe(false);
    await page.click('.VPSwitchAppearance >> visible=true');
    expect(await isDark()).toBe(true);

    await page.click('.DocSearch-Button');
    await page.locator('.VPLocalSearchBox input, .offline-search input').fill('softmax');
    const found = page.locator('.VPLocalSearchBox .result, .offline-search li a');
    await found.first().waitFor();
    await found
      .filter({ hasText: /softmax/i })
      .first()
      .click();
    await page.waitForURL(/#|\.html$/);
    expect(page.url()).toContain(address());
    expect(await page.locator('h1').first().textContent()).not.toContain('404');
    await page.click('.VPNavBarMenu a:has-text("Guides")'); // from another folder than the one that the page was loaded in
    await page.locator('h1:has-text("Data")').waitFor();

    await page.goto(`${address()}index.html`);
    await page.click('.VPHero a:has-text("Get started")');
    await page.waitForURL(/getting-started\.html$/);
    await page.locator('h1:has-text("Getting started")').waitFor();
    expect(errors.splice(0)).toEqual([]);
    await page.close();
  });
});
