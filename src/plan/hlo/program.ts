// Access to optimized HLO for cost and memory analysis: calls, sizes, loop iterations, source lines.

import { sizeOf } from '../../base/dtype.js';
import { wire } from '../../base/packages.js';
import { type Computation, type Instruction, type Module, primitive, type Shape, TUPLE } from '../../pjrt/hlo-proto.js';

export const elementsOf = (shape: Shape | undefined): number =>
  !shape ? 0 : shape.type === TUPLE ? shape.tuple.reduce((n, s) => n + elementsOf(s), 0) : sizeOf(shape.dims);

export const leavesOf = (shape: Shape | undefined): readonly Shape[] =>
  !shape ? [] : shape.type === TUPLE ? shape.tuple.flatMap(leavesOf) : [shape];

const bitsOf = (type: string): number => (type === 'pred' ? 8 : Number(/^[a-z]+(\d+)/.exec(type)?.[1] ?? 0));

/** The size of an array in memory: TPU layouts are padded to tiles. */
export function arrayBytes(shape: Shape): number {
  const { minorToMajor = [], tiles = [], elementBits = 0 } = shape.layout ?? {};
  const dims = minorToMajor.length === shape.dims.length ? minorToMajor.map((d) => shape.dims[d]!) : [...shape.dims];
  const tile = [...(tiles[0]?.dims ?? [])].reverse(); // the first tile covers the minor dimensions, the others subdivide it
  while (dims.length < tile.length) dims.push(1);
  const elements = dims.reduce((n, d, i) => n * (tile[i] ? Math.ceil(d / tile[i]) * tile[i] : d), 1);
  return Math.ceil((elements * (elementBits || bitsOf(primitive(shape.type)))) / 8);
}

/** Whether an array is in main memory, space 0; a TPU's space 1 is on the chip, others are registers or host memory. */
export const hbmBytes = (shape: Shape | undefined): number =>
  leavesOf(shape).reduce((n, s) => n + (s.layout?.memorySpace ? 0 : arrayBytes(s)), 0);

export const shapeText = (s: Shape): string => `${primitive(s.type)}[${s.dims}]`;

/** A computation with its instructions by id, in the order in which they run. */
export class Body {
  readonly order: readonly Instruction[];
  readonly #byId: ReadonlyMap<number, Instruction>;
  #users: Map<number, readonly Instruction[]> | undefined;

  constructor(
    readonly computation: Computation,
    module: Module,
  ) {
    this.#byId = new Map(computation.instructions.map((i) => [i.id, i]));
    const scheduled = module.schedule?.sequences.get(computation.id)?.ids;
    this.order = scheduled?.flatMap((id) => this.#byId.get(id) ?? []) ?? computation.instructions;
  }

  at(id: number): Instruction {
    return this.#byId.get(id)!;
  }

  get root(): Instruction {
    return this.at(this.computation.root);
  }

  operand(i: Instruction, n: number): Instruction {
    return this.at(i.operands[n]!);
  }

  parameter(n: number): Instruction | undefined {
    return this.order.find((i) => i.opcode === 'parameter' && i.parameter === n);
  }

  usersOf(id: number): readonly Instruction[] {
    if (!this.#users) {
      this.#users = new Map();
      for (const i of this.order)
        for (const o of new Set(i.operands)) this.#users.set(o, [...(this.#users.get(o) ?? []), i]);
    }
    return this.#users.get(id) ?? [];
  }
}

export class OptimizedProgram {
  readonly #bodies = new Map<number, Body>();
  readonly #computations: ReadonlyMap<number, Computation>;

  constructor(readonly module: Module) {
    this.#computations = new Map(module.computations.map((c) => [c.id, c]));
  }

  body(id: number): Body {
    const known = this.#bodies.get(id) ?? new Body(this.#computations.get(id)!, this.module);
    this.#bodies.set(id, known);
    return known;
  }

  get entry(): Body {
    return this.body(this.module.entry);
  }

  /** The backend_config of an instruction, if it is JSON. */
  config(i: Instruction): Readonly<Record<string, unknown>> {
    const { payload } = i;
    const bytes = !payload ? i.backendConfig : payload.value.length ? payload.value : this.module.payloads[payload.id];
    const text = Buffer.from(bytes ?? []).toString();
    if (!text.startsWith('{')) return {};
    try {
      return JSON.parse(text) as Record<string, unknown>;
    } catch {
      return {};
    }
  }

