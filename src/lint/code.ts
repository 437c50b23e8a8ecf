// Queries of the rules about one file: which expressions are tensors, which functions are traced, where a variable is written.
import { fileURLToPath } from 'node:url';
import type ts from 'typescript';

/** The TypeScript module of the version that made the program: the user's (ESLint's parser), or ours. */
export type TypeScript = typeof ts;

/** How functions of tsxla call their function arguments. */
const TRACED = {
  /** Compiled to a program: traced once and called many times. */
  compile: 'program',
  /** Compiled to a program, and called each time. */
  step: 'step',
  /** Called once, as part of a program that may run many times. */
  cond: 'body',
  whileLoop: 'body',
  foriLoop: 'body',
  scan: 'body',
  accumulate: 'body',
  checkpoint: 'body',
  /** Called once, immediately. */
  noGrad: 'now',
  enableGrad: 'now',
  autocast: 'now',
  grad: 'now',
  valueAndGrad: 'now',
  customVjp: 'now',
  inferenceMode: 'now',
  gradAndValue: 'now',
  vmap: 'now',
  vjp: 'now',
  jvp: 'now',
  linearize: 'now',
  jacrev: 'now',
  jacfwd: 'now',
  hessian: 'now',
} as const;

export interface Traced {
  /** The function of tsxla that it was passed to. */
  readonly by: keyof typeof TRACED;
  readonly how: (typeof TRACED)[keyof typeof TRACED];
  readonly call: ts.CallExpression;
  /** The argument: the function itself, or its name. */
  readonly argument: ts.Expression;
  readonly fn: ts.FunctionLikeDeclaration;
}

const READS = ['item', 'data', 'tolist', 'print'];

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url)).replaceAll('\\', '/');
/** Whether a file has declarations of tsxla: of the installed package, or of this repository. */
const isOurs = (file: string): boolean =>
  file.includes('/node_modules/tsxla/') || file.startsWith(`${PACKAGE}dist/`) || file.startsWith(`${PACKAGE}src/`);

export class Code {
  readonly checker: ts.TypeChecker;
  /** All nodes in the order of the text, without code that is expected to fail. */
  readonly nodes: readonly ts.Node[];
  readonly #strict: boolean;
  readonly #sureOfElements: boolean;
  #traced: readonly Traced[] | undefined;
  #described: readonly Traced[] | undefined;
  #uses: ReadonlyMap<ts.Symbol, readonly ts.Identifier[]> | undefined;

  private static readonly known = new WeakMap<ts.SourceFile, Code>();
  /** The Code of a file, shared by the rules, but not with an editor's next program, where other files may have changed. */
  static of(ts: TypeScript, program: ts.Program, file: ts.SourceFile): Code {
    const known = Code.known.get(file);
    if (known?.program === program) return known;
    const code = new Code(ts, program, file);
    Code.known.set(file, code);
    return code;
  }

  private constructor(
    readonly ts: TypeScript,
    readonly program: ts.Program,
    readonly file: ts.SourceFile,
  ) {
    this.checker = program.getTypeChecker();
    const { strict, strictNullChecks, noUncheckedIndexedAccess } = program.getCompilerOptions();
    this.#strict = strictNullChecks ?? strict ?? Number.parseInt(ts.versionMajorMinor, 10) >= 6; // its default
    this.#sureOfElements = noUncheckedIndexedAccess ?? false;
    const nodes: ts.Node[] = [];
    const expected = expectedErrors(file);
    const visit = (node: ts.Node): void => {
      if (this.#isMeantToFail(node) || expected.has(file.getLineAndCharacterOfPosition(node.getStart(file)).line))
        return;
      nodes.push(node);
      ts.forEachChild(node, visit);
    };
    ts.forEachChild(file, visit);
    this.nodes = nodes;
  }

  /** Wrong on purpose: `expect(() => ...).toThrow()`, `expect(...).rejects`, `assert.throws(() => ...)`, `... as never`. */
  #isMeantToFail(node: ts.Node): boolean {
    const { ts } = this;
    const call = node.parent;
    if (ts.isAsExpression(node)) return node.type.kind === ts.SyntaxKind.NeverKeyword;
    if (!call || !ts.isCallExpression(call) || call.expression === node) return false;
    const { expression } = call;
    if (ts.isPropertyAccessExpression(expression)) return /^(throws|rejects)$/.test(expression.name.text);
    if (!ts.isIdentifier(expression) || expression.text !== 'expect') return false;
    for (let at: ts.Node = call.parent; ts.isPropertyAccessExpression(at); at = at.parent)
      if (/^(rejects|toThrow)/.test(at.name.text)) return true;
    return false;
  }

