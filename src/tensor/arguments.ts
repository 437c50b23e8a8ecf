// Checks the arguments of a call against the function's TypeScript types (signatures.ts): wrong kinds of values, too many
// arguments, unknown options. TypeScript rejects these at compile time; JavaScript and `any` would silently ignore them.
import { dtypeMistake, isHostArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { unknownOption } from '../base/options.js';
import { isPlain } from '../base/tree.js';
import { entry } from '../ir/source.js';
import { Block, Ref } from '../kernels/block.js';
import { SIGNATURES } from './signatures.js';
import { Tensor } from './tensor.js';

/** Kinds of values, as error messages name them. */
const KINDS = {
  tensor: 'a tensor',
  number: 'a number',
  bigint: 'a bigint',
  boolean: 'true or false',
  string: 'a string',
  dtype: 'a dtype',
  null: 'null',
  list: 'a list',
  bytes: 'a typed array or buffer',
  function: 'a function',
  instance: 'an object of its class',
  options: 'options',
  any: 'anything',
};
type Kind = keyof typeof KINDS;
export interface Takes {
  readonly kinds: readonly Kind[];
  /** The accepted strings, if not all are. */
  readonly words?: readonly string[];
  readonly options?: Readonly<Record<string, Takes>>;
  /** The elements of a list. */
  readonly each?: Takes;
  readonly optional?: boolean;
}
export interface Parameter extends Takes {
  readonly name: string;
  readonly rest?: boolean;
}
export type Signature = readonly Parameter[];
type Operation = (...args: never[]) => unknown;

function kindOf(x: unknown): Kind | 'undefined' | 'symbol' {
  if (typeof x !== 'object') return typeof x as 'number';
  if (x instanceof Tensor) return 'tensor';
  if (x === null) return 'null';
  if (Array.isArray(x)) return 'list';
  if (isPlain(x)) return 'options';
  return ArrayBuffer.isView(x) || x instanceof ArrayBuffer || x instanceof SharedArrayBuffer ? 'bytes' : 'instance';
}

// ---- the check

interface Misfit {
  /** The text of the error. Built only when it is thrown: another signature may still match. */
  readonly why: () => string;
  /** The text already says what to write: the usage line is left out. */
  readonly complete?: boolean;
}

/** Why a value is rejected; undefined if it is accepted. */
function misfit(name: string, takes: Takes, x: unknown): Misfit | undefined {
  const kind = kindOf(x);
  const { kinds } = takes;
  if (kinds.includes(kind as Kind)) {
    if (kind === 'tensor' || kind === 'number') return undefined; // most are
    const { words, each, options } = takes;
    if (kind === 'string' && words && !words.includes(x as string))
      return notAmong(name, x as string, () => inWords(takes));
    if (kind === 'list' && each) return first(x as unknown[], (e, i) => misfitElement(name, i, each, e));
    return kind === 'options' && options ? misfitOption(options, x as Record<string, unknown>) : undefined;
  }
  if (kinds.includes('any')) return undefined;
  if (kind === 'null' && takes.optional) return undefined; // as torch's None: the same as undefined
  if (kind === 'undefined')
    return takes.optional ? undefined : { why: () => `${requiredIn(takes.options) ?? name} is missing` };
  if (kind === 'string' && kinds.includes('dtype')) {
    const why = dtypeMistake(x as string);
    return why === undefined ? undefined : { why: () => why, complete: true };
  }
  if (isHostArray(x) && (kinds.includes('tensor') || kinds.includes('bytes')))
    return { why: () => `${name} is a host array { dtype, shape, data }: pass tx.tensor(${name})`, complete: true };
  if (x instanceof Block || x instanceof Ref)
    return { why: () => `${name} is the ${x} of a kernel: use its methods, as x.exp() and x.add(y)`, complete: true };
  return { why: () => `${name} is ${show(x)}: it takes ${inWords(takes)}` };
}
const notAmong = (name: string, x: string, what: () => string): Misfit => ({
  why: () => `${name} is '${x}': use ${what()}`,
  complete: true,
});
/** The same for an element of a list; its name is built only when it is needed. */
const misfitElement = (name: string, i: number, each: Takes, x: unknown): Misfit | undefined =>
  typeof x === 'number' && each.kinds.includes('number') ? undefined : misfit(`${name}[${i}]`, each, x);
const requiredIn = (options: Takes['options']): string | undefined =>
  options && Object.keys(options).find((key) => !options[key]!.optional);

function misfitOption(options: Readonly<Record<string, Takes>>, given: Record<string, unknown>): Misfit | undefined {
  const keys = Object.keys(options);
  const why = unknownOption(keys, given);
  return why ? { why: () => why, complete: true } : first(keys, (key) => misfit(key, options[key]!, given[key]));
}

function first<T>(xs: readonly T[], find: (x: T, i: number) => Misfit | undefined): Misfit | undefined {
  for (let i = 0; i < xs.length; i++) {
    const found = find(xs[i]!, i);
    if (found) return found;
  }
  return undefined;
}

interface MisfitAt {
  readonly wrong: Misfit;
  /** The number of arguments that match, plus 0.5 if the next one has the right kind. */
  readonly at: number;
  readonly name?: string;
}
/** The first argument that does not match a signature; undefined if all match. */
function misfitAt(signature: Signature, args: readonly unknown[]): MisfitAt | undefined {
  const last = signature.length - 1;
  const rest = last < 0 || signature[last]!.rest ? last : signature[last - 1]?.rest ? last - 1 : -1; // options may follow it
  const count = rest < 0 ? signature.length : Math.max(args.length, last);
  if (args.length > count) return { at: -1, wrong: TOO_MANY };
  for (let i = 0; i < count; i++) {
    const p = signature[rest < 0 || i < rest ? i : i === count - 1 ? last : rest]!;
    const wrong = misfit(p.name, p, args[i]);
    if (wrong) return { wrong, name: p.name, at: i + (p.kinds.includes(kindOf(args[i]) as Kind) ? 0.5 : 0) };
  }
  return undefined;
}
const TOO_MANY: Misfit = { why: () => 'too many arguments' };

/** Replaces null by undefined, except for parameters where null has a meaning. */
function withoutNull(signature: Signature, args: unknown[]): unknown[] {
  const isNothing = (takes: Takes | undefined, x: unknown) =>
    x === null && takes?.optional && !takes.kinds.includes('null') && !takes.kinds.includes('any');
  for (let i = 0; i < args.length; i++) {
    const [x, takes] = [args[i], signature[i]];
    if (isNothing(takes, x)) args = args.with(i, undefined);
    else if (takes?.options && isPlain(x) && Object.values(x).includes(null)) {
      const { options } = takes;
      args = args.with(i, Object.fromEntries(Object.entries(x).filter(([k, v]) => !isNothing(options[k], v))));
    }
  }
  return args;
}

/** Returns the arguments to call a function with, or throws an error that says what is wrong with them. */
type Check = (args: unknown[]) => unknown[];

/**
 * `order`: the options (the last argument) that may also be given by position. `isMethod`: the first argument is the
 * tensor before the dot. An in-place operation takes the same arguments as the one it is named after.
 */
export function checkOf(op: string, order: readonly string[] = [], isMethod = false): Check {
  const signatures = SIGNATURES[op] ?? SIGNATURES[op.replace(/_$/, '')];
  if (!signatures) throw new Error(`${op} is not in signatures.ts: run npm run build, which generates it`);
  const refuse = ({ why, complete }: Misfit, about = '') => {
    const how = complete ? '' : `: write ${usage(op, signatures, order, isMethod)}`;
    const reason = REASONS[`${op}.${about}`];
    return new ArgumentError(`${op.replace('x.', '')}: ${why()}${reason ? ` (${reason})` : ''}${how}`);
  };
  const check: Check = (args) => {
    let furthest: MisfitAt | undefined;
    for (const signature of signatures) {
      const wrong = misfitAt(signature, args);
      if (!wrong) return withoutNull(signature, args);
      if (!furthest || wrong.at > furthest.at) furthest = wrong;
    }
    throw refuse(furthest!.wrong, furthest!.name);
  };
  const count = signatures[0]!.length - 1;
  return (args) => {
    if (args.length && args.at(-1) === undefined) args = args.slice(0, args.findLastIndex((x) => x !== undefined) + 1);
    if (!order.length || args.length <= count || (args.length === count + 1 && isPlain(args[count])))
      return check(args);
    const given = args.slice(count);
    const options = isPlain(given.at(-1)) ? (given.at(-1) as object) : {};
    const last = given.findLastIndex((x) => x !== options);
    if (last >= order.length) throw refuse(TOO_MANY);
    const twice = order.find((key, i) => key in options && i <= last);
    if (twice) throw refuse({ why: () => `${twice} is given twice` });
    return check([...args.slice(0, count), named<Record<string, unknown>>(order, given)]);
  };
}

/** Merges options given by position, in this order, with those of an object at the end. */
export function named<O extends object>(order: readonly (keyof O & string)[], given: readonly unknown[]): Partial<O> {
  const options = isPlain(given.at(-1)) ? given.at(-1) : undefined;
  const places = given.filter((x) => x !== options || x === undefined);
  return { ...Object.fromEntries(places.map((x, i) => [order[i], x])), ...(options as object) } as Partial<O>;
}

/** A function of the public API whose arguments are checked. */
export function checked<F extends Operation>(op: string, f: F): F {
  const check = checkOf(op);
  return entry((...args: unknown[]) => f(...(check(args) as never[]))) as unknown as F;
}

// ---- in words

const either = (all: readonly string[]): string =>
  all.length > 1 ? `${all.slice(0, -1).join(', ')} or ${all.at(-1)}` : `${all[0]}`;
/** Names a bigint only where a number is not accepted too. */
const worded = (kinds: readonly Kind[]) => kinds.filter((k) => k !== 'bigint' || !kinds.includes('number'));
const inWords = ({ kinds, words, each, options }: Takes): string =>
  either(
    worded(kinds).flatMap((k) => {
      if (k === 'string' && words) return words.map((w) => `'${w}'`);
      if (k === 'list' && each) return `a list of ${either(worded(each.kinds).map((e) => `${e}s`))}`;
      return k === 'options' && options ? braced(Object.keys(options)) : KINDS[k];
    }),
  );
const braced = (keys: readonly string[]): string => `{ ${keys.join(', ')} }`;
function show(x: unknown, depth = 0): string {
  if (x instanceof Tensor) return `${x.expr.aval}`;
  if (typeof x === 'string') return `'${x}'`;
  if (Array.isArray(x) && depth > 3) return '[...]'; // it may contain itself
  if (Array.isArray(x)) {
    const first = x.slice(0, 4).map((e) => show(e, depth + 1));
    return `[${first.join(', ')}${x.length > 4 ? ', ...' : ''}]`;
  }
  if (isPlain(x)) return braced(Object.keys(x));
  return typeof x === 'object' && x ? `a ${x.constructor?.name}` : typeof x === 'function' ? 'a function' : String(x);
}

/** How to call it: x.sum(dim?, keepdim?, { dtype }), or the like for each signature. */
function usage(op: string, signatures: readonly Signature[], order: readonly string[], isMethod: boolean): string {
  const dotted = isMethod && signatures[0]![0]!.kinds.includes('tensor');
  const forms = signatures.map((signature) => {
    const shown = signature.slice(Number(dotted)).flatMap(({ name, kinds, options, optional, rest }, i, all) => {
      const mark = optional ? '?' : '';
      if (!options || rest) return [rest ? `...${name}` : `${name}${mark}`];
      const keys = Object.keys(options);
      const places = i === all.length - 1 ? order : [];
      const others = braced(keys.filter((key) => !places.includes(key)));
      const byPlace = places.map((key) => `${key}${options[key]!.optional ? '?' : ''}`);
      if (places.length) return keys.length > places.length ? [...byPlace, others] : byPlace;
      return [kinds.length > 1 ? `${keys[0]}${mark} | ${others}` : others];
    });
    return `${dotted ? 'x.' : ''}${op}(${shown.join(', ')})`;
  });
  return either([...new Set(forms)]);
}

/** Why a parameter accepts less than torch's. */
const REASONS: Readonly<Record<string, string>> = {
  'index.spec': 'pass several indices as separate arguments',
  'oneHot.options': 'the shape cannot depend on values',
  'repeatInterleave.repeats': 'the shape cannot depend on values',
  'tensor.data': 'for tensors use clone, to or stack',
};
