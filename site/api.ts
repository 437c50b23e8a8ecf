// The API reference: pages made of the package's declarations (dist/**/*.d.ts), one for each entry point and namespace.
// Examples are rows of the tests of operations and layers, beside what torch is called with, and blocks of docs/.
import fs from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { rows as layers } from '../test/nn/layers.rows.js';
import { tables } from '../test/ops/tables.js';

const root = path.join(import.meta.dirname, '..');
const dist = path.join(root, 'dist');
const { Alias, Value } = ts.SymbolFlags;

/** A page of the reference: `page` is its name, `markdown` its text. */
export interface ApiPage {
  readonly page: string;
  readonly title: string;
  readonly markdown: string;
}
/** A block of code on a page of docs/, for examples. */
export interface Block {
  /** Where it stands: steps.md#a-plain-loop */
  readonly link: string;
  readonly title: string;
  readonly code: string;
}

interface Space {
  /** 'nn', 'nn.functional', 'tsxla': a page. */
  readonly name: string;
  /** 'tsxla/nn', if it can be imported by itself. */
  readonly subpath?: string;
  readonly symbols: ts.Symbol[];
}

export function apiPages(blocks: readonly Block[]): ApiPage[] {
  const { exports: entries } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { types: string } | string>;
  };
  const subpaths = Object.entries(entries).flatMap(([name, to]) =>
    typeof to === 'string'
      ? []
      : [[name === '.' ? 'tsxla' : name.replace('./', ''), path.join(root, to.types)] as const],
  );
  const program = ts.createProgram([...subpaths.map(([, file]) => file), path.join(dist, 'ops/index.d.ts')], {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    skipLibCheck: true,
    types: ['node'],
    strict: true,
  });
  const checker = program.getTypeChecker();
  const real = (symbol: ts.Symbol): ts.Symbol => (symbol.flags & Alias ? checker.getAliasedSymbol(symbol) : symbol);
  const exportsOf = (file: string): ts.Symbol[] => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file)!);
    return module ? checker.getExportsOfModule(module) : [];
  };
  const isNamespace = (symbol: ts.Symbol): boolean =>
    (real(symbol).flags & ts.SymbolFlags.ValueModule) !== 0 && ts.isSourceFile(real(symbol).declarations![0]!);

  // ---- the pages: entry points, and namespaces that are in no entry point of their own

  const spaces = new Map<string, Space>(); // by the file of their module
  const add = (name: string, file: string, subpath?: string): void => {
    if (spaces.has(file)) return;
    const symbols = exportsOf(file);
    spaces.set(file, { name, symbols, ...(subpath && { subpath }) });
  };
  for (const [name, file] of subpaths)
    if (name !== 'jobs') add(name, file, name === 'tsxla' ? 'tsxla' : `tsxla/${name}`);
  for (const [file, { name, symbols }] of spaces) // grows while it is read: namespaces in namespaces
    for (const symbol of symbols.filter(isNamespace)) {
      const inner = real(symbol).declarations![0]!.getSourceFile().fileName;
      if (symbol.name === 'jobs' || inner === file) continue;
      add(name === 'tsxla' ? symbol.name : `${name}.${symbol.name}`, inner);
    }

  const operations = new Map(exportsOf(path.join(dist, 'ops/index.d.ts')).map((symbol) => [symbol.name, symbol]));
  /** Where each declaration is documented: the first page that has it. */
  const places = new Map<ts.Declaration, { readonly page: string; readonly name: string }>();
  const keyOf = (symbol: ts.Symbol): ts.Declaration => real(symbol).declarations![0]!;
  const isOperation = (symbol: ts.Symbol): boolean =>
    operations.has(symbol.name) && /tensor\/functions\.d\.ts$/.test(keyOf(symbol).getSourceFile().fileName);
  const order = [...spaces.values()].sort((a, b) => Number(b.name === 'tsxla') - Number(a.name === 'tsxla'));
  for (const { name, symbols } of order)
    for (const symbol of symbols)
      if (!isNamespace(symbol) && !places.has(keyOf(symbol)))
        places.set(keyOf(symbol), {
          page: isOperation(symbol) ? 'operations' : pageOf(name, symbol),
          name: symbol.name,
        });

  // ---- one name

  const commentOf = (node: ts.Node): string => {
    const doc = (node as { jsDoc?: ts.JSDoc[] }).jsDoc?.at(-1);
    return doc ? (ts.getTextOfJSDocComment(doc.comment) ?? '') : '';
  };
  const documented = (symbol: ts.Symbol): string =>
    real(symbol)
      .declarations!.map((node) => commentOf(ts.isVariableDeclaration(node) ? node.parent.parent : node))
      .find((text) => text !== '') ?? '';
  /** A declaration as it stands in the .d.ts, without what is private. */
  const declarationText = (node: ts.Declaration): string => {
    const whole = ts.isVariableDeclaration(node) ? node.parent.parent : node;
    let text = whole.getText();
    if (ts.isClassDeclaration(node))
      for (const member of [...node.members].reverse()) {
        const [from, to] = [member.getFullStart() - whole.getStart(), member.end - whole.getStart()];
        if (isHidden(member)) text = text.slice(0, from) + text.slice(to);
      }
    const { base, first } = ts.isClassDeclaration(node) ? madeBy(node) : {};
    return text
      .replace(/ extends \w+_base\b(<.*?>)?/, base ? ` extends ${base}` : '')
      .replace(/\{/, first ? `{\n    ${first}` : '{')
      .replace(/\bthis: unknown, /g, '')
      .replace(/\bargs_\d\b/g, 'options')
      .replace(/^export (default )?(declare )?/, '')
      .replace(/;$/, '')
      .replace(/^ {4,}/gm, (spaces) => ' '.repeat(spaces.length / 2));
  };
  /** Of a class that extends what a function made (`ReLU extends ReLU_base`): what it extends, and its constructor. */
  const madeBy = (node: ts.ClassDeclaration): { readonly base?: string; readonly first?: string } => {
    if (!/ extends \w+_base\b/.test(node.getText().slice(0, 200)) || !node.name) return {};
    const type = checker.getTypeAtLocation(node.name) as ts.InterfaceType;
    const above = checker.getBaseTypes(type)[0]?.symbol?.name;
    const [made] = checker.getTypeOfSymbol(checker.getSymbolAtLocation(node.name)!).getConstructSignatures();
    const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope;
    const shown = made && checker.signatureToString(made, node, flags).replace(/: \w+$/, '');
    const isOwn = node.members.some(ts.isConstructorDeclaration);
    return {
      ...(above && /^[A-Z]\w+$/.test(above) && { base: above }),
      ...(shown && !isOwn && shown.length < 600 && { first: `constructor${shown};` }),
    };
  };
  const isHidden = (member: ts.ClassElement): boolean => {
    const modifiers = ts.canHaveModifiers(member) ? (ts.getModifiers(member) ?? []) : [];
    return (
      modifiers.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword || kind === ts.SyntaxKind.ProtectedKeyword) ||
      /^(#|\[(?!Symbol\.(?:dispose|asyncDispose|asyncIterator)\])|_|restoreGrad$|toJSON$)/.test(
        member.name?.getText() ?? '',
      ) ||
      /\b(Expr|Cell|Aval|Stored|gradPut|spend|lend|release)\b/.test(member.getText())
    );
  };
  /** Types that a declaration names and that have no place of their own: they are shown with it. */
  const helpersOf = (nodes: readonly ts.Declaration[]): ts.Declaration[] => {
    const found = new Set<ts.Declaration>();
    const visit = (node: ts.Node): void => {
      const symbol = ts.isTypeReferenceNode(node) ? checker.getSymbolAtLocation(node.typeName) : undefined;
      const declared = symbol && real(symbol).declarations?.[0];
      if (
        declared &&
        (ts.isTypeAliasDeclaration(declared) || ts.isInterfaceDeclaration(declared)) &&
        declared.getSourceFile().fileName.startsWith(dist) &&
        !places.has(declared) &&
        !found.has(declared) &&
        declared.getText().split('\n').length <= 15
      ) {
        found.add(declared);
        visit(declared);
      }
      ts.forEachChild(node, visit);
    };
    for (const node of nodes) if (!ts.isClassDeclaration(node)) visit(node);
    return [...found].filter((node) => !nodes.includes(node)).slice(0, 4);
  };
  const withHelpers = (nodes: readonly ts.Declaration[]): string =>
    [...nodes.map(declarationText), ...helpersOf(nodes).map((node) => `\n${declarationText(node)}`)].join('\n');
  const declarations = (symbol: ts.Symbol): string => {
    const shown = real(symbol).declarations!.filter((node) => !ts.isSourceFile(node));
    // Parts of one thing, as an interface that says what a class has beside its own members: the class alone.
    const main = shown.filter((node) => !ts.isInterfaceDeclaration(node) || !shown.some(ts.isClassDeclaration));
    return isOperation(symbol) ? operationText(operations.get(symbol.name)!) : withHelpers(main);
  };
  const operationText = (symbol: ts.Symbol): string =>
    withHelpers(real(symbol).declarations!).replace(/\bExpr\b/g, 'Tensor');

  const example = (name: string): string | undefined => {
    const uses = new RegExp(
      `(?:\\btx(?:\\.\\w+)*\\.|\\bnew (?:\\w+\\.)*|[{,] ?|\\b(?:nn|optim|train|func|profiler)\\.)${name}\\b[(<,} ]`,
    );
    const found = blocks.filter(({ code }) => uses.test(code)).sort((a, b) => a.code.length - b.code.length);
    if (!found.length || name.length < 3) return undefined;
    const links = [...new Map(found.map(({ link, title }) => [link, `[${title}](../${link})`])).values()].slice(0, 3);
    const [{ code }] = found as [Block];
    const shown = code.split('\n').length <= 12 ? `\`\`\`ts\n${code.trim()}\n\`\`\`\n` : '';
    return `${shown}Used in: ${links.join(', ')}.`;
  };

  const section = (symbol: ts.Symbol, level: string): string => {
    const operation = isOperation(symbol) ? operations.get(symbol.name) : undefined;
    const text = documented(operation ?? symbol);
    const shown = operation ? exampleOfOperation(symbol.name) : (exampleOfLayer(symbol.name) ?? example(symbol.name));
    return [
      `${level} ${symbol.name} %{#${symbol.name}}%`,
      `\`\`\`ts\n${declarations(symbol).split('\n').map(broken).join('\n')}\n\`\`\``,
      text && asMarkdown(text),
      shown,
    ]
      .filter(Boolean)
      .join('\n\n');
  };

  // ---- pages

  const index = new Map<string, { title: string; names: string[] }>();
  const pages: ApiPage[] = [];
  const write = (
    page: string,
    title: string,
    intro: string,
    parts: readonly (readonly [heading: string, symbols: readonly ts.Symbol[]])[],
  ) => {
    const filled = parts.filter(([, symbols]) => symbols.length);
    const names = filled.flatMap(([, symbols]) => symbols.map(({ name }) => name));
    index.set(page, { title, names });
    const body = filled.map(([heading, symbols]) =>
      [
        heading && `## ${heading} %{#in-${heading.toLowerCase().replace(/\W+/g, '-')}}%`,
        ...symbols.map((symbol) => section(symbol, '###')),
      ]
        .filter(Boolean)
        .join('\n\n'),
    );
    pages.push({ page, title, markdown: `# ${title}\n\n${intro}\n\n${body.join('\n\n')}\n` });
  };
  const byName = (a: ts.Symbol, b: ts.Symbol) => a.name.localeCompare(b.name, 'en');

  for (const { name, subpath, symbols } of order) {
    const own = symbols.filter((symbol) => !isNamespace(symbol) && !isOperation(symbol)).sort(byName);
    const here = own.filter((symbol) => places.get(keyOf(symbol))!.page === pageOf(name, symbol));
    const others = symbols.filter((symbol) => !isNamespace(symbol) && !here.includes(symbol)).sort(byName);
    const inner = symbols.filter(isNamespace).sort(byName);
    const links = [
      ...inner.flatMap((symbol) => {
        const space = spaces.get(real(symbol).declarations![0]!.getSourceFile().fileName);
        return space ? [`[\`${symbol.name}\`](./${space.name}.md)`] : [];
      }),
    ];
    const elsewhere = others.map((symbol) => {
      const place = places.get(keyOf(symbol))!;
      return `[\`${symbol.name}\`](./${place.page}.md#${place.name})`;
    });
    const intro = [
      name === 'tsxla'
        ? "```ts\nimport * as tx from 'tsxla';\n```\n\nOperations on tensors are in [operations](./operations.md), the class in [Tensor](./tensor.md)."
        : subpath
          ? `\`\`\`ts\nimport * as ${camel(name)} from '${subpath}';\n\`\`\``
          : `\`tx.${name}\``,
      links.length && `Namespaces: ${links.join(', ')}.`,
      elsewhere.length && name !== 'tsxla' && `Also here, documented elsewhere: ${elsewhere.join(', ')}.`,
    ]
      .filter(Boolean)
      .join('\n\n');
    const rest = here.filter(({ name: each }) => !(name === 'tsxla' && each === 'Tensor'));
    const kinds = (test: (symbol: ts.Symbol) => boolean) => rest.filter(test);
    const isClass = (symbol: ts.Symbol) => (real(symbol).flags & ts.SymbolFlags.Class) !== 0;
    const isValue = (symbol: ts.Symbol) => (real(symbol).flags & Value) !== 0;
    write(name, titleOf(name, subpath), intro, [
      ['Functions and values', kinds((symbol) => isValue(symbol) && !isClass(symbol))],
      ['Classes', kinds(isClass)],
      ['Types', kinds((symbol) => !isValue(symbol))],
    ]);
  }

  const main = order[0]!;
  const ops = main.symbols.filter(isOperation);
  const families = new Map<string, ts.Symbol[]>();
  for (const symbol of ops.sort(byName)) {
    const declared = keyOf(operations.get(symbol.name)!).getSourceFile().fileName;
    const family = path.basename(declared, '.d.ts').replaceAll('-', ' ');
    families.set(family, [...(families.get(family) ?? []), symbol]);
  }
  write(
    'operations',
    'Operations',
    'Functions of `tx`, and methods of `Tensor` but for those that take a list first: `tx.sum(x, 0)` and `x.sum(0)`. The examples are from the tests, which compare them with torch.',
    [...families].sort(([a], [b]) => a.localeCompare(b, 'en')).map(([family, symbols]) => [family, symbols]),
  );
  const tensor = main.symbols.find(({ name }) => name === 'Tensor')!;
  write(
    'tensor',
    'Tensor',
    'Every [operation](./operations.md) is a method, too; those that end in an underscore (`x.add_(1)`) change the tensor in place. What a tensor is: [tensors](../tensors.md).',
    [['', [tensor]]],
  );
  // Tensors first: they are what most readers look for.
  const rank = ({ page }: { readonly page: string }): number => ['tensor', 'operations'].indexOf(page);
  pages.sort((a, b) => rank(b) - rank(a));
  const overview = pages
    .map(({ page }) => [page, index.get(page)!] as const)
    .map(
      ([page, { title, names }]) =>
        `## [${title}](./${page}.md)\n\n${names.map((name) => `[\`${name}\`](./${page}.md#${name})`).join(' ')}\n`,
    );
  const first = `# API\n\nEvery public name, from the types of the package: ${[...index.values()].reduce((n, { names }) => n + names.length, 0)} names on ${index.size} pages.\n`;
  return [{ page: 'index', title: 'API', markdown: `${first}\n${overview.join('\n')}` }, ...pages];
}

