// The HTML frame of all pages that tsxla writes: one file that loads nothing and only runs its own script.
import { createHash } from 'node:crypto';
import { STYLE } from './style.js';

/** Escapes text for HTML and attributes. */
export const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]!);
/** JSON for a script element, escaped so that it cannot end the element. */
export const jsonIn = (x: unknown): string => JSON.stringify(x).replaceAll('<', '\\u003c');

export interface PageParts {
  readonly title: string;
  /** HTML with escaped texts. */
  readonly body: string;
  /** In addition to the stylesheet of all pages. */
  readonly style?: string;
  readonly script?: string;
  readonly connects?: boolean;
}

/** The page, and its Content-Security-Policy, which a server also sends as a header. */
export function pageWith({ title, body, style = '', script, connects = false }: PageParts): {
  readonly html: string;
  readonly policy: string;
} {
  const css = `${STYLE}${style}`;
  const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const policy = [
    "default-src 'none'",
    `style-src ${hash(css)}`,
    'img-src data:',
    ...(script === undefined ? [] : [`script-src ${hash(script)}`]),
    ...(connects ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>${escaped(title)}</title>
<style>${css}</style>
</head>
<body>
${body}
${script === undefined ? '' : `<script>${script}</script>\n`}</body>
</html>
`;
  return { html, policy: `${policy}; frame-ancestors 'none'` };
}
