// Pickles: taken apart into opcodes, and put together again changed.
import { type Mutate, mutateBytes, oneOf, otherSize, readSize, writeSize } from './bytes.js';
import type { Random } from './random.js';

/** What follows an opcode: a number of bytes, a number of lines, or a length of n bytes and that many bytes. */
type Argument = { readonly bytes: number } | { readonly lines: number } | { readonly counted: number };
const bytes = (n: number, codes: string): [string, Argument][] => [...codes].map((c) => [c, { bytes: n }]);
const lines = (n: number, codes: string): [string, Argument][] => [...codes].map((c) => [c, { lines: n }]);
const counted = (n: number, codes: string): [string, Argument][] => [...codes].map((c) => [c, { counted: n }]);
const ARGUMENTS = new Map<string, Argument>([
  ...bytes(1, '\x80Kqh\x82'),
  ...bytes(2, 'M\x83'),
  ...bytes(4, 'Jrj\x84'),
  ...bytes(8, 'G\x95'),
  ...lines(1, 'ILFVpgSP'),
  ...lines(2, 'ci'),
  ...counted(1, '\x8aUC\x8c'),
  ...counted(4, '\x8bTXB'),
  ...counted(8, '\x8d\x8e\x96'),
]);

interface Op {
  readonly code: string;
  readonly argument: Buffer;
}

/** The opcodes up to STOP, and what lies behind it. Undefined where they do not end. */
export function opsOf(b: Buffer): { readonly ops: Op[]; readonly rest: Buffer } | undefined {
  const ops: Op[] = [];
  for (let at = 0; at < b.length; ) {
    const code = String.fromCharCode(b[at++]!);
    const kind = ARGUMENTS.get(code);
    let end = at;
    if (kind && 'bytes' in kind) end += kind.bytes;
    else if (kind && 'counted' in kind) end += kind.counted + Number(readSize(b, at, kind.counted));
    else if (kind) for (let n = kind.lines; n > 0; n--) end = b.indexOf(10, end) + 1 || b.length + 1;
    if (end > b.length) return undefined;
    ops.push({ code, argument: b.subarray(at, end) });
    at = end;
    if (code === '.') return { ops, rest: b.subarray(at) };
  }
  return undefined;
}
const joined = (ops: readonly Op[], rest: Buffer): Buffer =>
  Buffer.concat([...ops.flatMap(({ code, argument }) => [Buffer.from(code, 'latin1'), argument]), rest]);

const op = (code: string, argument: Buffer | string = ''): Op => ({
  code,
  argument: typeof argument === 'string' ? Buffer.from(argument, 'latin1') : argument,
});
const text = (s: string): Op => op('X', Buffer.concat([number(4, BigInt(Buffer.byteLength(s))), Buffer.from(s)]));
const number = (width: number, value: bigint): Buffer => {
  const b = Buffer.alloc(width);
  writeSize(b, 0, width, value);
  return b;
};
const GLOBALS = [
  'os\nsystem\n',
  'builtins\neval\n',
  'torch\nFloatStorage\n',
  'torch\ncomplex64\n',
  'torch\nfloat32\n',
  'torch\nSize\n',
  'torch\ndevice\n',
  'torch._utils\n_rebuild_tensor_v2\n',
  'torch._utils\n_rebuild_tensor_v3\n',
  'torch._utils\n_rebuild_parameter\n',
  'torch._utils\n_rebuild_sparse_tensor\n',
  'collections\nOrderedDict\n',
  'collections\nCounter\n',
  'collections\ndefaultdict\n',
  '__builtin__\nset\n',
  '_codecs\nencode\n',
  '__proto__\nx\n',
];
/** Short programs that are put in between. */
const SNIPPETS: readonly (readonly Op[])[] = [
  [op('(')],
  [op('0')],
  [op('2')],
  [op('N')],
  [op(')'), op('R')],
  [op(']'), op('2'), op('a')], // a list in itself
  [op('}'), op('2'), op('2'), op('s')], // a dict in itself
  [op('J', number(4, 2n ** 31n))],
  [op('J', number(4, 2n ** 31n - 1n))],
  [op('\x8a', Buffer.concat([Buffer.from([8]), number(8, 2n ** 63n - 1n)]))],
  [op('\x8b', Buffer.concat([number(4, 4n), number(4, 7n)]))],
  [op('X', number(4, 0n))],
  [text('__proto__')],
  [text('storage')],
  [op('G', Buffer.from('7ff0000000000000', 'hex'))],
  [op('I', 'nan\n')],
  [op('F', '1e999\n')],
  [op('L', `${'9'.repeat(300)}L\n`)],
  [op('\x8f')],
  [op('Q')],
  [op('b')],
  [op('u')],
  [op('e')],
  [op('t')],
  [op('q', Buffer.from([0]))],
  [op('h', Buffer.from([0]))],
  [op('j', number(4, 2n ** 32n - 1n))],
  [op('r', number(4, 2n ** 32n - 1n))],
];

