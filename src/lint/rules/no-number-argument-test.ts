import type ts from 'typescript';
import type { Code, Traced } from '../code.js';
import type { Edit, Finding, Rule } from '../rule.js';
import { tests } from './no-tensor-condition.js';

export const noNumberArgumentTest: Rule = {
  name: 'no-number-argument-test',
  description: 'A number argument of a compiled function used as a number inside, where it is a tensor.',
  suggests: true,
  *check(code) {
    for (const traced of code.traced) {
      if (traced.by !== 'compile') continue;
      const inputs = numberArguments(code, traced);
      if (!inputs.size) continue;
      for (const { node, how, isTruth } of numberUses(code, traced)) {
        const index = argumentOf(code, node, inputs, isTruth);
        if (index !== undefined) yield found(code, traced, node, how, index);
      }
    }
  },
};

function found(code: Code, { call }: Traced, node: ts.Expression, how: string, index: number): Finding {
  const name = code.text(node);
  const edits = staticArgument(code, call, index);
  return {
    node,
    message:
      `${name} is a tensor inside this compiled function, whatever its type says: ${how}. Declare it as a tx.Tensor and ` +
      `use tensor methods with tx.where, or make its value part of the program: { staticArguments: [${index}] }`,
    suggestion: edits && { title: `Add { staticArguments: [${index}] }`, edits },
  };
}

/** The argument index of each parameter, and of each name destructured from one, by symbol. */
function numberArguments(code: Code, { fn, call }: Traced): Map<ts.Symbol, number> {
  const { ts } = code;
  const fixed = staticsOf(code, call);
  const inputs = new Map<ts.Symbol, number>();
  const add = (name: ts.BindingName, index: number): void => {
    if (!ts.isIdentifier(name)) {
      for (const element of name.elements) if (ts.isBindingElement(element)) add(element.name, index);
      return;
    }
    const symbol = code.symbolOf(name);
    if (symbol && !code.uses(symbol).some((use) => ts.isTypeOfExpression(use.parent))) inputs.set(symbol, index);
  };
  if (fixed) fn.parameters.forEach((p, i) => !fixed.has(i) && add(p.name, i));
  return inputs;
}

/** The static arguments; undefined if they cannot be determined. */
function staticsOf(code: Code, { arguments: [, options] }: ts.CallExpression): Set<number> | undefined {
  const { ts } = code;
  if (!options) return new Set();
  const object = code.constantOf(options);
  if (!object || !ts.isObjectLiteralExpression(object)) return undefined;
  if (object.properties.some((p) => !ts.isPropertyAssignment(p))) return undefined;
  const property = object.properties.find((p) => p.name?.getText(code.file) === 'staticArguments');
  if (!property) return new Set();
  const list = code.constantOf((property as ts.PropertyAssignment).initializer);
  if (!list || !ts.isArrayLiteralExpression(list)) return undefined;
  return new Set(list.elements.flatMap((e) => code.numberOf(e) ?? []));
}

/** The index of the argument that an expression is, or is a property of. */
function argumentOf(
  code: Code,
  node: ts.Expression,
  inputs: ReadonlyMap<ts.Symbol, number>,
  isTruth = false,
): number | undefined {
  const { ts } = code;
  // `if (n)` for an optional argument tests whether it was given.
  const type = isTruth ? code.typeOf(node) : code.checker.getNonNullableType(code.typeOf(node));
  if (!code.isAll(type, ts.TypeFlags.NumberLike | ts.TypeFlags.BigIntLike)) return undefined;
  let root: ts.Expression = node;
  while (ts.isPropertyAccessExpression(root) || ts.isElementAccessExpression(root)) {
    if (ts.isElementAccessExpression(root)) {
      root = code.bare(root.expression); // sizes[0]
      continue;
    }
    // x.ndim and xs.length are numbers; options.lr, of a plain object, is an input.
    const property = code.checker.getSymbolAtLocation(root.name)?.valueDeclaration;
    if (!property || property.getSourceFile() !== code.file || !ts.isPropertySignature(property)) return undefined;
    root = code.bare(root.expression);
  }
  const symbol = ts.isIdentifier(root) && code.symbolOf(root);
  return symbol ? inputs.get(symbol) : undefined;
}

const ARITHMETIC = /^(\+|-|\*|\/|%|\*\*|<<|>>|>>>|&|\||\^)$/;
/** Places in a function that need a number, and what happens to a tensor there. */
function* numberUses(code: Code, traced: Traced): Generator<{ node: ts.Expression; how: string; isTruth?: boolean }> {
  const { ts } = code;
  const inside = new Set(code.body(traced));
  const throws = 'this throws when it is traced';
  for (const { node, comparison } of tests(code)) {
    if (!inside.has(node)) continue;
    const isOrder = comparison !== undefined && /^[<>]/.test(comparison);
    const always = comparison?.startsWith('!') ? 'true' : 'false';
    yield {
      node,
      isTruth: comparison === undefined,
      how: isOrder ? throws : comparison ? `${comparison} is always ${always}` : 'the condition is always true',
    };
  }
  for (const node of inside) {
    if (ts.isBinaryExpression(node) && ARITHMETIC.test(ts.tokenToString(node.operatorToken.kind) ?? ''))
      yield* [node.left, node.right].map((n) => ({ node: code.bare(n), how: throws }));
    else if (ts.isPrefixUnaryExpression(node) && node.operator !== ts.SyntaxKind.ExclamationToken)
      yield { node: code.bare(node.operand), how: throws };
    else if (ts.isElementAccessExpression(node))
      yield { node: code.bare(node.argumentExpression), how: 'it is not an index' };
    else if (ts.isCallExpression(node) && /^(Math|Number)\b/.test(node.expression.getText(code.file)))
      yield* node.arguments.map((n) => ({ node: code.bare(n), how: 'JavaScript cannot compute with tensors' }));
  }
}

/** Edits that add the static argument to the call, if its options can be extended. */
function staticArgument(
  code: Code,
  { arguments: args }: ts.CallExpression,
  index: number,
): readonly Edit[] | undefined {
  const { ts } = code;
  const [fn, options] = args;
  const text = `staticArguments: [${index}]`;
  if (fn && !options) return [{ start: fn.end, end: fn.end, text: `, { ${text} }` }];
  if (!options || !ts.isObjectLiteralExpression(options)) return undefined;
  const [first] = options.properties;
  if (!first || options.getText(code.file).includes('staticArguments')) return undefined;
  return [{ start: code.start(first), end: code.start(first), text: `${text}, ` }];
}
