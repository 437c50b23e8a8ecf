// Mutations of JSON. Objects are lists of pairs here, so that a key can be there twice or be __proto__, and numbers are texts,
// so that 1e999 and 20 digits stay what they are.
import { type Mutate, mutateBytes, oneOf } from './bytes.js';
import type { Random } from './random.js';

export class Raw {
  constructor(readonly text: string) {}
}
export class Pairs {
  constructor(readonly pairs: [key: string, value: Json][]) {}
}
export type Json = string | Raw | Json[] | Pairs;

/** The tree of a text, every pair of every object in it. Throws where JSON.parse does. */
export function parseJson(text: string): Json {
  JSON.parse(text); // so that what follows need not check
  let at = 0;
  const space = () => {
    while (' \t\r\n'.includes(text[at] ?? 'x')) at++;
  };
  const token = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const [found] = pattern.exec(text)!;
    at += found.length;
    return found;
  };
  // Containers that are open, not a recursive function: a text may be nested deeper than the stack.
  const open: { readonly node: Json[] | Pairs; key: string }[] = [];
  for (;;) {
    space();
    const c = text[at]!;
    const inside = open.at(-1);
    let value: Json | undefined;
    if (c === ',' || c === ':') at++;
    else if (c === '{' || c === '[') {
      at++;
      open.push({ node: c === '{' ? new Pairs([]) : [], key: '' });
    } else if (c === '}' || c === ']') {
      at++;
      value = open.pop()!.node;
    } else if (c !== '"') value = new Raw(token(/[^\s,\]}]+/y));
    else {
      const found = JSON.parse(token(/"(?:[^"\\]|\\.)*"/y)) as string;
      space();
      if (inside?.node instanceof Pairs && text[at] === ':') inside.key = found;
      else value = found;
    }
    if (value === undefined) continue;
    const parent = open.at(-1);
    if (!parent) return value;
    if (Array.isArray(parent.node)) parent.node.push(value);
    else parent.node.pairs.push([parent.key, value]);
  }
}

export const writeJson = (x: Json): string => {
  if (typeof x === 'string') return JSON.stringify(x);
  if (x instanceof Raw) return x.text;
  if (Array.isArray(x)) return `[${x.map(writeJson).join(',')}]`;
  return `{${x.pairs.map(([key, value]) => `${JSON.stringify(key)}:${writeJson(value)}`).join(',')}}`;
};

/** A tree of its own: mutations change trees in place. */
const copy = (x: Json): Json => {
  if (Array.isArray(x)) return x.map(copy);
  return x instanceof Pairs ? new Pairs(x.pairs.map(([key, value]) => [key, copy(value)])) : x;
};

/** A value of the tree, and how to put another in its place. */
interface Place {
  readonly path: string;
  readonly value: Json;
  set(value: Json): void;
}
function placesIn(root: { value: Json }): Place[] {
  const places: Place[] = [];
  const visit = (value: Json, path: string, set: (value: Json) => void): void => {
    places.push({ path: path.slice(0, 120), value, set });
    if (Array.isArray(value)) value.forEach((v, i) => visit(v, `${path}[${i}]`, (x) => (value[i] = x)));
    else if (value instanceof Pairs)
      for (const pair of value.pairs) visit(pair[1], `${path}.${pair[0]}`, (x) => (pair[1] = x));
  };
  visit(root.value, '', (x) => (root.value = x));
  return places;
}

const nested = (open: string, close: string, depth: number): Raw => new Raw(open.repeat(depth) + close.repeat(depth));
const raw = (...texts: readonly string[]): Raw[] => texts.map((t) => new Raw(t));
/** Values that readers do not expect. The last ones are no JSON, though Python writes and reads them. */
const VALUES: readonly Json[] = [
  ...raw(
    'null',
    'true',
    'false',
    '0',
    '-0',
    '1',
    '-1',
    '1.5',
    '1e-7',
    '255',
    '256',
    '65536',
    '2147483647',
    '2147483648',
  ),
  ...raw('4294967295', '4294967296', '9007199254740991', '9007199254740992', '1e9', '1e20', '1e308', '1e999', '-1e999'),
  ...raw('123456789012345678901234567890', '0.1', '-2147483648'),
  ...[
    '',
    'x',
    '0',
    '1',
    'true',
    'null',
    '__proto__',
    'constructor',
    '../../etc/passwd',
    '/',
    '.',
    '\0',
    '\ud800',
    'é\u2028',
  ],
  ...['x'.repeat(100_000), 'NaN', '{}', ' ', '-1', '1e9', '%s%n', '{{ 1 }}', '(a+)+$'],
  ...[
    [],
    [new Raw('null')],
    [[[]]],
    ['x'],
    new Pairs([]),
    new Pairs([['__proto__', new Pairs([['x', new Raw('1')]])]]),
  ],
  new Pairs([
    ['toString', new Raw('1')],
    ['length', new Raw('-1')],
    ['then', 'x'],
  ]),
  Array.from({ length: 5000 }, () => new Raw('1')),
  nested('[', ']', 500),
  nested('[', ']', 20_000),
  new Raw(`${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`),
  ...raw('NaN', 'Infinity', '-Infinity'),
];
const KEYS = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'length',
  'then',
  '',
  '0',
  '\0',
  'x'.repeat(5000),
];

