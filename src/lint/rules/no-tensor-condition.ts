import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Finding, Rule } from '../rule.js';

export const noTensorCondition: Rule = {
  name: 'no-tensor-condition',
  description:
    'A tensor as a condition or in a comparison: it is an object, so it is always true and equal to no number.',
  suggests: true,
  *check(code) {
    for (const { node, comparison } of tests(code)) {
      const tensor = comparison ? code.isTensor(node) : code.isSurelyTensor(node);
      if (tensor) yield found(code, node, comparison);
      else if (!comparison && code.isInstance(code.typeOf(node), 'Block')) yield ofBlock(code, node);
    }
  },
};

function found(code: Code, node: ts.Expression, comparison: string | undefined): Finding {
  const name = code.text(node);
  const wrong = comparison
    ? `${name} is a tensor: ${comparison} ${/^[<>]/.test(comparison) ? 'throws' : 'compares the object, not its values'}`
    : `${name} is a tensor, an object, so this condition is always true`;
  const instead = comparison ? `use ${METHODS[comparison] ?? 'eq'}()` : 'compare it';
  const isTraced = code.described.some((t) => code.contains(t.fn, node)); // nothing can be read in there
  const message = `${wrong}: ${instead} with tx.where or tx.cond${isTraced ? '' : `, or read it first: await ${name}.item()`}`;
  const edits = code.canAwait(node) ? code.awaited(node, '.item()') : undefined;
  return { node, message, suggestion: edits && { title: 'Read it: await item()', edits } };
}

const ofBlock = (code: Code, node: ts.Expression): Finding => ({
  node,
  message: `${code.text(node)} is a block of a kernel, an object, so this condition is always true: use kernels.when, kernels.where or kernels.loop`,
});

const METHODS: Readonly<Record<string, string>> = {
  '<': 'lt',
  '<=': 'le',
  '>': 'gt',
  '>=': 'ge',
  '!=': 'ne',
  '!==': 'ne',
};

export interface Test {
  readonly node: ts.Expression;
  /** The operator, if it is an operand of a comparison. */
  readonly comparison?: string;
}

/** Every expression used as a condition, or as an operand of a comparison. */
export function* tests(code: Code): Generator<Test> {
  const { ts } = code;
  const seen = new Set<ts.Node>();
  const asked = function* (node: ts.Expression): Generator<Test> {
    const bare = code.bare(node);
    if (seen.has(bare)) return;
    seen.add(bare);
    if (isLogical(code, bare)) {
      yield* asked(bare.left);
      yield* asked(bare.right);
    } else if (ts.isPrefixUnaryExpression(bare) && bare.operator === ts.SyntaxKind.ExclamationToken)
      yield* asked(bare.operand);
    else if (!isComparison(code, bare)) yield { node: bare };
  };
  for (const node of code.nodes) {
    if (ts.isIfStatement(node) || ts.isWhileStatement(node) || ts.isDoStatement(node)) yield* asked(node.expression);
    else if (ts.isForStatement(node) && node.condition) yield* asked(node.condition);
    else if (ts.isConditionalExpression(node)) yield* asked(node.condition);
    else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
      yield* asked(node.operand);
    else if (isLogical(code, node)) yield* asked(node.left);
    else if (isComparison(code, node)) yield* compared(code, node);
    else if (ts.isSwitchStatement(node)) yield { node: code.bare(node.expression), comparison: 'switch' };
    else if (ts.isCallExpression(node)) {
      const answer = predicate(code, node);
      if (answer) yield* asked(answer);
    }
  }
}

const isLogical = (code: Code, node: ts.Node): node is ts.BinaryExpression =>
  code.ts.isBinaryExpression(node) &&
  (node.operatorToken.kind === code.ts.SyntaxKind.AmpersandAmpersandToken ||
    node.operatorToken.kind === code.ts.SyntaxKind.BarBarToken);

const COMPARISON = /^([<>]=?|[!=]==?)$/;
const isComparison = (code: Code, node: ts.Node): node is ts.BinaryExpression =>
  code.ts.isBinaryExpression(node) && COMPARISON.test(code.ts.tokenToString(node.operatorToken.kind) ?? '');

/** The operands of a comparison, without tests for identity or null: `a === b` of two tensors, `a === null`. */
function* compared(code: Code, { left, operatorToken, right }: ts.BinaryExpression): Generator<Test> {
  const { ts } = code;
  const comparison = ts.tokenToString(operatorToken.kind)!;
  const VALUES = ts.TypeFlags.NumberLike | ts.TypeFlags.BigIntLike | ts.TypeFlags.BooleanLike;
  for (const [node, other] of [
    [left, right],
    [right, left],
  ] as const) {
    const isOrder = !comparison.includes('=') || /^[<>]/.test(comparison);
    if (isOrder || code.isAll(code.typeOf(other), VALUES)) yield { node: code.bare(node), comparison };
    // Loosely equal: not a test of identity.
    else if (comparison.length === 2 && node === left && code.isTensor(other))
      yield { node: code.bare(node), comparison };
  }
}

/** The expression used as a condition in `Boolean(x)` and `list.filter((x) => ...)`. */
function predicate(code: Code, { expression, arguments: [first] }: ts.CallExpression): ts.Expression | undefined {
  const { ts } = code;
  if (!first) return undefined;
  if (ts.isIdentifier(expression)) return expression.text === 'Boolean' ? first : undefined;
  if (
    !ts.isPropertyAccessExpression(expression) ||
    !/^(filter|some|every|find(Last)?(Index)?)$/.test(expression.name.text)
  )
    return undefined;
  return ts.isArrowFunction(first) && !ts.isBlock(first.body) ? first.body : undefined;
}
