import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Finding, Rule } from '../rule.js';

export const noParameterAssign: Rule = {
  name: 'no-parameter-assign',
  description: 'A parameter or buffer of a module replaced by a plain tensor, or a method of a tensor overwritten.',
  suggests: true,
  *check(code) {
    const { ts, checker } = code;
    for (const node of code.nodes) {
      if (ts.isPropertyDeclaration(node) && node.type && node.initializer) {
        if (code.isInstance(checker.getTypeAtLocation(node.parent), 'Module'))
          yield* replaced(code, node.name, code.typeOf(node.type), node.initializer);
        continue;
      }
      if (!code.isAssignment(node) || !ts.isPropertyAccessExpression(node.left)) continue;
      const { expression: object, name } = node.left;
      const owner = checker.getNonNullableType(code.typeOf(object));
      const member = checker.getPropertyOfType(owner, name.text);
      const type = member && checker.getTypeOfSymbol(member);
      if (!type) continue;
      if (code.isInstance(owner, 'Module')) yield* replaced(code, node.left, type, node.right);
      else if (code.isInstance(owner, 'Tensor') && type.getCallSignatures().length) {
        const tensor = code.text(object);
        yield {
          node: node.left,
          message: `${name.text} is a method of ${tensor}: this hides it and changes no value. Write tx.noGrad(() => ${tensor}.copy_(${code.text(node.right)}))`,
        };
      }
    }
  },
};

/** A plain tensor in place of a parameter. Types allow it, since a Parameter has the members of a Tensor. */
function* replaced(code: Code, place: ts.Node, type: ts.Type, value: ts.Expression): Generator<Finding> {
  const [declared, given] = [type, code.typeOf(value)].map((t) => code.checker.getNonNullableType(t)) as [
    ts.Type,
    ts.Type,
  ];
  const kind = (['Parameter', 'Buffer'] as const).find((k) => code.isInstance(declared, k));
  if (!kind || !code.isInstance(given, 'Tensor') || code.isInstance(given, kind)) return;
  const [left, right] = [code.text(place), code.text(value)];
  const edits = [{ start: code.start(value), end: value.end, text: `new nn.${kind}(${value.getText(code.file)})` }];
  yield {
    node: place,
    message: `${left} is a ${kind.toLowerCase()}, and ${right} a plain tensor: the module would lose it. Change its values, tx.noGrad(() => ${left}.copy_(...)), or assign new nn.${kind}(...)`,
    suggestion: { title: `Wrap it: new nn.${kind}(...)`, edits },
  };
}
