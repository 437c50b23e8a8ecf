import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Rule } from '../rule.js';

export const noImpureCompiled: Rule = {
  name: 'no-impure-compiled',
  description:
    'Math.random(), the time, input or output inside a compiled function: they happen while it is traced, not when it runs.',
  *check(code) {
    const reported = new Set<ts.Node>();
    for (const traced of code.described) {
      const when =
        traced.how === 'step'
          ? 'each call makes another program of it'
          : 'it happens when the function is traced, not at each call';
      for (const node of code.body(traced)) {
        const [what, way] = (!reported.has(node) && impurity(code, node)) || [];
        if (!what || !way) continue;
        reported.add(node);
        const isOutput = OUTPUT.test(what);
        yield {
          node,
          message: `${what} inside ${traced.by}(): ${isOutput ? 'it happens while the function is traced, and no value is there yet' : when}: ${way}`,
        };
      }
    }
  },
};

const OUTPUT = /^(console|process\.std)/;
const NUMBER = 'pass it as an argument';
const WAYS: readonly (readonly [RegExp, string])[] = [
  [/^Math\.random$/, 'use tx.rand([]), or pass it as an argument'],
  [/^(Date\.now|Date|performance\.now|process\.(hrtime(\.bigint)?|uptime|cpuUsage|memoryUsage))$/, NUMBER],
  [/^(crypto|webcrypto)\.\w+$/, NUMBER],
  [
    /^console\.\w+$|^process\.std(out|err)\.write$/,
    'use tx.afterStep(async (t) => console.log(await t.tolist()), t), or print what it returns',
  ],
  [
    /^(fetch|setTimeout|setInterval|setImmediate|queueMicrotask)$/,
    'do it before the call, and pass the result as an argument',
  ],
];
const FILES = /^(node:)?(fs|fs\/promises|child_process|net|http|https|readline)$/;

/** The side effect of a call, and what to write instead. */
function impurity(code: Code, node: ts.Node): readonly [what: string, way: string] | undefined {
  const { ts } = code;
  if (!ts.isCallExpression(node) && !ts.isNewExpression(node)) return undefined;
  const called = node.expression.getText(code.file).replace(/\s|^globalThis\./g, '');
  let root = node.expression;
  while (ts.isPropertyAccessExpression(root)) root = root.expression;
  if (!ts.isIdentifier(root)) return undefined;
  const symbol = code.symbolOf(root);
  const declaration = symbol?.declarations?.[0];
  const from = declaration && code.around(declaration, ts.isImportDeclaration)?.moduleSpecifier;
  if (from && ts.isStringLiteral(from) && FILES.test(from.text))
    return [`${called}()`, 'do it outside, and pass the result as an argument'];
  const isGlobal = !declaration || declaration.getSourceFile() !== code.file;
  const known = from ? ['performance', 'crypto', 'webcrypto', 'process', 'console'].includes(root.text) : isGlobal;
  const way = known && WAYS.find(([pattern]) => pattern.test(called));
  if (!way || (called === 'Date' && node.arguments?.length)) return undefined;
  return [ts.isNewExpression(node) ? `new ${called}()` : `${called}()`, way[1]];
}
