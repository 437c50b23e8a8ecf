// What works on pages that are opened as files (file://). Browsers load no modules there, so VitePress's own scripts do not run:
// its pages are there, with their style. This adds search, the switch between light and dark, the sidebar and the outline.
// A classic script for browsers; minisearch and the index are loaded beside it (site/build.mjs).
(() => {
  const folder = new URL('.', document.currentScript.src).href;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // ---- light and dark
  for (const button of all('.VPSwitchAppearance'))
    button.addEventListener('click', () => {
      const isDark = document.documentElement.classList.toggle('dark');
      localStorage.setItem('vitepress-theme-appearance', isDark ? 'dark' : 'light');
    });

  // ---- the sidebar: on phones behind a button, and groups that can be closed
  const sidebar = document.querySelector('.VPSidebar');
  for (const button of all('.VPLocalNav .menu, .VPNavBarHamburger'))
    button.addEventListener('click', (event) => {
      event.stopPropagation();
      sidebar?.classList.toggle('open');
    });
  document.addEventListener('click', (event) => {
    if (!sidebar?.contains(event.target)) sidebar?.classList.remove('open');
  });
  for (const head of all('.VPSidebarItem.collapsible > .item'))
    head.addEventListener('click', (event) => {
      if (!event.target.closest('a')) head.parentElement.classList.toggle('collapsed');
    });

  // ---- the outline of the page
  const outline = document.querySelector('.VPDocAsideOutline');
  const headings = all('.vp-doc h2[id], .vp-doc h3[id]');
  if (outline && headings.length) {
    const items = headings.map((heading) => {
      const text = heading.textContent.replace(/\u200b|#$/g, '').trim();
      const link = make('a', { className: 'outline-link', href: `#${heading.id}`, textContent: text });
      link.style.paddingLeft = heading.tagName === 'H3' ? '16px' : '0';
      return make('li', {}, link);
    });
    outline.classList.add('has-outline');
    (outline.querySelector('ul') ?? outline).replaceChildren(...items);
  }

  // ---- search
  let index;
  const load = (file) =>
    new Promise((resolve, reject) => {
      document.head.append(make('script', { src: folder + file, onload: resolve, onerror: reject }));
    });
  async function open() {
    if (document.querySelector('.offline-search')) return;
    const input = make('input', { type: 'search', placeholder: 'Search', spellcheck: false });
    const results = make('ul');
    const box = make('div', { className: 'offline-search' }, make('div', {}, input, results));
    document.body.append(box);
    input.focus();
    box.addEventListener('click', (event) => event.target === box && box.remove());
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') box.remove();
      if (event.key === 'Enter') results.querySelector('a')?.click();
    });
    if (!index) {
      await load('minisearch.js');
      await load('index.js');
      const { json, options } = globalThis.__SEARCH__;
      index = globalThis.MiniSearch.loadJSON(json, options);
    }
    const show = () => {
      const found = index.search(input.value).slice(0, 16);
      results.replaceChildren(
        ...found.map(({ id, title, titles }) => {
          const path = make('small', { textContent: titles.join(' / ') });
          return make('li', {}, make('a', { href: new URL(`../${id}`, folder).href }, title, path));
        }),
      );
    };
    input.addEventListener('input', show);
    results.addEventListener('click', (event) => event.target.closest('a') && box.remove());
    show();
  }
  for (const button of all('.DocSearch-Button')) button.addEventListener('click', open);
  document.addEventListener('keydown', (event) => {
    if (
      (event.key === 'k' && (event.ctrlKey || event.metaKey)) ||
      (event.key === '/' && event.target === document.body)
    ) {
      event.preventDefault();
      open();
    }
  });
})();