  /** The user's file and line. "-" is a line of the compiler's input, which the user has not seen. */
  source({ metadata }: Instruction): string | undefined {
    const { frames } = this.module;
    const at = frames?.locations[(frames.frames[(metadata?.frame ?? 0) - 1]?.location ?? 0) - 1];
    const [file, line] = at ? [frames?.files[at.file - 1], at.line] : [metadata?.source_file, metadata?.source_line];
    return file && file !== '-' && file !== '<unknown>' ? `${file}:${line}` : undefined;
  }

  /** The number of iterations of a loop, as XLA noted it or from its condition; undefined if it depends on values. */
  trips(loop: Instruction, caller: Body): number | undefined {
    const noted = (this.config(loop)['known_trip_count'] as { n?: string } | undefined)?.n;
    if (noted !== undefined) return Number(noted);
    const [body, condition] = [this.body(loop.called[0]!), this.body(loop.called[1]!)];
    const test = this.#root(condition);
    if (test.instruction.opcode !== 'compare') return undefined;
    const [left, right] = test.instruction.operands.map((id) => this.#trace(test.body, id, test.outer));
    const counter = left?.element;
    if (counter === undefined || !right) return undefined;
    const first = this.#carried(caller, loop.operands[0]!, counter);
    const limit =
      right.constant ??
      (right.element === undefined ? undefined : this.#carried(caller, loop.operands[0]!, right.element));
    if (first === undefined || limit === undefined) return undefined;
    const step = this.#step(body, counter);
    const { direction } = test.instruction;
    const last = direction === 'LE' || direction === 'GE' ? Math.sign(step) : 0;
    return Math.max(0, Math.ceil((limit + last - first) / step));
  }

  /** The root instruction of a body, inside a fusion or call that may wrap it. */
  #root(body: Body, outer?: Outer): { body: Body; instruction: Instruction; outer?: Outer } {
    const { root } = body;
    if (root.opcode !== 'fusion' && root.opcode !== 'call') return { body, instruction: root, ...(outer && { outer }) };
    return this.#root(this.body(root.called[0]!), (n) => this.#trace(body, root.operands[n]!, outer));
  }

  /** A number in a loop: a constant, or an element of the carried tuple. */
  #trace(body: Body, id: number, outer?: Outer): Traced {
    const i = body.at(id);
    if (i.opcode === 'constant') return constantOf(i);
    if (i.opcode === 'parameter') return outer?.(i.parameter) ?? {};
    if (['copy', 'bitcast', 'convert', 'reshape', 'copy-done', 'copy-start'].includes(i.opcode))
      return this.#trace(body, i.operands[0]!, outer);
    if (i.opcode === 'get-tuple-element' && body.operand(i, 0).opcode === 'parameter') return { element: i.index };
    return {};
  }

  /** An element of a loop's initial tuple, if it is a constant. */
  #carried(caller: Body, tuple: number, index: number): number | undefined {
    const start = caller.at(tuple);
    return start.opcode === 'tuple' ? this.#trace(caller, start.operands[index]!).constant : undefined;
  }

  /** The increment of the counter in each iteration; 1 if it cannot be determined. */
  #step(body: Body, counter: number): number {
    const next = body.root.opcode === 'tuple' ? body.at(body.root.operands[counter]!) : undefined;
    if (!next) return 1;
    const inner = next.opcode === 'fusion' ? this.body(next.called[0]!) : undefined;
    const sum = inner ? inner.root : next;
    const outer: Outer | undefined = inner && ((n) => this.#trace(body, next.operands[n]!));
    if (sum.opcode !== 'add') return 1;
    const added = sum.operands.map((id) => this.#trace(inner ?? body, id, outer).constant);
    return added.find((n) => n !== undefined && n !== 0) ?? 1;
  }
}

interface Traced {
  readonly constant?: number;
  readonly element?: number;
}
type Outer = (parameter: number) => Traced;

function constantOf({ literal }: Instruction): Traced {
  const { s32, s64, u32, u64 } = literal ?? {};
  const bytes = [s32, s64, u32, u64].find((b) => b?.length);
  if (!literal?.shape || literal.shape.dims.length > 0) return {};
  return { constant: bytes ? Number(new (wire().BinaryReader)(bytes).int64()) : 0 };
}
