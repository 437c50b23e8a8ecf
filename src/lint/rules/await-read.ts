import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Rule } from '../rule.js';

export const awaitRead: Rule = {
  name: 'await-read',
  description: 'A read (item, data, tolist, print, tx.read) with its promise used as the value, or dropped.',
  fixes: true,
  *check(code) {
    for (const node of code.nodes) {
      const read = code.read(node);
      if (!read) continue;
      const { call, name } = read;
      const used = misuse(code, code.wrapped(call)) ?? misusedVariable(code, call);
      if (!used) continue;
      const fix = code.canAwait(call) && !isUsedAsPromise(code, call) ? code.awaited(call) : undefined;
      yield { node: call, message: `${name}() returns a promise, ${used}: await ${code.text(call)}`, fix };
    }
  },
};

const ARITHMETIC = /^(\+|-|\*|\/|%|\*\*|[<>]=?|[!=]==?|\+=|-=|\*=|\/=)$/;
const TAKES_VALUES =
  /^(console\.\w+|Math\.\w+|Number|String|Boolean|BigInt|parseFloat|parseInt|JSON\.stringify|(Number\.)?is(NaN|Finite))$/;
const OF_PROMISES = /^(then|catch|finally)$/;

/** How a promise is misused as a value; undefined if it is not. */
function misuse(code: Code, node: ts.Expression): string | undefined {
  const { ts } = code;
  const { parent } = node;
  if (code.isDropped(node)) return 'which is dropped here: an error in it is lost, and nothing waits for it';
  if (ts.isTemplateSpan(parent)) return 'and the text shows the promise';
  if (ts.isBinaryExpression(parent)) {
    const operator = ts.tokenToString(parent.operatorToken.kind) ?? '';
    if (ARITHMETIC.test(operator) && (parent.right === node || !operator.endsWith('=') || /^[<>!=]/.test(operator)))
      return `and ${operator} does not work on promises`;
    const isTested = /^(&&|\|\|)$/.test(operator) && parent.left === node;
    return isTested ? 'which is always true' : undefined;
  }
  if (ts.isPrefixUnaryExpression(parent)) return 'which is not a number and always true';
  if ((ts.isIfStatement(parent) || ts.isWhileStatement(parent)) && parent.expression === node)
    return 'which is always true';
  if (ts.isConditionalExpression(parent) && parent.condition === node) return 'which is always true';
  if (ts.isPropertyAccessExpression(parent))
    return OF_PROMISES.test(parent.name.text) ? undefined : `which has no ${parent.name.text}`;
  if (ts.isElementAccessExpression(parent) && parent.expression === node) return 'which has no elements';
  if (ts.isForOfStatement(parent) && parent.expression === node && !parent.awaitModifier)
    return 'which has no elements';
  if (ts.isSpreadElement(parent)) return 'which has no elements';
  const text = textOf(code, node);
  if (text) return `and ${text} takes it for the value`;
  if (ts.isCallExpression(parent) && parent.expression !== node) {
    const called = parent.expression.getText(code.file);
    return TAKES_VALUES.test(called) ? `and ${called} takes it for the value` : undefined;
  }
  return undefined;
}

/** The function that converts an object containing it to text: `JSON.stringify({ loss: x.item() })`. */
function textOf(code: Code, node: ts.Expression): string | undefined {
  const { ts } = code;
  const { parent } = node;
  const literal = ts.isPropertyAssignment(parent) ? parent.parent : ts.isArrayLiteralExpression(parent) ? parent : node;
  const outer = literal === node ? undefined : code.wrapped(literal);
  if (!outer) return undefined;
  const call = ts.isCallExpression(outer.parent) && outer.parent.expression !== outer ? outer.parent : undefined;
  const called = call?.expression.getText(code.file) ?? '';
  return /^(JSON\.stringify|console\.\w+)$/.test(called) ? called : textOf(code, outer);
}

/** The uses of the variable that holds a promise: `const loss = t.item()`. */
function usesOf(code: Code, call: ts.CallExpression): readonly ts.Identifier[] {
  const { ts } = code;
  const { parent } = code.wrapped(call);
  if (!ts.isVariableDeclaration(parent) || !ts.isIdentifier(parent.name)) return [];
  const symbol = code.symbolOf(parent.name);
  return symbol ? [...code.uses(symbol)].filter((use) => use !== parent.name) : [];
}
/** The same for the variable that holds it: `const loss = t.item(); console.log(loss)`. */
function misusedVariable(code: Code, call: ts.CallExpression): string | undefined {
  for (const use of usesOf(code, call)) {
    const how = misuse(code, code.wrapped(use));
    if (how && !code.ts.isExpressionStatement(use.parent)) return how;
  }
  return undefined;
}
/** Whether it is also used as a promise, `loss.then(...)`: awaiting it would break that. */
const isUsedAsPromise = (code: Code, call: ts.CallExpression): boolean =>
  usesOf(code, call).some(
    ({ parent }) => code.ts.isPropertyAccessExpression(parent) && OF_PROMISES.test(parent.name.text),
  );
