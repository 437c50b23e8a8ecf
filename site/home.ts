// The home page, made of the README: its sentence, its program, the three reasons and the map.
import { CONTENTS } from './contents.js';

/** What stands under a heading of the README. */
const partOf = (readme: string, heading: string): string => {
  const found = new RegExp(`^## ${heading}\\n([\\s\\S]*?)(?=^## |$(?![\\s\\S]))`, 'm').exec(readme)?.[1];
  if (found === undefined) throw new Error(`README.md has no section "${heading}", which the home page is made of`);
  return found.trim();
};
const quoted = (text: string): string => JSON.stringify(text.replace(/\s*\n\s*/g, ' ').trim());
const plain = (text: string): string => text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/`/g, '');

/** The page, and the program beside its title. `links`: of each section of the site, its first page. */
export function homePage(
  readme: string,
  links: readonly string[],
): { readonly home: string; readonly program: string } {
  const sentence = /^# .*\n\n([\s\S]*?)\n\n/.exec(readme)?.[1];
  const program = /```ts\n[\s\S]*?```/.exec(readme)?.[0];
  if (!sentence || !program) throw new Error('README.md begins with a heading, a sentence and a program');
  const reasons = partOf(readme, 'Why')
    .split('\n\n')
    .map((text) => /^\*\*(.*?)\.?\*\*\s*([\s\S]*)$/.exec(text)!);
  const [lead, ...more] = sentence.split(': ');
  const home = `---
layout: home
hero:
  name: tsxla
  text: ${quoted(lead!)}
  tagline: ${quoted(more.join(': ').replace(/^./, (c) => c.toUpperCase()))}
  actions:
    - theme: brand
      text: Get started
      link: /getting-started
    - theme: alt
      text: From PyTorch
      link: /from-pytorch
    - theme: alt
      text: API
      link: /api/
features:
${reasons.map(([, title, text]) => `  - title: ${quoted(title!)}\n    details: ${quoted(plain(text!))}`).join('\n')}
---

![A TypeScript step becomes one StableHLO program; XLA compiles it for CPU, CUDA or TPU](./img/overview.svg)

## Install

${partOf(readme, 'Install')}

## Where it runs

${partOf(readme, 'Where it runs')}

## The pages

| | |
| --- | --- |
${CONTENTS.map(({ title, text }, i) => `| [${title}](${links[i]}) | ${text} |`).join('\n')}

## I want to ...

${partOf(readme, 'I want to ...')}
`;
  return { home, program };
}
