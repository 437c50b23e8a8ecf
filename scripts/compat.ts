// Writes docs/compat.md: what torch has, what tsxla has, and what differs. npx tsx scripts/compat.ts
// From torch's own list of names, the exported operations, their rows in the tests, and "Unlike torch: ..." in the comments
// of operations or of the sections they stand in ("Unlike torch.linalg.norm: ..." is said of that function alone).
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import * as ops from '../dist/ops/index.js';
import * as linalg from '../dist/ops/linalg-space.js';
import * as special from '../dist/ops/special.js';
import { tables } from '../test/ops/tables.js';

const root = path.join(import.meta.dirname, '..');
const target = path.join(root, 'docs/compat.md');
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
type Spaces = 'torch' | 'torch.nn.functional' | 'torch.linalg' | 'torch.special' | 'torch.Tensor';
const names: Record<Spaces, string[]> & { readonly version: string; readonly aliases: Record<string, string> } =
  JSON.parse(read('test/golden/torch-names.json'));
const SPACES: readonly Spaces[] = ['torch', 'torch.nn.functional', 'torch.linalg', 'torch.special', 'torch.Tensor'];

/** Functions that have another name here, and one that only has the same name. */
const OURS: Readonly<Record<string, string>> = {
  'torch.nn.functional.unfold': 'im2col',
  'torch.nn.functional.fold': 'col2im',
};
const camel = (name: string) => name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase());
const NAMESPACES: Readonly<Record<string, object>> = { linalg: tx.linalg, special: tx.special };
const has = (name: string) => name in tx || name in tx.Tensor.prototype;
/** What a function of torch's is called here, if it is here; those of a namespace of ours by both names: linalg.norm. */
function ours(space: string, name: string): string | undefined {
  const own = OURS[`${space}.${name}`];
  const found = own === undefined ? camel(name) : own;
  const namespace = space.replace('torch.', '');
  if (namespace in NAMESPACES) return found in NAMESPACES[namespace]! ? `${namespace}.${found}` : undefined;
  return has(found) ? found : undefined;
}

/** Of each operation, what is said to differ: of which function of torch's, and how. */
function differences(): Map<string, [of: string, text: string]> {
  const found = new Map<string, [string, string]>();
  const said = (comment: string): [string, string] | undefined => {
    const text = comment.replace(/\s*\n\s*(\*|\/\/)\s?/g, ' ').trim();
    const m = /Unlike (torch[\w.]*): ([\s\S]*)/.exec(text);
    return m ? [m[1]!, m[2]!] : undefined;
  };
  const files = [...read('src/ops/index.ts').matchAll(/from '\.\/(.*)\.js'/g)].map((m) => `src/ops/${m[1]}.ts`);
  // A section's line, or an export with the comment above it, in a file or in the class Tensor.
  const parts =
    /(?<section>\n\/\/ ----(?:.*\n\/\/)*.*)|(?:\/\*\*(?<comment>(?:(?!\*\/)[\s\S])*?)\*\/\n)?(?:export (?:const|function)| {2}(?:async|get)|(?<=\*\/\n) ) (?<name>\w+)/g;
  for (const file of [
    ...files,
    'src/ops/linalg-space.ts',
    'src/ops/special.ts',
    'src/tensor/create.ts',
    'src/tensor/random.ts',
    'src/tensor/samplers.ts',
    'src/tensor/stft.ts',
    'src/tensor/attention.ts',
    'src/tensor/selection.ts',
    'src/tensor/tensor.ts',
  ]) {
    let section: [string, string] | undefined;
    for (const { groups } of read(file).matchAll(parts)) {
      if (groups!.section) section = said(groups!.section);
      else {
        const difference = said(groups!.comment ?? '') ?? section;
        if (difference) found.set(groups!.name!, difference);
      }
    }
  }
  return found;
}

/** The operation behind a name, if it is one. */
const functionOf = (name: string): unknown => {
  const [last, space] = name.split('.').reverse() as [string, string?];
  const own: Readonly<Record<string, unknown>> = space === 'linalg' ? linalg : space === 'special' ? special : {};
  return own[last] ?? (ops as Readonly<Record<string, unknown>>)[last];
};
/** add(a, b, { alpha = 1 }): its name and parameters, as written. */
function signature(name: string): string {
  const own = functionOf(name);
  if (!own) return name;
  const text = String(own)
    .replaceAll('"', "'")
    .replaceAll(/(?<![\w.])\.(?=\d)/g, '0.'); // the bundler writes .5 for 0.5, and "L" for 'L'
  let depth = 0;
  const start = text.indexOf('(');
  const end = [...text].findIndex((c, i) => i >= start && (depth += Number(c === '(') - Number(c === ')')) === 0);
  const parameters = text
    .slice(start + 1, end)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(' = {}', '')
    .replaceAll(/_|,(?= })|(?<=\w): \w+/g, '');
  return `${name}(${parameters})`;
}

const EVERYWHERE = `
- Names are torch's in camelCase; keyword arguments go in one object at the end: \`x.sum({ dim: 1, keepdim: true })\`. There is no \`out\`, \`device\` or \`memory_format\`.
- Every operation is a function and a method of Tensor, but for those that take a list first (\`tx.cat([a, b])\`).
- Tensors are lazy, and reading them is asynchronous: \`await x.item()\`.
- A view is a value of its own: what is changed in place does not show in what was made of it.
- JavaScript does not tell 1.0 from 1: whole numbers are integers, unless a dtype is given. dtypes are called f32, i64, bf16.
- Inside compiled functions no shape depends on values; no error depends on values that only the device has: indices out of range, singular matrices and integers divided by 0 are computed on.
- Products of f32 have all their bits on CPUs and GPUs, as in torch; on TPUs they are computed in bf16, as in PyTorch/XLA. \`tx.setFloat32MatmulPrecision\` changes it ([page](optim.md#precision-of-f32-products)).
- There are no sparse or quantized tensors, and no named dimensions.`;

export function compat(): string {
  const rows = tables.flatMap((t) => t.rows);
  const differs = differences();
  const lines = [
    '# What torch has, and what tsxla has',
    `Generated by \`scripts/compat.ts\` from torch ${names.version}'s own list of names, the operations, and their tests.`,
    '',
    '## Everywhere',
    EVERYWHERE.trim(),
    '',
    'Rows: how often an operation is compared with torch (values, types, gradients) and with finite differences.',
    '',
  ];
  for (const space of SPACES) {
    const there = names[space].flatMap((n) => {
      const name = ours(space, n);
      return name ? [{ torch: n, name }] : [];
    });
    lines.push(
      `## ${space}: ${there.length} of ${names[space].length}`,
      '',
      '| torch | tsxla | rows | differs |',
      '|---|---|---|---|',
    );
    for (const { torch, name } of there) {
      const plain = name.split('.').at(-1)!;
      const original = camel(names.aliases[torch] ?? name);
      const isAlias = original !== name && original in ops && name in ops;
      const [of, text] = differs.get(isAlias ? original : plain) ?? ['', ''];
      const applies = of === 'torch' || of === `${space}.${torch}`;
      const count = rows.filter((r) => r.op === name).length || rows.filter((r) => r.op === plain).length;
      const tested = isAlias ? `as ${original}` : count || '';
      lines.push(`| ${torch} | \`${signature(name)}\` | ${tested} | ${applies ? text : ''} |`);
    }
    lines.push('', `Not there: ${names[space].filter((n) => !ours(space, n)).join(', ')}.`, '');
  }
  return `${lines.join('\n').trimEnd()}\n`;
}

if (process.argv[1] === import.meta.filename) writeFileSync(target, compat());
