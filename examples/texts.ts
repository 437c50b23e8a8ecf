// The English in this repository: its pages, and of its source the comments and sentences in quotes. A text for small models.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '..');
const PAGE = /^([A-Z*-].*)$/gm; // neither tables nor titles
const SOURCE = /^(?:.*\/\/|.*\/\*\*| *\*) (.*?)(?: \*\/)?$|['"`]([^'"`\n]{20,})['"`]/gm;
const isEnglish = (line: string): boolean => /[a-z] [a-z]+ [a-z]/.test(line) && !/[[\]{}<>=|/\\_\d]/.test(line);

function englishOf(file: string): string {
  const text = readFileSync(path.join(root, file), 'utf8').replace(/```.*?```/gs, '');
  const found = Array.from(text.matchAll(file.endsWith('.md') ? PAGE : SOURCE), ([, a, b]) => (a ?? b)!.trim());
  return found.filter(isEnglish).join('\n');
}

/** A text for each file that has some, by their names. */
export function repositoryTexts(): string[] {
  const files = ['src', 'test', 'examples', 'bench', 'docs'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => path.join(folder, file)),
  );
  return [...files, 'README.md', 'CONTRIBUTING.md']
    .filter((file) => /\.(ts|md)$/.test(file) && !/golden|compat|conformance|node_modules|\/\./.test(file))
    .sort()
    .map(englishOf)
    .filter((text) => text.length > 100);
}
