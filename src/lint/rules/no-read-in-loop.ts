import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Rule } from '../rule.js';

/** Loops with at most this many iterations are not reported. */
const FEW = 100;

export const noReadInLoop: Rule = {
  name: 'no-read-in-loop',
  description:
    'A read in every pass of a training loop, or of a loop over tensors: the host waits for the device each time.',
  *check(code) {
    if (/\.(test|spec)\.[cm]?[jt]sx?$/.test(code.file.fileName)) return; // tests read the values they check
    for (const node of code.nodes) {
      const { call, tensor } = code.read(node) ?? {};
      const loop = call && isAwaited(code, call) ? everyPass(code, call) : undefined;
      if (!call || !loop || passes(code, loop) <= FEW || isReported(code, call)) continue;
      if (tensor && isOverTensors(code, loop, tensor))
        yield {
          node: call,
          message: `${code.text(call)} computes and waits for one tensor in each pass: read them together, await tx.read(tensors)`,
        };
      else if (trains(code, loop))
        yield {
          node: call,
          message: `${code.text(call)} makes each step wait for its result: read every Nth step, if (step % 50 === 0), or use tx.afterStep(fn, loss)`,
        };
    }
  },
};

/** `await x.item()`, `await Promise.all([x.item(), y.item()])`. */
function isAwaited(code: Code, read: ts.Expression): boolean {
  const { ts } = code;
  const { parent } = code.wrapped(read);
  if (ts.isAwaitExpression(parent)) return true;
  const call = ts.isArrayLiteralExpression(parent) ? parent.parent : undefined;
  const isAll = call && ts.isCallExpression(call) && call.expression.getText(code.file) === 'Promise.all';
  return Boolean(isAll) && ts.isAwaitExpression(code.wrapped(call as ts.CallExpression).parent);
}
/** The loop that reaches a node in every iteration: no condition, function or early exit is in between. */
function everyPass(code: Code, node: ts.Node): ts.IterationStatement | undefined {
  const { ts } = code;
  for (let at = node; at.parent; at = at.parent) {
    const { parent } = at;
    if (code.isLoop(parent)) return parent.statement === at ? parent : undefined;
    if (ts.isFunctionLike(parent) || ts.isTryStatement(parent) || ts.isCaseClause(parent)) return undefined;
    if (
      (ts.isIfStatement(parent) || ts.isConditionalExpression(parent)) &&
      (ts.isIfStatement(parent) ? parent.expression : parent.condition) !== at
    )
      return undefined;
    if (
      ts.isBinaryExpression(parent) &&
      parent.right === at &&
      /^(&&|\|\||\?\?)/.test(parent.operatorToken.getText(code.file))
    )
      return undefined;
    if (ts.isBlock(parent) && parent.statements.some((s) => s.pos < at.pos && isExit(code, s))) return undefined;
  }
  return undefined;
}
/** `if (step % 50) continue`, before it. */
function isExit(code: Code, node: ts.Statement): boolean {
  const { ts } = code;
  if (!ts.isIfStatement(node)) return false;
  const last = ts.isBlock(node.thenStatement) ? node.thenStatement.statements.at(-1) : node.thenStatement;
  return (
    last !== undefined && (ts.isContinueStatement(last) || ts.isBreakStatement(last) || ts.isReturnStatement(last))
  );
}

/** `await train.report({ loss: await loss.item() })`: the trainer expects a report, with values, in every iteration. */
function isReported(code: Code, read: ts.Node): boolean {
  const outer = code.around(read, code.ts.isCallExpression);
  return outer !== undefined && (/\breport$/.test(outer.expression.getText(code.file)) || isReported(code, outer));
}

/** The number of iterations of a loop, if it can be determined. */
function passes(code: Code, loop: ts.IterationStatement): number {
  const { ts } = code;
  if (ts.isForOfStatement(loop)) {
    const list = code.constantOf(loop.expression);
    return list && ts.isArrayLiteralExpression(list) ? list.elements.length : Number.POSITIVE_INFINITY;
  }
  const condition = ts.isForStatement(loop) ? loop.condition : undefined;
  if (!condition || !ts.isBinaryExpression(condition)) return Number.POSITIVE_INFINITY;
  const end = code.numberOf(condition.right);
  if (end === undefined) return Number.POSITIVE_INFINITY;
  const start = startOf(code, loop as ts.ForStatement, condition.left);
  if (start !== undefined) return Math.abs(end - start);
  return condition.operatorToken.getText(code.file).startsWith('>') ? Number.POSITIVE_INFINITY : end;
}
/** The initial value of a counter. */
function startOf(code: Code, { initializer }: ts.ForStatement, counter: ts.Expression): number | undefined {
  if (!initializer || !code.ts.isVariableDeclarationList(initializer)) return undefined;
  const name = counter.getText(code.file);
  const declared = initializer.declarations.find((d) => d.name.getText(code.file) === name);
  return declared && code.numberOf(declared.initializer);
}

/** `for (const p of parameters) await p.grad.data()`: reads a value computed from each. Reading existing values is fast. */
function isOverTensors(code: Code, loop: ts.IterationStatement, tensor: ts.Expression): boolean {
  const { ts } = code;
  if (!ts.isForOfStatement(loop) || !ts.isVariableDeclarationList(loop.initializer)) return false;
  let root = code.bare(tensor);
  if (ts.isIdentifier(root)) return false;
  while (ts.isPropertyAccessExpression(root) || ts.isCallExpression(root)) root = code.bare(root.expression);
  const declaration = ts.isIdentifier(root) && code.symbolOf(root)?.valueDeclaration;
  return Boolean(declaration && code.contains(loop.initializer, declaration) && code.isTensor(root as ts.Identifier));
}

/** Whether its iterations are training steps: a backward, an optimizer's step, or a call of a function of this file with one. */
function trains(code: Code, loop: ts.IterationStatement): boolean {
  const calls = [...code.inside(loop.statement)].filter(
    (node) => code.ts.isCallExpression(node) && code.around(node, code.isLoop) === loop,
  ) as ts.CallExpression[];
  return calls.some((call) => isTraining(code, call) || bodyOf(code, call.expression).some((n) => isTraining(code, n)));
}
function isTraining(code: Code, node: ts.Node): boolean {
  const { ts } = code;
  if (!ts.isCallExpression(node)) return false;
  const called = node.expression;
  if (code.nameOf(called) === 'step' || code.method(node)?.name === 'backward') return true;
  if (!ts.isPropertyAccessExpression(called) || called.name.text !== 'step') return false;
  return code.isInstance(code.typeOf(called.expression), 'Optimizer');
}
/** The nodes of a function of this file, compiled or not. */
function bodyOf(code: Code, called: ts.Expression): readonly ts.Node[] {
  const value = code.ts.isIdentifier(called) ? code.constantOf(called) : undefined;
  const fn = code.traced.find((t) => t.by === 'compile' && t.call === value)?.fn ?? code.called(called);
  return fn ? [...code.inside(fn)] : [];
}
