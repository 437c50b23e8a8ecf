// The board's page. It is the same for a server, whose stream it follows, and for a report, which has its data embedded.
import fs from 'node:fs';
import type { PageData } from './data.js';
import { jsonIn, pageWith } from './html.js';

const read = (name: string): string => fs.readFileSync(new URL(name, import.meta.url), 'utf8');

export function boardPage(data: PageData, title = 'tsxla board'): { readonly html: string; readonly policy: string } {
  const body = `<main id="board"><noscript>This page draws its charts with a script, which is switched off here.</noscript></main>
<script type="application/json" id="data">${jsonIn(data)}</script>`;
  return pageWith({ title, body, style: read('./client.css'), script: read('./client.js'), connects: data.live });
}
