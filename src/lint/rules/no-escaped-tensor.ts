import type ts from 'typescript';
import type { Code, Traced } from '../code.js';
import type { Rule } from '../rule.js';

export const noEscapedTensor: Rule = {
  name: 'no-escaped-tensor',
  description: 'A tensor made in a compiled function and kept outside of it: it has no value after the step.',
  *check(code) {
    const reported = new Set<ts.Node>();
    for (const traced of code.described) {
      for (const node of code.body(traced)) {
        const kept = !reported.has(node) && keptBy(code, node, traced);
        if (!kept) continue;
        reported.add(node);
        yield {
          node,
          message: `${code.text(kept.value)} is made inside ${traced.by}() and kept in ${code.text(kept.place)}, outside of it, where it has no value: return it, change an outer tensor in place (copy_), or use tx.afterStep`,
        };
      }
    }
  },
};

const KEEPS = /^(push|unshift|set|add|fill|splice)$/;

/** The value that a statement keeps, and its place. */
function keptBy(code: Code, node: ts.Node, traced: Traced): { value: ts.Expression; place: ts.Expression } | undefined {
  const { ts } = code;
  if (code.isAssignment(node) && /^(=|\?\?=|\|\|=)$/.test(node.operatorToken.getText(code.file))) {
    const place = code.bare(node.left);
    if (ts.isPropertyAccessExpression(place) && place.name.text === 'grad') return undefined; // gradients survive a step
    const isKept = isOutside(code, place, traced) && isMade(code, node.right, traced);
    return isKept ? { value: node.right, place } : undefined;
  }
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return undefined;
  const { expression: place, name } = node.expression;
  if (!KEEPS.test(name.text) || !isCollection(code, place) || !isOutside(code, place, traced)) return undefined;
  const value = node.arguments.find((a) => isMade(code, a, traced));
  return value && { value, place };
}

const isCollection = (code: Code, node: ts.Expression): boolean => {
  const type = code.typeOf(node);
  return code.checker.isArrayType(type) || /^(Weak)?(Map|Set)$/.test(type.getSymbol()?.name ?? '');
};

/** Whether a variable, or the object of a property, existed before the function was called. */
function isOutside(code: Code, place: ts.Expression, { fn }: Traced): boolean {
  const { ts } = code;
  let root = code.bare(place);
  while (ts.isPropertyAccessExpression(root) || ts.isElementAccessExpression(root)) root = code.bare(root.expression);
  // A method may keep a tensor in a field for the rest of the step (its loss); in a list of the object, they would pile up.
  if (root.kind === ts.SyntaxKind.ThisKeyword)
    return ts.isArrowFunction(fn) || (ts.isMethodDeclaration(fn) && isCollection(code, place));
  const declaration = ts.isIdentifier(root) && code.symbolOf(root)?.valueDeclaration;
  return Boolean(declaration && !code.contains(fn, declaration));
}

/** Whether an expression is a tensor made by the function, not an outside one used by name. */
function isMade(code: Code, value: ts.Expression, { fn }: Traced): boolean {
  const { ts } = code;
  const bare = code.bare(value);
  if (ts.isArrayLiteralExpression(bare)) return bare.elements.some((e) => isMade(code, e, { fn } as Traced));
  if (!code.isTensor(bare) || code.isInstance(code.typeOf(bare), 'Parameter')) return false;
  if (!ts.isIdentifier(bare)) return ts.isCallExpression(bare);
  const declaration = code.symbolOf(bare)?.valueDeclaration;
  return declaration !== undefined && code.contains(fn, declaration);
}
