import type ts from 'typescript';
import type { Code, Traced } from '../code.js';
import type { Rule } from '../rule.js';

export const noStaleCapture: Rule = {
  name: 'no-stale-capture',
  description:
    'A variable that a compiled function uses and that changes later: the program keeps the value it was traced with.',
  *check(code) {
    const { ts } = code;
    for (const traced of code.described) {
      if (traced.by !== 'compile') continue;
      const reported = new Set<ts.Symbol>();
      for (const node of code.body(traced)) {
        if (!ts.isIdentifier(node)) continue;
        const symbol = code.symbolOf(node);
        if (!symbol || reported.has(symbol) || !isOuter(code, symbol, traced) || !isValue(code, node)) continue;
        const writes = code.writes(symbol);
        const isTensor = code.isInstance(code.checker.getNonNullableType(code.typeOf(node)), 'Tensor');
        const isCounted = !isTensor && writes.some((w) => code.contains(traced.fn, w));
        const later =
          isCounted || code.isWritten(node) || isOfModule(code, symbol)
            ? undefined
            : writes.find((w) => isLater(code, w, symbol, traced));
        if (!isCounted && !later) continue;
        reported.add(symbol);
        const message = isCounted
          ? `${node.text} is changed in this compiled function, which happens when it is traced, not at each call`
          : `${node.text} gets another value in line ${lineOf(code, later!)}, but this compiled function keeps the one it was traced with`;
        const isNumber = code.isAll(code.typeOf(node), ts.TypeFlags.NumberLike);
        const way = isTensor
          ? `, or change the tensor in place: ${node.text}.copy_(...)`
          : isNumber
            ? ', or keep it in a tensor and change that: t.copy_(...)'
            : '';
        yield { node, message: `${message}: pass it as an argument${way}` };
      }
    }
  },
};

/** Whether it is a field of a module: if one changes, the next call traces again. */
function isOfModule(code: Code, { valueDeclaration }: ts.Symbol): boolean {
  const { ts } = code;
  const home = valueDeclaration && code.around(valueDeclaration, ts.isClassLike);
  const isField =
    home !== undefined &&
    (valueDeclaration?.parent === home ||
      (ts.isParameter(valueDeclaration!) &&
        ts.isParameterPropertyDeclaration(valueDeclaration, valueDeclaration.parent)));
  return isField && code.isInstance(code.typeOf(home), 'Module');
}

const lineOf = (code: Code, node: ts.Node): number =>
  code.file.getLineAndCharacterOfPosition(code.start(node)).line + 1;

/** Whether a name is used for its value: not in `traces++;`, which only counts. */
function isValue(code: Code, name: ts.Identifier): boolean {
  if (!code.isWritten(name)) return true;
  const { ts } = code;
  const { parent } = ts.isPropertyAccessExpression(name.parent) ? name.parent : name;
  return ts.isExpression(parent) && !ts.isExpressionStatement(code.wrapped(parent).parent);
}

/** Whether it is a `let` outside of the function, or a field of an object there: not a constant, an import or part of tsxla. */
function isOuter(code: Code, symbol: ts.Symbol, { fn }: Traced): boolean {
  const { ts } = code;
  const declaration = symbol.valueDeclaration;
  if (!declaration || declaration.getSourceFile() !== code.file || code.contains(fn, declaration)) return false;
  if (ts.isVariableDeclaration(declaration) || ts.isBindingElement(declaration) || ts.isParameter(declaration))
    return true;
  const isField =
    ts.isPropertyDeclaration(declaration) ||
    ts.isPropertyAssignment(declaration) ||
    ts.isPropertySignature(declaration);
  const { NumberLike, BooleanLike, StringLike } = ts.TypeFlags;
  return isField && code.isAll(code.checker.getTypeOfSymbol(symbol), NumberLike | BooleanLike | StringLike);
}

/** Whether a write may happen after the function was compiled: below it, or in a function that may be called later. */
function isLater(code: Code, write: ts.Identifier, symbol: ts.Symbol, { fn, call }: Traced): boolean {
  const { ts } = code;
  if (code.contains(fn, write)) return false;
  const outer = code.around(write, code.isFunction);
  if (outer && ts.isConstructorDeclaration(outer)) return false;
  // A loop that compiles in each iteration has a new function, with the values of that iteration.
  const loop = code.around(call, code.isLoop);
  if (loop && code.contains(loop, write) && code.around(call, code.isFunction) === outer) return false;
  if (write.pos > call.end) return true;
  // Above it: in a function that can be called any time, if there is one compiled function for one variable.
  const { valueDeclaration: declaration } = symbol;
  const isDeclared = outer && !ts.isCallExpression(code.wrapped(outer as ts.Expression).parent);
  if (!isDeclared || !declaration || code.contains(outer, call) || code.contains(outer, declaration)) return false;
  const home = ts.isPropertyDeclaration(declaration) ? undefined : code.around(declaration, code.isFunction);
  return home === code.around(call, code.isFunction);
}
