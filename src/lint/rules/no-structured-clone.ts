import type { Rule } from '../rule.js';

export const noStructuredClone: Rule = {
  name: 'no-structured-clone',
  description: 'structuredClone or JSON of a tensor, a module or an optimizer: the result is not one.',
  *check(code) {
    const { ts } = code;
    for (const node of code.nodes) {
      if (!ts.isCallExpression(node)) continue;
      const [value] = node.arguments;
      const called = node.expression.getText(code.file);
      if (!value || (called !== 'structuredClone' && called !== 'JSON.stringify')) continue;
      const type = code.typeOf(value);
      const kind = (['Tensor', 'Module', 'Optimizer'] as const).find((k) => code.isInstance(type, k));
      if (!kind) continue;
      const way = {
        Tensor: called === 'structuredClone' ? 'use clone()' : 'read it first: await x.tolist()',
        Module: called === 'structuredClone' ? 'use clone()' : 'save its stateDict()',
        Optimizer: 'save its stateDict()',
      }[kind];
      yield {
        node,
        message: `${called} does not copy the ${kind.toLowerCase()} ${code.text(value)}: its values are not in the object's fields: ${way}`,
      };
    }
  },
};