  /** A node and its descendants, as far as they are in `nodes`. */
  *inside(root: ts.Node): Generator<ts.Node> {
    const { pos, end } = root;
    let [low, high] = [0, this.nodes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.nodes[middle]!.pos < pos) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < this.nodes.length && this.nodes[i]!.pos < end; i++)
      if (this.nodes[i]!.end <= end) yield this.nodes[i]!;
  }

  contains = (outer: ts.Node, inner: ts.Node): boolean => outer.pos <= inner.pos && inner.end <= outer.end;

  /** The nearest enclosing node of a kind. */
  around<T extends ts.Node>(node: ts.Node, is: (node: ts.Node) => node is T): T | undefined {
    for (let at = node.parent; at; at = at.parent) if (is(at)) return at;
    return undefined;
  }
  isLoop = (node: ts.Node): node is ts.IterationStatement => this.ts.isIterationStatement(node, false);
  isFunction = (node: ts.Node): node is ts.FunctionLikeDeclaration =>
    this.ts.isFunctionLike(node) && 'body' in node && node.body !== undefined;

  /** Without parentheses, `!`, `as` and `satisfies` around it. */
  bare(node: ts.Expression): ts.Expression {
    const { ts } = this;
    const isAround =
      ts.isParenthesizedExpression(node) ||
      ts.isNonNullExpression(node) ||
      ts.isAsExpression(node) ||
      ts.isSatisfiesExpression(node) ||
      ts.isTypeAssertionExpression(node);
    return isAround ? this.bare(node.expression) : node;
  }
  /** The outermost of these wrappers around it. */
  wrapped(node: ts.Expression): ts.Expression {
    let at = node;
    while (at.parent && this.ts.isExpression(at.parent) && this.bare(at.parent) === this.bare(at)) at = at.parent;
    return at;
  }

  text = (node: ts.Node): string => {
    const text = node.getText(this.file).replace(/\s+/g, ' ');
    return text.length > 40 ? `${text.slice(0, 37)}...` : text;
  };
  start = (node: ts.Node): number => node.getStart(this.file);

  /** Whether the value of an expression is unused: `x.fill_(0);`, `noGrad(() => x.fill_(0));`, `list.forEach((x) => x.fill_(0));`. */
  isDropped(node: ts.Expression): boolean {
    const { ts } = this;
    const { parent } = this.wrapped(node);
    if (ts.isExpressionStatement(parent)) return true;
    if (!ts.isArrowFunction(parent)) return false;
    const call = parent.parent;
    if (!ts.isCallExpression(call) || !call.arguments.includes(parent)) return false;
    const { expression } = call;
    if (ts.isPropertyAccessExpression(expression) && expression.name.text === 'forEach') return true;
    return this.traced.some((t) => t.fn === parent && t.how === 'now') && this.isDropped(call);
  }

  // ---- types

  typeOf = (node: ts.Node): ts.Type => this.checker.getTypeAtLocation(node);
  /** The members of a union, or the type itself. */
  parts = (type: ts.Type): readonly ts.Type[] => (type.isUnion() ? type.types.flatMap(this.parts) : [type]);
  isAll = (type: ts.Type, flags: ts.TypeFlags): boolean => this.parts(type).every((t) => t.flags & flags);

  /** Whether every value of the type is an object of this class of tsxla (or of one that extends it). */
  isInstance(type: ts.Type, name: string): boolean {
    return this.parts(type).every((part) => this.#isClass(part, name));
  }
  #isClass(type: ts.Type, name: string): boolean {
    const { ts } = this;
    if (type.flags & ts.TypeFlags.TypeParameter) {
      const base = this.checker.getBaseConstraintOfType(type);
      return base !== undefined && base !== type && this.isInstance(base, name);
    }
    if (type.isIntersection()) return type.types.some((t) => this.#isClass(t, name));
    const symbol = type.getSymbol();
    if (!symbol || !(symbol.flags & ts.SymbolFlags.Class)) return false;
    if (symbol.name === name && this.#declaredByUs(symbol)) return true;
    const { target } = type as ts.TypeReference; // of ModuleList<Layer>: only the class itself knows its bases
    return ((target ?? type).getBaseTypes?.() ?? []).some((base) => this.#isClass(base, name));
  }
  #declaredByUs = (symbol: ts.Symbol): boolean =>
    symbol.declarations?.some((d) => isOurs(d.getSourceFile().fileName)) ?? false;

  /** Whether an expression is always a tensor, by its type. */
  isTensor = (node: ts.Expression): boolean => this.isInstance(this.typeOf(node), 'Tensor');
  /** The same for conditions, which may test for undefined: unknown without strict types, and for elements of lists. */
  isSurelyTensor(node: ts.Expression): boolean {
    const bare = this.bare(node);
    if (!this.#strict && !this.ts.isCallExpression(bare)) return false;
    return this.isTensor(node) && !this.#isElement(bare);
  }
  /** An element of a list, or an argument from one: it may be undefined, although its type does not include that. */
  #isElement(node: ts.Expression): boolean {
    const { ts } = this;
    if (ts.isElementAccessExpression(node)) return !this.#sureOfElements;
    const declaration = ts.isIdentifier(node) && this.symbolOf(node)?.valueDeclaration;
    if (!declaration) return false;
    if (ts.isBindingElement(declaration)) return !this.#sureOfElements && ts.isArrayBindingPattern(declaration.parent);
    if (!ts.isParameter(declaration) || declaration.type || !ts.isExpression(declaration.parent)) return false;
    const given = this.checker.getContextualType(declaration.parent as ts.Expression)?.getCallSignatures()[0];
    const last = given?.declaration?.parameters.at(-1);
    const index = declaration.parent.parameters.indexOf(declaration);
    return (
      last !== undefined &&
      ts.isParameter(last) &&
      Boolean(last.dotDotDotToken) &&
      index >= given!.parameters.length - 1
    );
  }

  // ---- calls

  /** The tsxla export that is called or constructed: compile in `tx.compile(fn)`, Linear in `new nn.Linear(2, 3)`. */
  nameOf(called: ts.Expression): string | undefined {
    const { ts, checker } = this;
    const name = ts.isPropertyAccessExpression(called) ? called.name : called;
    if (!ts.isIdentifier(name)) return undefined;
    let symbol = checker.getSymbolAtLocation(name);
    const declaration = symbol?.valueDeclaration;
    if (declaration && ts.isBindingElement(declaration) && ts.isObjectBindingPattern(declaration.parent)) {
      const from = (declaration.propertyName ?? declaration.name).getText(); // const { compile } = tx
      symbol = checker.getTypeAtLocation(declaration.parent).getProperty(from);
    }
    if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
    return symbol && this.#declaredByUs(symbol) && !this.#isMember(symbol) ? symbol.name : undefined;
  }
  #isMember = (symbol: ts.Symbol): boolean =>
    Boolean(symbol.flags & (this.ts.SymbolFlags.Method | this.ts.SymbolFlags.Property));

  /** The tensor and the name of the method called on it. */
  method(
    node: ts.Node,
  ): { readonly tensor: ts.Expression; readonly name: string; readonly call: ts.CallExpression } | undefined {
    const { ts } = this;
    if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return undefined;
    const { expression: tensor, name } = node.expression;
    return this.isInstance(this.checker.getNonNullableType(this.typeOf(tensor)), 'Tensor')
      ? { tensor, name: name.text, call: node }
      : undefined;
  }
  /** A method, or a function of tsxla with a tensor as first argument: `x.matmul(y)`, `tx.matmul(x, y)`. */
  operation(node: ts.Node): { readonly name: string; readonly args: readonly ts.Expression[] } | undefined {
    if (!this.ts.isCallExpression(node)) return undefined;
    const method = this.method(node);
    if (method) return { name: method.name, args: [method.tensor, ...node.arguments] };
    const name = this.nameOf(node.expression);
    return name === undefined ? undefined : { name, args: node.arguments };
  }
  /** A read, `x.item()` or `tx.read(x, y)`, with its tensor if it is a method. */
  read(
    node: ts.Node,
  ): { readonly call: ts.CallExpression; readonly name: string; readonly tensor?: ts.Expression } | undefined {
    const { ts } = this;
    if (!ts.isCallExpression(node)) return undefined;
    const { expression } = node;
    const name = ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText(this.file);
    if (name === 'read') return this.nameOf(expression) === name ? { call: node, name } : undefined;
    return READS.includes(name) ? this.method(node) : undefined;
  }

  /** A function written inline, or defined in this file and passed by name. */
  functionOf(node: ts.Expression): ts.FunctionLikeDeclaration | undefined {
    const { ts } = this;
    const bare = this.bare(node);
    if (this.isFunction(bare)) return bare;
    if (!ts.isIdentifier(bare)) return undefined;
    const declaration = this.checker.getSymbolAtLocation(bare)?.valueDeclaration;
    if (!declaration || declaration.getSourceFile() !== this.file) return undefined;
    if (this.isFunction(declaration)) return declaration;
    const value = ts.isVariableDeclaration(declaration) && declaration.initializer;
    return value && this.isFunction(this.bare(value)) ? (this.bare(value) as ts.ArrowFunction) : undefined;
  }

  /** Every function passed to compile, step, scan, noGrad, ... */
  get traced(): readonly Traced[] {
    this.#traced ??= this.nodes.flatMap((node): Traced[] => {
      if (!this.ts.isCallExpression(node)) return [];
      const { expression } = node;
      const written = this.ts.isPropertyAccessExpression(expression) ? expression.name.text : '';
      if (written && !(written in TRACED)) return []; // avoids asking for its type
      const by = this.nameOf(expression) as keyof typeof TRACED | undefined;
      if (by === undefined || !Object.hasOwn(TRACED, by)) return [];
      return node.arguments.flatMap((argument) => {
        const fn = this.#isMeantToFail(argument) ? undefined : this.functionOf(argument);
        return fn ? [{ by, how: TRACED[by], call: node, argument, fn }] : [];
      });
    });
    return this.#traced;
  }
  /** Functions that run while a program is traced: those passed to compile, step, scan, ..., and those of this file they call. */
  get described(): readonly Traced[] {
    this.#described ??= this.#withCalled(this.traced.filter(({ how }) => how !== 'now'));
    return this.#described;
  }
  #withCalled(given: readonly Traced[]): readonly Traced[] {
    const all = [...given];
    const seen = new Set(all.map((t) => t.fn));
    for (const traced of all)
      for (const node of this.body(traced)) {
        const fn = this.ts.isCallExpression(node) ? this.called(node.expression) : undefined;
        if (!fn || seen.has(fn) || this.contains(traced.fn, fn)) continue;
        seen.add(fn);
        all.push({ ...traced, fn });
      }
    return all;
  }
  /** The function or method of this file that is called. */
  called(expression: ts.Expression): ts.FunctionLikeDeclaration | undefined {
    const { ts } = this;
    if (!ts.isPropertyAccessExpression(expression)) return this.functionOf(expression);
    const declaration = this.checker.getSymbolAtLocation(expression.name)?.valueDeclaration;
    if (!declaration || declaration.getSourceFile() !== this.file || !ts.isMethodDeclaration(declaration))
      return undefined;
    return declaration.body && declaration;
  }

  /** The nodes that run while a function is traced: without functions called after the step. */
  *body({ fn }: Traced): Generator<ts.Node> {
    const later: ts.Node[] = [];
    for (const node of this.inside(fn)) {
      if (later.some((f) => this.contains(f, node))) continue;
      const { parent } = node;
      if (
        parent &&
        this.ts.isCallExpression(parent) &&
        parent.arguments[0] === node &&
        this.nameOf(parent.expression) === 'afterStep'
      )
        later.push(node);
      else yield node;
    }
  }

  // ---- variables

  /** The variable, parameter, function or import that a name refers to. */
  symbolOf(name: ts.Identifier): ts.Symbol | undefined {
    const { ts, checker } = this;
    return ts.isShorthandPropertyAssignment(name.parent)
      ? checker.getShorthandAssignmentValueSymbol(name.parent)
      : checker.getSymbolAtLocation(name);
  }
  /** All uses of a variable or property in this file. */
  uses(symbol: ts.Symbol): readonly ts.Identifier[] {
    if (!this.#uses) {
      const uses = new Map<ts.Symbol, ts.Identifier[]>();
      for (const node of this.nodes) {
        const found = this.ts.isIdentifier(node) ? this.symbolOf(node) : undefined;
        if (found?.valueDeclaration?.getSourceFile() !== this.file) continue;
        const list = uses.get(found);
        if (list) list.push(node as ts.Identifier);
        else uses.set(found, [node as ts.Identifier]);
      }
      this.#uses = uses;
    }
    return this.#uses.get(symbol) ?? [];
  }
  /** Writes to a variable or property: `x = 1`, `x++`, `o.x += 1`, `[x] = list`. */
  writes = (symbol: ts.Symbol): readonly ts.Identifier[] => this.uses(symbol).filter((name) => this.isWritten(name));
  isWritten(name: ts.Identifier): boolean {
    const { ts } = this;
    const target = ts.isPropertyAccessExpression(name.parent) && name.parent.name === name ? name.parent : name;
    if (ts.isVariableDeclaration(target.parent) || ts.isBindingElement(target.parent)) return false;
    return this.isTarget(target);
  }
  isTarget(node: ts.Expression): boolean {
    const { ts } = this;
    const at = this.wrapped(node);
    const { parent } = at;
    if (ts.isBinaryExpression(parent)) return parent.left === at && this.isAssignment(parent);
    if (ts.isPrefixUnaryExpression(parent) || ts.isPostfixUnaryExpression(parent))
      return parent.operator === ts.SyntaxKind.PlusPlusToken || parent.operator === ts.SyntaxKind.MinusMinusToken;
    if (ts.isForOfStatement(parent) || ts.isForInStatement(parent)) return parent.initializer === at;
    if (ts.isArrayLiteralExpression(parent)) return this.isTarget(parent);
    if (ts.isPropertyAssignment(parent)) return parent.initializer === at && this.isTarget(parent.parent);
    if (ts.isShorthandPropertyAssignment(parent)) return this.isTarget(parent.parent);
    return false;
  }
  isAssignment(node: ts.Node): node is ts.BinaryExpression {
    const { ts } = this;
    return (
      ts.isBinaryExpression(node) &&
      node.operatorToken.kind >= ts.SyntaxKind.FirstAssignment &&
      node.operatorToken.kind <= ts.SyntaxKind.LastAssignment
    );
  }
  /** The value of a variable that is never reassigned. */
  constantOf(node: ts.Expression): ts.Expression | undefined {
    const { ts } = this;
    const bare = this.bare(node);
    if (!ts.isIdentifier(bare)) return bare;
    const symbol = this.symbolOf(bare);
    const declaration = symbol?.valueDeclaration;
    if (!declaration || !ts.isVariableDeclaration(declaration) || !declaration.initializer) return undefined;
    if (declaration.getSourceFile() !== this.file || this.writes(symbol).length) return undefined;
    return this.bare(declaration.initializer);
  }
  numberOf(node: ts.Expression | undefined): number | undefined {
    const { ts } = this;
    const value = node && this.constantOf(node);
    if (!value) return undefined;
    if (ts.isNumericLiteral(value)) return Number(value.text);
    if (ts.isPrefixUnaryExpression(value) && value.operator === ts.SyntaxKind.MinusToken) {
      const of = this.numberOf(value.operand);
      return of === undefined ? undefined : -of;
    }
    return undefined;
  }

  // ---- edits

  /** Whether `await` is allowed here: in an async function, or at the top level of a module. */
  canAwait(node: ts.Node): boolean {
    const { ts } = this;
    const fn = this.around(
      node,
      (n): n is ts.SignatureDeclaration => ts.isFunctionLike(n) || ts.isClassStaticBlockDeclaration(n),
    );
    if (!fn) return ts.isExternalModule(this.file) && this.file.impliedNodeFormat !== ts.ModuleKind.CommonJS;
    return (
      Boolean(ts.getCombinedModifierFlags(fn as unknown as ts.Declaration) & ts.ModifierFlags.Async) &&
      !this.traced.some((t) => t.how !== 'now' && t.fn === fn)
    );
  }
  /** Edits that turn `x` into `await x`, or `(await x)` if more follows. */
  awaited(node: ts.Expression, read = ''): readonly { start: number; end: number; text: string }[] {
    const { ts } = this;
    const { parent } = node;
    const isTight =
      ((ts.isPropertyAccessExpression(parent) || ts.isElementAccessExpression(parent) || ts.isCallExpression(parent)) &&
        parent.expression === node) ||
      (ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.AsteriskAsteriskToken);
    const start = this.start(node);
    return [
      { start, end: start, text: isTight ? '(await ' : 'await ' },
      { start: node.end, end: node.end, text: `${read}${isTight ? ')' : ''}` },
    ];
  }
}

/** The lines after a `@ts-expect-error`, which are wrong on purpose. */
function expectedErrors(file: ts.SourceFile): ReadonlySet<number> {
  return new Set(
    [...file.text.matchAll(/^.*@ts-expect-error.*$/gm)].map(
      (m) => file.getLineAndCharacterOfPosition(m.index).line + 1,
    ),
  );
}
