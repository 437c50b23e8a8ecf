import type ts from 'typescript';
import type { Code, Traced } from '../code.js';
import type { Edit, Rule } from '../rule.js';

export const noAsyncFunction: Rule = {
  name: 'no-async-function',
  description:
    'An async function passed to compile, step, noGrad or similar: code after its first await is not part of it.',
  suggests: true,
  *check(code) {
    for (const traced of code.traced) {
      const { argument, by, how, fn } = traced;
      // noGrad(() => train(x)) starts the program while gradients are off, which is fine.
      if (!isAsync(code, fn) && (how === 'now' || !givesPromise(code, argument))) continue;
      const what =
        how === 'now'
          ? `${by} ends at its first await`
          : `${by} only describes a computation, so nothing can be awaited in it`;
      const edits = code.bare(argument) === fn ? withoutAsync(code, fn) : undefined;
      yield {
        node: argument,
        message: `the function passed to ${by} is async: ${what}. Make it a synchronous function, and await outside`,
        suggestion: edits && { title: 'Remove async', edits },
      };
    }
  },
};

const isAsync = (code: Code, fn: Traced['fn']): boolean =>
  Boolean(code.ts.getCombinedModifierFlags(fn as ts.Declaration) & code.ts.ModifierFlags.Async);

/** Whether calling it returns a promise, by its type. */
const givesPromise = (code: Code, argument: ts.Expression): boolean =>
  code
    .typeOf(argument)
    .getCallSignatures()
    .some((s) => s.getReturnType().getSymbol()?.name === 'Promise');

function withoutAsync(code: Code, fn: Traced['fn']): readonly Edit[] | undefined {
  const { ts } = code;
  const keyword = ts.canHaveModifiers(fn) && ts.getModifiers(fn)?.find((m) => m.kind === ts.SyntaxKind.AsyncKeyword);
  const awaits = [...code.inside(fn)].some(
    (n) => ts.isAwaitExpression(n) || (ts.isForOfStatement(n) && n.awaitModifier),
  );
  if (!keyword || awaits) return undefined;
  const start = code.start(keyword);
  const { length } = /^\s*/.exec(code.file.text.slice(keyword.end))![0];
  return [{ start, end: keyword.end + length, text: '' }];
}