/** Another argument of the same kind; its length stays right. */
function otherArgument({ code, argument }: Op, random: Random): Op {
  const kind = ARGUMENTS.get(code);
  if (!kind) return op(random.pick([...'()]}NQRabdelstu012.\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94']));
  if ('bytes' in kind) return op(code, number(kind.bytes, otherSize(readSize(argument, 0, kind.bytes), random)));
  if ('lines' in kind) {
    if (kind.lines === 2) return op(code, random.pick(GLOBALS));
    return op(
      code,
      random.pick(['0\n', '-1\n', 'nan\n', '99999999999999999999\n', '\n', '1e5\n', `${'1'.repeat(5000)}\n`]),
    );
  }
  const body = argument.subarray(kind.counted);
  const longest = kind.counted === 1 ? 255 : 5000;
  const next = random.pick([
    () => random.bytes(random.below(12)),
    () => body.subarray(0, random.below(body.length + 1)),
    () => Buffer.concat([body, body]).subarray(0, longest),
    () => Buffer.from(random.pick(['0', '1', 'storage', '__proto__', 'cpu', 'neg', '../x', '']), 'latin1'),
    () => Buffer.alloc(Math.min(longest, 2000), 'x'),
  ])();
  const lie = random.once(5);
  const length = lie ? otherSize(BigInt(next.length), random) : BigInt(next.length);
  return op(code, Buffer.concat([number(kind.counted, length), next]));
}

const program: Mutate = (b, random) => {
  const taken = opsOf(b);
  if (!taken) return undefined;
  const { ops, rest } = taken;
  const done: string[] = [];
  const shown = ({ code, argument }: Op) =>
    `${JSON.stringify(code)} ${JSON.stringify(argument.toString('latin1')).slice(0, 40)}`;
  for (let n = 1 + random.below(3); n > 0; n--) {
    const i = random.below(ops.length);
    const how = random.below(9);
    if (how < 4) {
      const next = otherArgument(ops[i]!, random);
      done.push(`opcode ${i}, ${shown(ops[i]!)}, becomes ${shown(next)}`);
      ops[i] = next;
    } else if (how === 4) {
      done.push(`opcode ${i}, ${shown(ops[i]!)}, removed`);
      ops.splice(i, 1);
    } else if (how === 5) {
      const run = ops.slice(i, i + 1 + random.below(6));
      ops.splice(random.below(ops.length), 0, ...run);
      done.push(`opcodes ${i} to ${i + run.length} doubled`);
    } else if (how === 6) {
      const k = random.below(ops.length);
      [ops[i], ops[k]] = [ops[k]!, ops[i]!];
      done.push(`opcodes ${i} and ${k} exchanged`);
    } else if (how === 7) {
      const snippet = random.pick(SNIPPETS);
      const times = random.pick([1, 1, 1, 600]);
      ops.splice(i, 0, ...Array.from({ length: times }, () => snippet).flat());
      done.push(`${snippet.map(shown).join(' ')} put in at opcode ${i}, ${times} times`);
    } else {
      // Lists of lists: what they hold grows twofold with each line.
      const bomb = Array.from({ length: 40 }, () => [op('2'), op('\x86')]).flat();
      ops.splice(ops.length - 1, 0, ...bomb);
      done.push('pairs of pairs, 40 deep');
    }
    if (!ops.length) break;
  }
  return { bytes: joined(ops, rest), what: `pickle: ${done.join('; ')}` };
};

export const mutatePickle: Mutate = oneOf(program, program, program, program, mutateBytes);
/** Several pickles one after another, and bytes behind: torch's files before 1.6. */
export const mutateLegacy: Mutate = oneOf(
  ...Array.from(
    { length: 5 },
    (): Mutate => (b, random, others) => {
      const parts: Buffer[] = [];
      let rest = b;
      for (let taken = opsOf(rest); taken && parts.length < 5; taken = opsOf(rest)) {
        parts.push(rest.subarray(0, rest.length - taken.rest.length));
        rest = taken.rest;
      }
      if (!parts.length) return undefined;
      const i = random.below(parts.length);
      const mutant = mutatePickle(parts[i]!, random, others);
      return (
        mutant && { bytes: Buffer.concat([...parts.with(i, mutant.bytes), rest]), what: `pickle ${i}: ${mutant.what}` }
      );
    },
  ),
  mutateBytes,
);
