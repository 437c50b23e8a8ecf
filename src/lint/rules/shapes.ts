import type ts from 'typescript';
import type { Code } from '../code.js';
import type { Rule } from '../rule.js';

type Shape = readonly number[];
const show = (s: Shape): string => `[${s.join(', ')}]`;

export const shapes: Rule = {
  name: 'shapes',
  description:
    'Shapes written in the code that do not fit: inner sizes of matmul and Linear, prediction and target of a loss.',
  *check(code) {
    const { ts } = code;
    const at = new Shapes(code);
    for (const node of code.nodes) {
      if (!ts.isCallExpression(node)) continue;
      const message = product(at, node) ?? loss(at, node) ?? linear(at, node);
      if (message) yield { node, message };
    }
  },
};

function product(at: Shapes, node: ts.CallExpression): string | undefined {
  const operation = PRODUCTS.test(written(at.code, node)) ? at.code.operation(node) : undefined;
  if (!operation || !PRODUCTS.test(operation.name)) return undefined;
  const [a, b] = operation.args.map((x) => at.of(x));
  if (!a?.length || !b?.length) return undefined;
  const [inner, other] = [a.at(-1)!, b.at(-2) ?? b[0]!];
  if (inner === other) return undefined;
  const turned = b.length > 1 && inner === b.at(-1) ? `: did you mean ${at.code.text(operation.args[1]!)}.mT?` : '';
  return `${operation.name}: ${show(a)} x ${show(b)}: inner sizes ${inner} and ${other} differ${turned}`;
}
const PRODUCTS = /^(matmul|mm|bmm|mv|dot)$/;

function loss(at: Shapes, node: ts.CallExpression): string | undefined {
  const operation = LOSSES.test(written(at.code, node)) ? at.code.operation(node) : undefined;
  if (!operation || !LOSSES.test(operation.name)) return undefined;
  const [a, b] = operation.args.map((x) => at.of(x));
  if (!a || !b || String(a) === String(b)) return undefined;
  return `${operation.name}: ${show(a)} and ${show(b)} differ, and are broadcast to each other: give both the same shape (squeeze, reshape)`;
}
const LOSSES = /^(mseLoss|l1Loss|smoothL1Loss|huberLoss|binaryCrossEntropy(WithLogits)?)$/;

/** `lin.forward(x)` of `const lin = new nn.Linear(4, 2)`. */
function linear(at: Shapes, { expression, arguments: [x] }: ts.CallExpression): string | undefined {
  const { code } = at;
  const { ts } = code;
  if (!x || !ts.isPropertyAccessExpression(expression) || expression.name.text !== 'forward') return undefined;
  const made = code.constantOf(expression.expression);
  if (!made || !ts.isNewExpression(made) || code.nameOf(made.expression) !== 'Linear') return undefined;
  const features = code.numberOf(made.arguments?.[0]);
  const shape = at.of(x);
  if (features === undefined || !shape?.length || shape.at(-1) === features) return undefined;
  return `Linear(${features}, ...) gets ${show(shape)}: the last size must be ${features}`;
}

const written = (code: Code, { expression }: ts.CallExpression): string =>
  code.ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText(code.file);

/** The shapes of expressions that are written in the code. */
class Shapes {
  readonly #known = new Map<ts.Node, Shape | undefined>();
  constructor(readonly code: Code) {}

  of(node: ts.Expression): Shape | undefined {
    const value = this.code.constantOf(node);
    if (!value) return undefined;
    if (!this.#known.has(value)) {
      this.#known.set(value, undefined); // while it is being found
      this.#known.set(value, this.#made(value));
    }
    return this.#known.get(value);
  }

  #made(value: ts.Expression): Shape | undefined {
    const { code } = this;
    const { ts } = code;
    if (
      ts.isPropertyAccessExpression(value) &&
      /^(T|H|mT|mH)$/.test(value.name.text) &&
      code.isTensor(value.expression)
    )
      return this.#turned(value.expression);
    const operation = ts.isCallExpression(value) ? code.operation(value) : undefined;
    if (!operation) return undefined;
    const { name, args } = operation;
    if (/^(zeros|ones|empty|rand|randn|full)$/.test(name)) return this.#list(args[0]);
    if (name === 'eye') return this.#all([args[0], args[1] ?? args[0]]);
    if (name === 'tensor' && args[0]) return args[1] ? this.#tensor(args[0], args[1]) : this.#nested(args[0]);
    if (name === 'randint') return this.#list(args[2]);
    if (/^(reshape|view)$/.test(name)) return this.#list(args[1], true);
    if (/^(t|adjoint)$/.test(name)) return this.#turned(args[0]!);
    if (/^(relu|sigmoid|tanh|exp|neg|abs|detach|clone|to|requiresGrad_)$/.test(name)) return this.of(args[0]!);
    if (name !== 'matmul' || args.length < 2) return undefined;
    const [a, b] = [this.of(args[0]!), this.of(args[1]!)];
    return a?.length === 2 && b?.length === 2 && a[1] === b[0] ? [a[0]!, b[1]!] : undefined;
  }

  #turned(of: ts.Expression): Shape | undefined {
    const shape = this.of(of);
    return shape && shape.length > 1 ? [...shape.slice(0, -2), shape.at(-1)!, shape.at(-2)!] : shape;
  }
  #all(sizes: readonly (ts.Expression | undefined)[]): Shape | undefined {
    const numbers = sizes.flatMap((e) => this.code.numberOf(e) ?? []);
    return numbers.length === sizes.length ? numbers : undefined;
  }
  /** The shape `[2, 3]`; unknown if a size is -1. */
  #list(node: ts.Expression | undefined, mayBeNegative = false): Shape | undefined {
    const { ts } = this.code;
    const list = node && this.code.constantOf(node);
    if (!list || !ts.isArrayLiteralExpression(list)) return undefined;
    const sizes = this.#all(list.elements);
    return mayBeNegative && sizes?.some((n) => n < 0) ? undefined : sizes;
  }
  /** The shape of `tensor([1, 2, 3, 4], { shape: [2, 2] })`; unknown options may contain a shape. */
  #tensor(values: ts.Expression, given: ts.Expression): Shape | undefined {
    const { ts } = this.code;
    const options = this.code.constantOf(given);
    if (!options || !ts.isObjectLiteralExpression(options)) return undefined;
    if (options.properties.some((p) => ts.isSpreadAssignment(p))) return undefined;
    const shape = options.properties.find((p) => p.name?.getText(this.code.file) === 'shape');
    if (!shape) return this.#nested(values);
    return ts.isPropertyAssignment(shape) ? this.#list(shape.initializer) : undefined;
  }
  /** The shape of `[[1, 2], [3, 4]]`, by its first elements. */
  #nested(node: ts.Expression): Shape | undefined {
    const { ts } = this.code;
    const value = this.code.constantOf(node);
    if (!value) return undefined;
    if (this.code.numberOf(value) !== undefined) return [];
    if (!ts.isArrayLiteralExpression(value) || value.elements.some((e) => ts.isSpreadElement(e))) return undefined;
    const [first] = value.elements;
    const inner = first ? this.#nested(first) : [];
    return inner && [value.elements.length, ...inner];
  }
}
