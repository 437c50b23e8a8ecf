// Writes two files from the types of the operations, on every build (not in git):
// - src/tensor/functions.ts, the operations as named exports: tx.add, tx.sum, ... (A module's names must be written down.)
// - src/tensor/signatures.ts, what the public functions take, for the check of arguments at run time: what TypeScript
//   refuses, JavaScript is refused too, without writing it twice.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { API, ElementFlags, SignatureKind, SymbolFlags, TypeFlags } from 'typescript-7/unstable/sync';

const root = fileURLToPath(new URL('..', import.meta.url));
const api = new API();
const [project] = api.updateSnapshot({ openProjects: [`${root}tsconfig.build.json`] }).getProjects();
const { checker, program } = project;

// ---- types, as kinds of values

const KINDS = [
  [TypeFlags.NumberLike, 'number'],
  [TypeFlags.BigIntLike, 'bigint'],
  [TypeFlags.BooleanLike, 'boolean'],
  [TypeFlags.StringLike, 'string'],
  [TypeFlags.Null, 'null'],
];
const BYTES = /^(Array|SharedArray)Buffer|^DataView$|^(Big)?(Int|Uint|Float)\d+(Clamped)?Array$/;
const isOptional = (symbol) => Boolean(symbol.flags & SymbolFlags.Optional);
const isUndefined = (type) => Boolean(type.flags & (TypeFlags.Undefined | TypeFlags.Void));
const partsOf = (type) => (type.isUnionType() ? type.getTypes().flatMap(partsOf) : [type]);

/** What values of a type are: their kinds, the words if only some strings are, options by name, elements of lists. */
function takes(type, outer = []) {
  if (outer.includes(type.id)) return { kinds: ['any'] }; // nested without end
  const all = partsOf(type).map((part) => takesPart(part, [...outer, type.id]));
  const kinds = [...new Set(all.flatMap((t) => t.kinds))];
  const words = all.flatMap((t) => t.words ?? []);
  const each = all.flatMap((t) => (t.each ? [t.each] : []));
  const named = all.flatMap((t) => (t.options ? [t.options] : []));
  const plain = all.some((t) => t.kinds.includes('string') && !t.words);
  const isDType = words.includes('bf16');
  return {
    kinds: isDType ? kinds.map((k) => (k === 'string' ? 'dtype' : k)) : kinds,
    ...(words.length && !plain && !isDType && { words: [...new Set(words)] }),
    ...(each.length && { each: merged(each) }),
    ...(named.length && { options: either(named) }),
  };
}
/** The options of several kinds of objects: what not all of them have is optional. */
const either = (all) =>
  Object.fromEntries(
    Object.entries(Object.assign({}, ...[...all].reverse())).map(([name, takes]) => [
      name,
      all.every((options) => name in options) ? takes : { ...takes, optional: true },
    ]),
  );
const merged = (all) =>
  all.length === 1 ? all[0] : { kinds: [...new Set(all.flatMap((t) => t.kinds))], ...all.find((t) => t.each) };

function takesPart(type, outer) {
  if (isUndefined(type)) return { kinds: [] };
  if (type.isStringLiteralType()) return { kinds: ['string'], words: [type.value] };
  const simple = KINDS.find(([flag]) => type.flags & flag);
  if (simple) return { kinds: [simple[1]] };
  if (type.isTypeParameter())
    return takes(checker.getConstraintOfTypeParameter(type) ?? checker.getUnknownType(), outer);
  if (checker.isArrayType(type) || checker.isTupleType(type)) {
    const elements = checker.getTypeArguments(type).map((t) => takes(t, outer));
    const isNested = elements.some((t) => t.kinds.includes('any') || (t.kinds.includes('list') && !t.each)); // without end
    return { kinds: ['list'], ...(elements.length && !isNested && { each: merged(elements) }) };
  }
  if (!(type.flags & TypeFlags.Object) && !type.isIntersectionType()) return { kinds: ['any'] };
  const symbol = type.getSymbol();
  if (symbol?.name === 'Expr' || symbol?.name === 'Tensor') return { kinds: ['tensor'] };
  if (symbol && BYTES.test(symbol.name)) return { kinds: ['bytes'] };
  if (symbol && symbol.flags & SymbolFlags.Class) return { kinds: ['instance'] };
  if (checker.getSignaturesOfType(type, SignatureKind.Call).length) return { kinds: ['function'] };
  const fields = checker.getPropertiesOfType(type).map((p) => [p.name, parameter(p, outer)]);
  return { kinds: ['options'], ...(fields.length && { options: Object.fromEntries(fields) }) }; // none: any names
}
const parameter = (symbol, outer) => ({
  ...takes(checker.getTypeOfSymbol(symbol), outer),
  ...(isOptional(symbol) && { optional: true }),
});

// ---- functions, as lists of parameters