/** A signature of more than 96 characters, with a line for each parameter. */
function broken(line: string): string {
  const open = /^(?:function [\w$]+|const [\w$]+: | {2}(?:static )?[\w$]+)?(?:<.*?>)?\(/.exec(line);
  if (line.length <= 96 || !open || /^\s*(\/\*|\*)/.test(line)) return line;
  const parts: string[] = [];
  let depth = 0;
  let at = open[0].length;
  for (let i = at; i < line.length; i++) {
    const c = line[i]!;
    if ('([{<'.includes(c)) depth++;
    else if (')]}'.includes(c) || (c === '>' && line[i - 1] !== '=')) depth--;
    if (depth < 0 || (c === ',' && depth === 0)) {
      parts.push(line.slice(at, i).trim());
      at = i + 1;
      if (depth < 0) {
        const indent = /^ */.exec(line)![0];
        return [open[0], ...parts.map((part) => `${indent}  ${part},`), `${indent})${line.slice(at)}`].join('\n');
      }
    }
  }
  return line;
}
const camel = (name: string): string => name.replace(/\W(\w)/g, (_, c: string) => c.toUpperCase());
const pageOf = (space: string, symbol: ts.Symbol): string =>
  space === 'tsxla' && symbol.name === 'Tensor' ? 'tensor' : space;
const titleOf = (name: string, subpath?: string): string => subpath ?? `tx.${name}`;

/** A comment as Markdown: pages of docs become links. */
const asMarkdown = (text: string): string =>
  text
    .replace(/\bdocs\/([\w-]+)\.md(#[\w-]+)?/g, (all, page: string, anchor = '') =>
      fs.existsSync(path.join(root, 'docs', `${page}.md`)) ? `[${page}](../${page}.md${anchor})` : all,
    )
    .replace(/\{@link (\S+)\}/g, '`$1`');

// ---- examples of operations

const rows = tables.flatMap((table) => table.rows);
const printer = ts.createPrinter({ removeComments: true });
/** `a => a.softmax(1)` as it would be written; undefined where it has names of the test's own. */
function callOf(op: string, run: string, torch: string): string | undefined {
  const m = /^(?:async )?\(?([a-z, ]*)\)?\s*=>\s*([^{][\s\S]*)$/.exec(run);
  if (!m) return undefined;
  let text = m[2]!.replace(/\bcall\[op\]!?\(/g, `tx.${op}(`).replace(/\[op\]!?\(/g, `.${op}(`);
  text = text.replace(/^found\(([\s\S]*)\)$/, '$1');
  const either = /^options\?(.*):(.*)$/.exec(text); // with options, and without
  if (either && /\([a-z, ]*\)$/.test(torch)) text = either[2]!;
  const source = ts.createSourceFile('row.ts', `(${text})`, ts.ScriptTarget.ES2022, true);
  const [statement] = source.statements;
  if (source.statements.length !== 1 || !statement || !ts.isExpressionStatement(statement)) return undefined;
  const known = new Set([...m[1]!.split(',').map((s) => s.trim()), 'tx', 'nn', 'undefined', 'Infinity']);
  let isKnown = true;
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) {
      const { parent } = node;
      const isName =
        (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
        (ts.isPropertyAssignment(parent) && parent.name === node);
      if (!isName && !known.has(node.text)) isKnown = false;
    }
    ts.forEachChild(node, visit);
  };
  visit(statement);
  if (!isKnown || !text.includes(op)) return undefined;
  const inner = (statement.expression as ts.ParenthesizedExpression).expression;
  return printer
    .printNode(ts.EmitHint.Unspecified, inner, source)
    .replace(/(?<![\d\w])\.(\d)/g, '0.$1')
    .replace(/"/g, "'")
    .replace(/\s*\n\s*/g, ' ');
}
/** Calls, and beside each what torch is called with. */
function besideTorch(found: readonly (readonly [call: string, torch: string])[]): string | undefined {
  const calls = [...new Map(found)].slice(0, 2);
  if (!calls.length) return undefined;
  const width = Math.max(...calls.map(([call]) => call.length)) + 2;
  return `\`\`\`ts\n${calls.map(([call, torch]) => `${`${call};`.padEnd(width)}// torch: ${torch}`).join('\n')}\n\`\`\``;
}
function exampleOfOperation(op: string): string | undefined {
  const found = rows
    .filter((row) => row.op === op)
    .flatMap((row) => {
      const call = callOf(op, String(row.run), row.torch);
      return call && call.length < 90 ? [[call, row.torch] as const] : [];
    });
  return besideTorch(found);
}
function exampleOfLayer(name: string): string | undefined {
  const found = layers
    .filter(({ torch }) => torch.startsWith(`nn.${name}(`))
    .flatMap(({ make, torch }) => {
      const call = callOf(name, String(make), torch);
      return call?.startsWith('new nn.') && call.length < 90 ? [[call, torch] as const] : [];
    });
  return besideTorch(found);
}
