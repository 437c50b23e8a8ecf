// The docs site and the links of all pages. test/slow/site.test.ts builds it.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { CONTENTS } from '../site/contents.js';
import { anchorsOf, isExternal, linksOf, resolveLink, withLinks } from '../site/links.js';
import { BASE, madeRelative } from '../site/relative.mjs';

const root = path.join(import.meta.dirname, '..');
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const docs = readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.md'))
  .map((file) => `docs/${file.replaceAll(path.sep, '/')}`);
const others = ['README', 'CONTRIBUTING', 'CHANGELOG', 'examples/README', 'bench/README', 'notebooks/README'];
const pages = [...docs, ...others.map((name) => `${name}.md`)];

test('every page of docs has one place on the site, and nothing else has', () => {
  const entries = CONTENTS.flatMap(({ groups }) => groups.flatMap(({ entries }) => entries.map(({ page }) => page)));
  expect(entries.filter((page, i) => entries.indexOf(page) !== i)).toEqual([]);
  expect(docs.filter((page) => !entries.includes(page))).toEqual([]);
  expect(entries.filter((page) => page.endsWith('.md') && !existsSync(path.join(root, page)))).toEqual([]);
});

test('links of all pages lead somewhere, with their anchors', () => {
  const anchors = new Map(pages.map((page) => [page, anchorsOf(read(page))]));
  const links = pages.flatMap((page) => linksOf(read(page)).map((link) => [page, link] as const));
  const inside = links.filter(([, link]) => !isExternal(link));
  expect(inside.length).toBeGreaterThan(400);
  const lost = inside.filter(([page, link]) => {
    const { file, anchor } = resolveLink(page, link);
    if (!existsSync(path.join(root, file))) return true;
    if (!anchor || statSync(path.join(root, file)).isDirectory()) return false;
    return !anchors.get(file)?.has(anchor);
  });
  expect(lost).toEqual([]);
});

test('every page begins with its heading, which is its only one', () => {
  const wrong = docs.filter((page) => {
    const headings = read(page)
      .replace(/^```[\s\S]*?^```/gm, '')
      .match(/^# .*/gm);
    return !read(page).startsWith('# ') || headings?.length !== 1;
  });
  expect(wrong).toEqual([]);
});

test('docs/errors.md has every class of errors', () => {
  const classes = [...read('src/base/errors.ts').matchAll(/^export class (\w+)/gm)].map((m) => m[1]!);
  expect(classes.length).toBeGreaterThan(25);
  const page = read('docs/errors.md');
  expect(classes.filter((name) => !new RegExp(`^\\| \`${name}\``, 'm').test(page) && name !== 'TsxlaError')).toEqual(
    [],
  );
  const named = [...page.matchAll(/^\| `(\w+)`/gm)].map((m) => m[1]!);
  expect(named.filter((name) => !(name in tx))).toEqual([]);
});

test('links are found outside of code, also where their text is code', () => {
  const text =
    'A [page](a.md), [`code`](b.md#c) and `[no](link.md)`.\n\n```ts\nf[0](x); // [no](code.md)\n```\n\n    [no](indented.md)\n\n[last](d.md)\n';
  expect(linksOf(text)).toEqual(['a.md', 'b.md#c', 'd.md']);
  expect(withLinks(text, (link) => `../${link}`)).toBe(
    text.replace('(a.md', '(../a.md').replace('(b.md', '(../b.md').replace('(d.md', '(../d.md'),
  );
});

test('anchors are those of GitHub', () => {
  const text =
    '# A `b_c` (d), e\n\n## TSXLA_LOG=debug: what?\n\n```\n# no heading\n```\n\n## Files\n\n## Files\n\n## [x](y.md) & z\n';
  expect([...anchorsOf(text)]).toEqual(['a-b_c-d-e', 'tsxla_logdebug-what', 'files', 'files-1', 'x--z']);
});

test('built files do not know the folder that they lie in', () => {
  const html = `<head><link href="${BASE}a.css"></head><a href="${BASE}b.html"></a>`;
  expect(madeRelative('api/nn.html', html)).toContain('<link href="../a.css"></head><a href="../b.html">');
  expect(madeRelative('index.html', html)).toContain('href="./b.html"');
  expect(madeRelative('assets/a.css', `url(${BASE}assets/f.woff2)`)).toBe('url(../assets/f.woff2)');
  expect(madeRelative('a.js', `const b="${BASE}";`)).toBe('const b=(globalThis.__FOLDER__);');
  expect(() => madeRelative('a.js', `const b="${BASE}x";`)).toThrow("the site's folder stands in a script");
});