/** A rest parameter may be one of several tuples: each makes a signature of its own. */
function restsOf(name, type) {
  return partsOf(type).map((part) => {
    if (!checker.isTupleType(part)) return [{ name, rest: true, ...takes(checker.getTypeArguments(part)[0]) }];
    const { elementFlags } = part.getTarget();
    const labels = labelsOf(part);
    return checker.getTypeArguments(part).map((t, i) => ({
      name: labels[i] ?? name,
      ...takes(t),
      ...(elementFlags[i] & ElementFlags.Optional && { optional: true }),
      ...(elementFlags[i] & ElementFlags.Rest && { rest: true }),
    }));
  });
}
/** The names of a tuple's elements, which only its text has: [dim: number, options?: Options]. */
function labelsOf(tuple) {
  let [depth, part] = [0, ''];
  const parts = [];
  for (const c of checker.typeToString(tuple).replace(/^(readonly )?\[|\]$/g, '')) {
    depth += Number('[{(<'.includes(c)) - Number(']})>'.includes(c));
    if (depth || c !== ',') part += c;
    else part = parts.push(part) && '';
  }
  return [...parts, part].map((text) => /^\s*(?:\.\.\.)?(\w+)\??:/.exec(text)?.[1]);
}
function signaturesOf(type) {
  return checker.getSignaturesOfType(type, SignatureKind.Call).flatMap((signature) => {
    const symbols = signature.getParameters();
    const last = signature.hasRestParameter ? symbols.at(-1) : undefined;
    const first = symbols
      .filter((s) => s !== last)
      .map((s) => ({ name: s.name.replace(/^__\d+$/, 'options'), ...declared(s) }));
    return last ? restsOf(last.name, checker.getTypeOfSymbol(last)).map((rest) => [...first, ...rest]) : [first];
  });
}
/** A parameter with a default value is optional too, though its symbol does not say so. */
function declared(symbol) {
  const { optional, ...rest } = parameter(symbol);
  const node = symbol.valueDeclaration?.resolve();
  return { ...rest, ...((optional || node?.initializer || node?.questionToken) && { optional: true }) };
}

const exportsOf = (file, kind = SymbolFlags.Function | SymbolFlags.Variable | SymbolFlags.Alias) =>
  checker
    .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(root + file)))
    .filter((s) => s.flags & kind)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
/** What only the package itself calls. */
const INTERNAL = ['rebind', 'become', 'toJSON', 'peek', 'spend', 'revive', 'assign', 'release', 'restoreGrad'];
/** Methods of Tensor that are no operations, as x.name. */
const methodsOf = (file, isOp) => {
  const tensor = exportsOf(file, SymbolFlags.Class).find((s) => s.name === 'Tensor');
  return checker
    .getPropertiesOfType(checker.getDeclaredTypeOfSymbol(tensor))
    .filter(({ name }) => !INTERNAL.includes(name) && !name.startsWith('_') && !isOp(name.replace(/_$/, '')))
    .map((p) => [`x.${p.name}`, checker.getTypeOfSymbol(p)]);
};
const resolved = (s) => (s.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s);
const typed = (s) => [s.name, checker.getTypeOfSymbol(resolved(s))];
const ops = exportsOf('src/ops/index.ts').map(typed);
/** Of namespaces: as linalg.norm. */
const spaces = ['linalg', 'special'].flatMap((space) =>
  exportsOf(`src/ops/${space === 'linalg' ? 'linalg-space' : space}.ts`).map((s) => [
    `${space}.${s.name}`,
    typed(s)[1],
  ]),
);
const inPlace = exportsOf('src/tensor/inplace.ts').map(typed);
const others = [
  'attention',
  'create',
  'create-like',
  'fractional',
  'lowrank',
  'norm',
  'random',
  'samplers',
  'selection',
  'stft',
  'window-functions',
]
  .map((file) => `tensor/${file}`)
  .concat('step/step')
  .flatMap((file) => exportsOf(`src/${file}.ts`))
  .map(typed);
const methods = methodsOf('src/tensor/tensor.ts', (name) => [...ops, ...inPlace].some(([op]) => op === name));

// ---- the files

const write = (file, text) => {
  const target = root + file;
  const whole = `// Generated by scripts/functions.mjs; do not edit.\n${text}`;
  if (!existsSync(target) || readFileSync(target, 'utf8') !== whole) writeFileSync(target, whole);
};
const RESERVED = new Set(['var', 'in', 'new', 'delete', 'default']);
const declaration = ([name]) =>
  RESERVED.has(name)
    ? `const ${name}_ = functions.${name};\nexport { ${name}_ as ${name} };`
    : `export const ${name} = functions.${name};`;
write(
  'src/tensor/functions.ts',
  `import { functions } from './functions-of-ops.js';\n\n${ops.map(declaration).join('\n')}\n`,
);

const lines = [...ops, ...spaces, ...inPlace, ...others, ...methods].flatMap(([name, type]) => {
  const all = signaturesOf(type);
  return all.length ? [`${JSON.stringify(name)}: ${JSON.stringify(all)}`] : [];
});
const text = `{\n${lines.join(',\n')}\n}`.replace(/[\\`$]/g, '\\$&'); // JSON: Node reads it in a third of the time of an object
write(
  'src/tensor/signatures.ts',
  `import type { Signature } from './arguments.js';

export const SIGNATURES: Readonly<Record<string, readonly Signature[]>> = JSON.parse(\`${text}\`);
`,
);
api.close();