/** A value of the same kind next to the old one, or anything. */
function otherValue(old: Json, random: Random, all: readonly Place[]): Json {
  const kind = random.below(4);
  if (kind === 0) return copy(random.pick(all).value);
  if (kind === 1 && old instanceof Raw && /^-?\d/.test(old.text)) {
    const n = Number(old.text);
    return new Raw(String(random.pick([n + 1, n - 1, -n, n * 2, n + 0.5, Math.floor(n / 2), n * 1000, -n - 1])));
  }
  if (kind === 1 && typeof old === 'string') {
    const i = random.below(old.length + 1);
    return random.pick([
      old.slice(0, i),
      old + old,
      old.toUpperCase(),
      `${old} `,
      `../${old}`,
      `${old}\0`,
      old.slice(i),
      `${old.slice(0, i)}\u{1f600}${old.slice(i)}`,
    ]);
  }
  if (kind === 1 && old instanceof Raw) return new Raw(old.text === 'true' ? 'false' : 'true');
  return copy(random.pick(VALUES));
}

type Change = (root: { value: Json }, random: Random) => string | undefined;
const objects = (root: { value: Json }) =>
  placesIn(root).filter((p) => p.value instanceof Pairs && p.value.pairs.length);
const arrays = (root: { value: Json }) => placesIn(root).filter((p) => Array.isArray(p.value) && p.value.length);

const change: Change = (root, random) => {
  const all = placesIn(root);
  const place = random.pick(all);
  const value = otherValue(place.value, random, all);
  place.set(value);
  return `${place.path || 'all'} set to ${writeJson(value).slice(0, 60)}`;
};
const dropKey: Change = (root, random) => {
  const place = random.pick(objects(root));
  if (!place) return undefined;
  const { pairs } = place.value as Pairs;
  const [[key]] = pairs.splice(random.below(pairs.length), 1) as [[string, Json]];
  return `${place.path}.${key} removed`;
};
const renameKey: Change = (root, random) => {
  const place = random.pick(objects(root));
  if (!place) return undefined;
  const pair = random.pick((place.value as Pairs).pairs);
  const before = pair[0];
  pair[0] = random.pick([...KEYS, before.toUpperCase(), `${before}_`, before.slice(1)]);
  return `${place.path}.${before} renamed to ${JSON.stringify(pair[0]).slice(0, 40)}`;
};
const doubleKey: Change = (root, random) => {
  const place = random.pick(objects(root));
  if (!place) return undefined;
  const { pairs } = place.value as Pairs;
  const [key, old] = random.pick(pairs);
  const value = otherValue(old, random, placesIn(root));
  pairs.splice(random.below(pairs.length + 1), 0, [key, value]);
  return `${place.path}.${key} there twice, also as ${writeJson(value).slice(0, 60)}`;
};
const addKey: Change = (root, random) => {
  const place = random.pick(placesIn(root).filter((p) => p.value instanceof Pairs));
  if (!place) return undefined;
  const [key, value] = [random.pick(KEYS), copy(random.pick(VALUES))];
  (place.value as Pairs).pairs.push([key, value]);
  return `${place.path}.${JSON.stringify(key).slice(0, 40)} added as ${writeJson(value).slice(0, 60)}`;
};
const swapValues: Change = (root, random) => {
  const place = random.pick(objects(root));
  if (!place) return undefined;
  const { pairs } = place.value as Pairs;
  const [a, b] = [random.pick(pairs), random.pick(pairs)];
  [a[1], b[1]] = [b[1], a[1]];
  return `values of ${place.path}.${a[0]} and .${b[0]} exchanged`;
};
const changeList: Change = (root, random) => {
  const place = random.pick(arrays(root));
  if (!place) return undefined;
  const list = place.value as Json[];
  const i = random.below(list.length);
  const how = random.below(4);
  if (how === 0) list.splice(i, 1);
  else if (how === 1) list.splice(i, 0, copy(list[i]!));
  else if (how === 2) list.splice(i, 0, copy(random.pick(VALUES)));
  else list.reverse();
  return `${place.path}: ${['an item removed', 'an item doubled', 'an item inserted', 'reversed'][how]}`;
};
const CHANGES = [
  change,
  change,
  change,
  change,
  dropKey,
  dropKey,
  renameKey,
  doubleKey,
  addKey,
  swapValues,
  changeList,
];

const tree: Mutate = (bytes, random) => {
  const root = { value: '' as Json };
  try {
    root.value = parseJson(bytes.toString());
  } catch {
    return undefined; // an earlier mutation left no JSON, or nested it too deep
  }
  const done: string[] = [];
  for (let n = 1 + random.below(2); n > 0; n--) done.push(random.pick(CHANGES)(root, random) ?? '');
  const what = done.filter(Boolean).join('; ');
  return what ? { bytes: Buffer.from(writeJson(root.value)), what } : undefined;
};
const text: Mutate = (bytes, random) => {
  const all = bytes.toString();
  const i = random.below(all.length + 1);
  const put = random.pick([
    ',',
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\',
    '\\u0000',
    '\u0000',
    '\u2028',
    '/* */',
    'null',
    '1e5',
    '\n',
    '\t',
  ]);
  return { bytes: Buffer.from(all.slice(0, i) + put + all.slice(i)), what: `${JSON.stringify(put)} put in at ${i}` };
};

/** Changes the tree of a JSON text in most cases, else its characters or bytes. */
export const mutateJson: Mutate = oneOf(tree, tree, tree, tree, tree, tree, text, mutateBytes);
