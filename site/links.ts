// Links of Markdown: found outside of code, and resolved to files of the repository.
import path from 'node:path';
import { slug } from './slug.mjs';

/** Text in parts: code, which is left alone, and everything else. Fences, indented blocks and `spans` are code. */
const CODE = /^( *)(`{3,}|~{3,})[\s\S]*?^\1\2`*[^\S\n]*$|(?<=\n\n)(?: {4}.*\n?)+|(`+)(?!`)[\s\S]*?[^`]\3(?!`)/gm;

/** The page with its links replaced: `to` is given what stands in the brackets. */
export function withLinks(text: string, to: (link: string) => string): string {
  const replaced = (part: string) => part.replace(/\]\(([^)\s]+)\)/g, (_, link: string) => `](${to(link)})`);
  let result = '';
  let at = 0;
  // A link's text may be code: [`step`](steps.md). So links are looked for from `](` on, in what remains between code.
  for (const m of text.matchAll(CODE)) {
    result += replaced(text.slice(at, m.index)) + m[0];
    at = m.index + m[0].length;
  }
  return result + replaced(text.slice(at));
}

export function linksOf(text: string): string[] {
  const links: string[] = [];
  withLinks(text, (link) => {
    links.push(link);
    return link;
  });
  return links;
}

export const isExternal = (link: string): boolean => /^[a-z]+:/.test(link);

/** A link of a file, as a file of the repository and an anchor. */
export function resolveLink(from: string, link: string): { readonly file: string; readonly anchor: string } {
  const [file, anchor = ''] = link.split('#') as [string, string?];
  return { file: file ? path.posix.join(path.posix.dirname(from), decodeURI(file)) : from, anchor };
}

/** The anchors of a page: repeated ones are numbered. */
export function anchorsOf(text: string): Set<string> {
  const found = new Set<string>();
  const headings = text.replace(/^( *)(`{3,})[\s\S]*?^\1\2`*[^\S\n]*$/gm, '').matchAll(/^#{1,6} (.*)$/gm);
  for (const [, heading] of headings) {
    const plain = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '');
    const first = slug(plain);
    let name = first;
    for (let n = 1; found.has(name); n++) name = `${first}-${n}`;
    found.add(name);
  }
  return found;
}
