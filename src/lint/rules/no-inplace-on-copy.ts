import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Rule } from '../rule.js';

/** Methods that return views in torch, but copies here. */
const COPIES =
  /^(index|select|narrow|slice|view|viewAs|reshape|reshapeAs|flatten|unflatten|ravel|transpose|swapaxes|swapdims|t|T|H|mT|mH|adjoint|permute|movedim|moveaxis|squeeze|unsqueeze|expand|expandAs|diagonal|detach|unbind|chunk|split|tensorSplit|unfold)$/;

export const noInplaceOnCopy: Rule = {
  name: 'no-inplace-on-copy',
  description:
    'The result of index, select, narrow, view, ... changed in place: it is a copy here, so the change is lost.',
  *check(code) {
    const { ts } = code;
    for (const node of code.nodes) {
      if (code.isAssignment(node) && ts.isElementAccessExpression(node.left) && code.isTensor(node.left.expression)) {
        const [name, at] = [code.text(node.left.expression), code.text(node.left.argumentExpression)];
        yield {
          node: node.left,
          message: `this sets a property of an object, not elements of ${name}: write ${name}.indexPut_([tx.tensor(${at})], value)`,
        };
        continue;
      }
      // Only if the result of the change is dropped: `const y = x.view([4]).add_(1)` uses the copy.
      const method = code.method(node);
      if (!method?.name.endsWith('_') || method.name === 'requiresGrad_' || !code.isDropped(method.call)) continue;
      const from = copyOf(code, method.tensor);
      if (from)
        yield {
          node,
          message: `${from.name} gives a copy here, not a view as in torch: ${method.name} leaves ${code.text(from.of)} unchanged. Use indexPut_, maskedFill_ or copy_ on ${code.text(from.of)}, or keep the result`,
        };
    }
  },
};

interface Copy {
  readonly name: string;
  readonly of: ts.Expression;
}

/** The call that made a tensor, if it is a copy that nothing else refers to. */
function copyOf(code: Code, tensor: ts.Expression): Copy | undefined {
  const { ts } = code;
  const bare = code.bare(tensor);
  const made = ts.isIdentifier(bare) ? onlyChanged(code, bare) : bare;
  if (!made) return undefined;
  const of = ts.isElementAccessExpression(made) ? code.bare(made.expression) : made; // x.unbind()[0]
  if (ts.isPropertyAccessExpression(of) && COPIES.test(of.name.text) && code.isTensor(of.expression))
    return { name: of.name.text, of: of.expression };
  const method = ts.isCallExpression(of) ? code.method(of) : undefined;
  return method && COPIES.test(method.name) ? { name: `${method.name}()`, of: method.tensor } : undefined;
}

/** The value of a variable that is only ever changed in place: `const row = x.select(0, 1); row.fill_(0);`. */
function onlyChanged(code: Code, name: ts.Identifier): ts.Expression | undefined {
  const { ts } = code;
  const value = code.constantOf(name);
  const symbol = code.symbolOf(name);
  const uses = symbol ? code.uses(symbol).filter((use) => !ts.isVariableDeclaration(use.parent)) : [];
  const isChange = (use: ts.Identifier) => {
    const call = ts.isPropertyAccessExpression(use.parent) && use.parent.parent;
    return call && ts.isCallExpression(call) && code.isDropped(call) && code.method(call)?.name.endsWith('_');
  };
  return value !== name && uses.every(isChange) ? value : undefined;
}
