// Matches the kernels of CUDA graphs to operations. XLA records a series of operations as one graph, and a profile has only the
// graph of its kernels (`command_buffer_1`). The operation is found by order: kernels run in the order of the program's schedule,
// and most are named after an operation, though not always their own, since equal operations share one kernel.
import type { Instruction } from '../pjrt/hlo-proto.js';

export const isGraph = (op: string | undefined): boolean => op !== undefined && /^command_buffer/.test(op);

/** Names of kernels have no dots: `loop_add_fusion.3` is `loop_add_fusion_3`. */
export const kernelName = (operation: string): string => operation.replace(/\W/g, '_');
const baseOf = (name: string): string => name.replace(/_\d+$/, '');

const LIBRARY: readonly (readonly [name: string, kernel: RegExp, operation: RegExp])[] = [
  ['attention', /cudnn|fmha|flash|sdpa/i, /fmha|flash|sdpa/i],
  ['convolution', /conv(?!ert)|winograd|implicit_gemm/i, /conv(?!ert)/i],
  ['product', /gemm|gemv|nvjet|cutlass|splitk|cublas/i, /cublas|gemm|matmul/i],
  ['memory', /^mem(cpy|set)/i, /^(copy|memset|broadcast|dynamic-update-slice)/i],
];
const SILENT = /^(parameter|bitcast|tuple|get-tuple-element|constant|after-all)$/;

interface Side {
  readonly names: readonly number[];
  readonly bases: readonly number[];
  readonly library: string | undefined;
}
/** Scores for a kernel belonging to an operation: the same name, a similar name, or the library the operation calls. */
const [SAME, ALIKE, CALLED, ANOTHER] = [6, 3, 3, 1];
const scoreOf = (kernel: Side, op: Side): number => {
  if (op.names.includes(kernel.names[0]!)) return SAME;
  if (op.bases.includes(kernel.bases[0]!)) return ALIKE;
  return kernel.library !== undefined && kernel.library === op.library ? CALLED : 0;
};
const MOST_CELLS = 100_000_000;

/** The operation of each kernel of a graph, in the order they ran; -1 if none fits. */
export function matchKernels(kernels: readonly string[], operations: readonly Instruction[]): Int32Array {
  const matched = new Int32Array(kernels.length).fill(-1);
  const ops = operations.map((op, i) => [op, i] as const).filter(([{ opcode }]) => !SILENT.test(opcode));
  const [m, n] = [kernels.length, ops.length];
  if ((m + 1) * (n + 1) > MOST_CELLS) return matched;

  const numbers = new Map<string, number>();
  const numberOf = (text: string): number => {
    const known = numbers.get(text) ?? numbers.size;
    numbers.set(text, known);
    return known;
  };
  const side = (names: readonly string[], library: string | undefined): Side => ({
    names: names.map(numberOf),
    bases: names.map((name) => numberOf(baseOf(name))),
    library,
  });
  const rows = kernels.map((name) => side([name], LIBRARY.find(([, kernel]) => kernel.test(name))?.[0]));
  const columns = ops.map(([{ name, opcode, target, metadata }]) => {
    const own = [name, metadata?.deduplicated_name]
      .filter((x) => x !== undefined && x !== '')
      .map((x) => kernelName(x!));
    return side(own, LIBRARY.find(([, , op]) => op.test(opcode === 'custom-call' ? target : opcode))?.[0]);
  });

  // The best alignment of the two sequences; a library call may run several kernels.
  const NONE = 0;
  const [SKIP_KERNEL, SKIP_OP, MATCH, MORE] = [1, 2, 3, 4];
  const moves = new Uint8Array((m + 1) * (n + 1));
  let above = new Int32Array(n + 1);
  for (let i = 1; i <= m; i++) {
    const row = new Int32Array(n + 1);
    for (let j = 1; j <= n; j++) {
      const score = scoreOf(rows[i - 1]!, columns[j - 1]!);
      let [best, move] = [above[j]!, SKIP_KERNEL];
      if (row[j - 1]! > best) [best, move] = [row[j - 1]!, SKIP_OP];
      if (score && above[j - 1]! + score > best) [best, move] = [above[j - 1]! + score, MATCH];
      if (score === CALLED && above[j]! + ANOTHER > best) [best, move] = [above[j]! + ANOTHER, MORE];
      row[j] = best;
      moves[i * (n + 1) + j] = move;
    }
    above = row;
  }
  for (let [i, j] = [m, n]; i > 0 && j > 0; ) {
    const move = moves[i * (n + 1) + j] ?? NONE;
    if (move === MATCH || move === MORE) matched[i - 1] = ops[j - 1]![1];
    if (move !== SKIP_OP) i--;
    if (move === SKIP_OP || move === MATCH) j--;
  }
  return matched;
}
