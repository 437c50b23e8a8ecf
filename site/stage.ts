// Writes the pages of the docs site into site/.pages, for VitePress: docs/ with its links changed, the reference that is made
// of types and of commands, and the files of the repository that pages link to. npm run docs does this first.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ApiPage, apiPages, type Block } from './api.js';
import { commandsPage } from './commands.js';
import { CONTENTS, type Entry } from './contents.js';
import { homePage } from './home.js';
import { isExternal, resolveLink, withLinks } from './links.js';
import { slug } from './slug.mjs';

const root = path.join(import.meta.dirname, '..');
const target = path.join(import.meta.dirname, '.pages');
const read = (file: string): string => fs.readFileSync(path.join(root, file), 'utf8');
const exists = (file: string): boolean => fs.existsSync(path.join(root, file));

/** Where a file of the repository is on the site. */
export function pageOf(file: string): string {
  if (file === 'README.md') return 'index.md';
  const named = file.replace(/^docs\//, '').replace(/(^|\/)README\.md$/, '$1index.md');
  if (/\.(svg|png)$/.test(file)) return named;
  if (!file.endsWith('.md')) return `source/${file}.md`;
  return /^(CONTRIBUTING|CHANGELOG)\.md$/.test(named) ? named.toLowerCase() : named;
}

const LANGUAGES: Readonly<Record<string, string>> = {
  ts: 'ts',
  mjs: 'js',
  js: 'js',
  py: 'python',
  json: 'json',
  yaml: 'yaml',
  yml: 'yaml',
  sh: 'sh',
};
const sourcePage = (file: string): string => {
  const language = LANGUAGES[path.extname(file).slice(1)] ?? '';
  const text = file.endsWith('.ipynb') ? notebookText(file) : `\`\`\`\`\`${language}\n${read(file)}\n\`\`\`\`\`\n`;
  return `---\nsearch: false\noutline: false\n---\n# ${path.basename(file)}\n\n\`${file}\` of the repository.\n\n${text}`;
};
interface Cell {
  readonly cell_type: string;
  readonly source: string | readonly string[];
  readonly outputs?: readonly { readonly text?: string | readonly string[] }[];
}
const joined = (text: string | readonly string[] = ''): string => (typeof text === 'string' ? text : text.join(''));
/** A notebook's cells, with what they print as text. */
function notebookText(file: string): string {
  const { cells, metadata } = JSON.parse(read(file)) as {
    cells: Cell[];
    metadata: { kernelspec?: { language?: string } };
  };
  const language = metadata.kernelspec?.language === 'typescript' ? 'ts' : 'python';
  return cells
    .flatMap(({ cell_type, source, outputs = [] }) =>
      cell_type === 'code'
        ? [
            `\`\`\`\`${language}\n${joined(source)}\n\`\`\`\``,
            ...outputs.flatMap(({ text }) => (text ? [`\`\`\`\`\n${joined(text)}\n\`\`\`\``] : [])),
          ]
        : [joined(source).replace(/^# /gm, '## ')],
    )
    .join('\n\n');
}

/** Blocks of code on the pages that tests run. */
export function blocksOf(file: string): Block[] {
  const page = pageOf(file);
  const text = read(file);
  const title = /^# (.*)$/m.exec(text)?.[1] ?? page;
  const blocks: Block[] = [];
  let heading = '';
  for (const m of text.matchAll(/^#{2,6} (.*)$|^```ts\n([\s\S]*?)^```$/gm)) {
    if (m[1] !== undefined) heading = m[1];
    else
      blocks.push({
        link: `${page}${heading && `#${slug(heading.replace(/`/g, ''))}`}`,
        title: heading || title,
        code: m[2]!,
      });
  }
  return blocks.map((block) => ({ ...block, title: block.title.replace(/[`[\]]/g, '') }));
}

/** A page with its links changed to those of the site; `found` is called with what they lead to. */
function relinked(file: string, text: string, found: (to: string) => void): string {
  const folder = path.posix.dirname(pageOf(file));
  return withLinks(text.replace(/^<!--.*-->\n/gm, ''), (link) => {
    if (isExternal(link) || link.startsWith('#')) return link;
    const { file: named, anchor } = resolveLink(file, link);
    if (!exists(named)) return link; // VitePress reports it
    const to = fs.statSync(path.join(root, named)).isDirectory() ? `${named.replace(/\/$/, '')}/README.md` : named;
    found(to);
    const relative = path.posix.relative(folder, pageOf(to));
    return `${relative.startsWith('.') ? relative : `./${relative}`}${anchor && `#${anchor}`}`;
  });
}

export async function stage(): Promise<void> {
  fs.rmSync(target, { recursive: true, force: true });
  const write = (page: string, text: string): void => {
    const file = path.join(target, page);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  };
  const files = CONTENTS.flatMap(({ groups }) => groups.flatMap(({ entries }) => entries.map(({ page }) => page)));
  const made = ['api', 'cli'];

  const pending = files.filter((file) => !made.includes(file));
  const readme = relinked('README.md', read('README.md'), (to) => pending.push(to));
  const done = new Set<string>(['README.md']);
  for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
    if (done.has(file)) continue;
    done.add(file);
    const page = pageOf(file);
    if (!file.endsWith('.md')) {
      if (page === `source/${file}.md`) {
        const text = sourcePage(file);
        write(page, file.endsWith('.ipynb') ? relinked(file, text, (to) => pending.push(to)) : text);
      } else {
        fs.mkdirSync(path.dirname(path.join(target, page)), { recursive: true });
        fs.copyFileSync(path.join(root, file), path.join(target, page));
      }
      continue;
    }
    write(
      page,
      relinked(file, read(file), (to) => pending.push(to)),
    );
  }
  const blocks = files.filter((file) => /^docs\/[\w-]+\.md$/.test(file)).flatMap(blocksOf);
  const api = apiPages(blocks);
  for (const { page, markdown } of api) write(`api/${page}.md`, markdown);
  write('cli.md', await commandsPage());
  const bar = sidebar(api);
  const { home, program } = homePage(
    readme,
    bar.nav.map(({ link }) => `.${link}`),
  );
  write('index.md', home);
  write('parts/program.md', program);
  write('public/logo.svg', read('site/logo.svg'));
  write('sidebar.json', JSON.stringify(bar, null, 1));
}

interface Item {
  readonly text: string;
  readonly link?: string;
  readonly collapsed?: boolean;
  readonly activeMatch?: string;
  readonly items?: readonly Item[];
}
/** The sidebar of a page is that of its section: VitePress finds it by the page's file. */
function sidebar(api: readonly ApiPage[]): { readonly nav: Item[]; readonly sidebar: Record<string, Item[]> } {
  const linkOf = (page: string): string =>
    page === 'api' ? '/api/' : page === 'cli' ? '/cli' : `/${pageOf(page).replace(/(index)?\.md$/, '')}`;
  const titleOf = ({ page, title }: Entry): string =>
    title ?? (/^# (.*)$/m.exec(read(page))?.[1] ?? page).replace(/`/g, '');
  const item = (entry: Entry): Item => ({
    text: titleOf(entry),
    link: linkOf(entry.page),
    ...(entry.page === 'api' && {
      collapsed: true,
      items: api.slice(1).map(({ page, title }) => ({ text: title, link: `/api/${page}` })),
    }),
  });
  const bars: Record<string, Item[]> = {};
  const nav = CONTENTS.map(({ title, groups }) => {
    const bar = groups.map((group) => ({ text: group.title, items: group.entries.map(item) }));
    const keys = groups.flatMap(({ entries }) =>
      entries.map(({ page }) => (page === 'api' ? '/api/' : page === 'cli' ? '/cli.md' : `/${pageOf(page)}`)),
    );
    for (const key of keys) bars[key] = bar;
    return {
      text: title,
      link: linkOf(groups[0]!.entries[0]!.page),
      activeMatch: `^/(${keys
        .map((key) =>
          key
            .slice(1)
            .replace(/(index)?\.md$/, '')
            .replace(/^api.$/, 'api/.*'),
        )
        .join('|')})$`,
    };
  });
  return { nav, sidebar: bars };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await stage();
