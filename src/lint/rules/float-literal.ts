import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Rule } from '../rule.js';

export const floatLiteral: Rule = {
  name: 'float-literal',
  description:
    'tx.tensor([1.0, 2.0]) without a dtype: JavaScript reads 1.0 as 1, so the tensor is i64, not f32 as in torch.',
  fixes: true,
  *check(code) {
    const { ts } = code;
    for (const node of code.nodes) {
      if (!ts.isCallExpression(node) || node.arguments.length !== 1 || code.nameOf(node.expression) !== 'tensor')
        continue;
      const [value] = node.arguments;
      const numbers = value ? literals(code, value) : undefined;
      const float = numbers?.find((n) => n.getText(code.file).includes('.'));
      if (!float || numbers!.some((n) => !Number.isInteger(Number(n.text)))) continue;
      yield {
        node: value!,
        message: `${float.getText(code.file)} is ${Number(float.text)} to JavaScript, so this tensor is i64: give it a dtype, { dtype: 'f32' }`,
        fix: [{ start: value!.end, end: value!.end, text: ", { dtype: 'f32' }" }],
      };
    }
  },
};

/** All numbers in a nested list; undefined if it has anything else. */
function literals(code: Code, node: ts.Expression): readonly ts.NumericLiteral[] | undefined {
  const { ts } = code;
  if (ts.isNumericLiteral(node)) return [node];
  if (ts.isPrefixUnaryExpression(node)) return literals(code, node.operand);
  if (!ts.isArrayLiteralExpression(node)) return undefined;
  const all = node.elements.map((e) => literals(code, e));
  return all.every((n) => n !== undefined) ? all.flat() : undefined;
}
