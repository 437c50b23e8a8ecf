// VitePress's configuration. The pages in site/.pages are written by site/stage.ts.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { BASE } from '../relative.mjs';
import { slug } from '../slug.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const { nav, sidebar } = JSON.parse(fs.readFileSync(path.join(here, '../.pages/sidebar.json'), 'utf8'));

const base = process.argv.includes('dev') ? '/' : BASE; // BASE is made relative when the site is built

export default {
  title: 'tsxla',
  description: 'PyTorch for TypeScript, compiled by XLA',
  srcDir: '.pages',
  base,
  metaChunk: true,
  srcExclude: ['parts/**'],
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}logo.svg` }]],
  markdown: {
    theme: { light: 'github-light', dark: 'github-dark' },
    anchor: { slugify: slug },
    attrs: { leftDelimiter: '%{', rightDelimiter: '}%' },
    config(md) {
      // Pages are plain Markdown: <T> and {{ }} are text, not tags and expressions of Vue.
      md.set({ html: false });
      md.disable('emoji');
      // Indented blocks look like fenced ones.
      md.renderer.rules.code_block = (...args) => md.renderer.rules.fence(...args);
      const { text } = md.renderer.rules;
      md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;');
    },
  },
  themeConfig: {
    nav,
    sidebar,
    logo: '/logo.svg',
    outline: { level: [2, 3] },
    search: {
      provider: 'local',
      options: {
        // Names are searched for as they are written; a page's title counts most.
        miniSearch: { searchOptions: { boost: { title: 6, titles: 2, text: 1 }, prefix: true, fuzzy: 0.1 } },
        _render(source, env, md) {
          const html = md.render(source, env);
          return env.frontmatter?.search === false ? '' : html;
        },
      },
    },
    docFooter: { prev: 'Before', next: 'Next' },
  },
};
