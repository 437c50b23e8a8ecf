// The bytes that a kernel moves to and from main memory: operands and results, and of slices only the slice.
import type { Instruction } from '../../pjrt/hlo-proto.js';
import { groupedOperands, mosaicCost } from './flops.js';
import { type Body, hbmBytes, leavesOf, type OptimizedProgram } from './program.js';

type Leaf = ReturnType<typeof leavesOf>[number];
const SLICES = new Set(['dynamic-slice', 'slice', 'gather']);
/** Opcodes that only rename or reshape a value. */
const NAMES = new Set(['bitcast', 'reshape', 'get-tuple-element', 'opt-barrier', 'optimization-barrier']);

export function trafficOf(program: OptimizedProgram, body: Body, i: Instruction): number {
  const operands = i.operands.map((id) => body.at(id));
  const sizes = operands.map((o) => hbmBytes(o.shape));
  const given = sizes.reduce((a, b) => a + b, 0);
  const made = hbmBytes(i.shape);
  switch (i.opcode) {
    case 'fusion': {
      const inner = program.body(i.called[0]!);
      const read = operands.reduce(
        (n, o, p) => n + Math.min(sizes[p]!, readOf(program, inner, p, hbmBytes(o.shape))),
        0,
      );
      return read + Math.min(made, writtenBy(program, inner, inner.root, i));
    }
    case 'copy-start':
      return given + hbmBytes(leavesOf(i.shape)[0]); // (copy, original, context)
    case 'custom-call': // a library's last result is its workspace
      if (!groupedOperands(body, i)) {
        const said = mosaicCost(program, i)?.bytes;
        // Blocks are fetched as often as the kernel says; arrays that lie in the core's memory cost nothing.
        const arrays = [...operands.map((o) => o.shape), i.shape].flatMap(leavesOf);
        const all = arrays.reduce((n, s) => n + flatBytesOf(s), 0);
        if (said && all) return said * Math.min(1, (given + made) / all);
      }
      return (
        given -
        unread(body, i) +
        (/^__(cublas|cudnn)\$/.test(i.target) ? made - hbmBytes(leavesOf(i.shape).at(-1)) : made)
      );
    case 'iota':
    case 'broadcast':
      return made + given;
    default:
      return plain(i, sizes, given, made);
  }
}

/** A lower bound for grouped matrix products: matrices of empty groups are not read. */
function unread(body: Body, i: Instruction): number {
  const [rows, matrices] = groupedOperands(body, i) ?? [];
  const [groups = 0, ...matrix] = matrices?.shape?.dims ?? [];
  if (!matrix[1]) return 0;
  return hbmBytes(matrices!.shape) * Math.max(0, 1 - rows!.shape!.dims[0]! / groups);
}

/** The bytes of a single instruction. */
function plain(i: Instruction, sizes: readonly number[], given: number, made: number): number {
  const [whole = 0, ...rest] = sizes;
  const others = rest.reduce((a, b) => a + b, 0);
  if (SLICES.has(i.opcode)) return made + Math.min(whole, made) + others;
  if (i.opcode === 'dynamic-update-slice') return 2 * rest[0]!; // written in place
  if (i.opcode === 'scatter') return others + 2 * (sizes.at(-1) ?? 0);
  return given + made;
}

/** The bytes that a computation reads of one of its parameters, which has `whole` bytes. */
function readOf(program: OptimizedProgram, body: Body, parameter: number, whole: number): number {
  const p = body.parameter(parameter);
  return p ? Math.min(whole, readBy(program, body, p, whole)) : 0;
}

function readBy(program: OptimizedProgram, body: Body, value: Instruction, whole: number): number {
  let read = 0;
  for (const user of body.usersOf(value.id)) {
    const first = user.operands[0] === value.id;
    if (SLICES.has(user.opcode) && first) read += flatBytes(user);
    else if ((user.opcode === 'dynamic-update-slice' || user.opcode === 'scatter') && first) read += 0;
    else if (user.opcode === 'tuple') read += 0;
    else if (NAMES.has(user.opcode)) read += readBy(program, body, user, whole);
    else if (user.opcode === 'fusion') {
      const inner = program.body(user.called[0]!);
      user.operands.forEach((id, p) => {
        if (id === value.id) read += readOf(program, inner, p, whole);
      });
    } else return whole;
    if (read >= whole) return whole;
  }
  return read;
}

/** The size of an array inside a fusion, where values are not in memory and memory spaces have no meaning. */
const flatBytes = (i: Instruction): number => leavesOf(i.shape).reduce((n, s) => n + flatBytesOf(s), 0);
const flatBytesOf = (s: Leaf): number =>
  hbmBytes({ ...s, type: s.type, dims: s.dims, tuple: [], dynamic: [], layout: undefined });

/** The bytes that a computation with this root writes; `place` is the place of the result. */
function writtenBy(program: OptimizedProgram, body: Body, value: Instruction, place: Instruction): number {
  const leaves = leavesOf(place.shape);
  if (value.opcode === 'tuple') {
    return value.operands.reduce((n, id, k) => {
      const leaf = leaves[k];
      return leaf?.layout?.memorySpace ? n : n + writtenOf(program, body, body.at(id));
    }, 0);
  }
  return leaves[0]?.layout?.memorySpace ? 0 : writtenOf(program, body, value);
}

function writtenOf(program: OptimizedProgram, body: Body, value: Instruction): number {
  if (value.opcode === 'parameter') return 0;
  if (value.opcode === 'dynamic-update-slice') return flatBytes(body.operand(value, 1));
  if (value.opcode === 'scatter') return 2 * flatBytes(body.at(value.operands.at(-1)!));
  if (NAMES.has(value.opcode)) return writtenOf(program, body, body.operand(value, 0));
  if (value.opcode === 'fusion') {
    const inner = program.body(value.called[0]!);
    return inner.root.opcode === 'tuple' ? flatBytes(value) : writtenOf(program, inner, inner.root);
  }
  return flatBytes(value);
}
