// The buffers that are live at the memory peak of a compiled program, from its schedule.
import type { Instruction, Module, Shape } from '../../pjrt/hlo-proto.js';
import { arrayBytes, type Body, leavesOf, OptimizedProgram, shapeText } from './program.js';

/** activation: computed early and kept for later use, as by the forward pass for the backward pass. */
export type BufferClass = 'argument' | 'activation' | 'temporary';

export interface LiveBuffer {
  readonly bytes: number;
  readonly class: BufferClass;
  /** 'argument 3', or the operation that computed it. */
  readonly what: string;
  /** The user's file and line, if the program has source locations. */
  readonly source?: string;
  /** 'bf16[28,4,1024,1024]' */
  readonly shape: string;
}

export interface Liveness {
  /** The sum of all live buffers at the peak, in HBM. */
  readonly peak: number;
  readonly arguments: number;
  readonly activations: number;
  readonly temporaries: number;
  readonly tenLargest: readonly LiveBuffer[];
}

/** A buffer with the user's name, if it is an argument. */
export const named = (buffer: LiveBuffer, names: readonly string[]): LiveBuffer => ({
  ...buffer,
  what: buffer.what.replace(/^argument (\d+)$/, (same, i: string) => names[Number(i)] ?? same),
});

/** The live buffers at a program's peak, on one device. */
export function livenessOf(module: Module): Liveness {
  const { buffers } = new Memory(new OptimizedProgram(module)).peak();
  const total = (kind: BufferClass) => buffers.reduce((n, b) => n + (b.class === kind ? b.bytes : 0), 0);
  const sums = { arguments: total('argument'), activations: total('activation'), temporaries: total('temporary') };
  return {
    peak: sums.arguments + sums.activations + sums.temporaries,
    ...sums,
    tenLargest: [...buffers].sort((a, b) => b.bytes - a.bytes).slice(0, 10),
  };
}

/** An array in main memory with all its aliases: a loop's results take the place of its operands. */
interface Slot {
  parent?: Slot;
  readonly shape: Shape;
  readonly made: Instruction;
  /** The outermost computation that knows it. */
  home: Frame;
  argument?: number;
}
/** A computation that runs while its caller does: the entry, a loop's body, a branch. */
interface Frame {
  readonly body: Body;
  readonly depth: number;
  /** The slots of every instruction's arrays, leaf by leaf. */
  readonly values: Map<number, readonly Slot[]>;
  /** Computations that an instruction runs. */
  readonly inner: Map<number, readonly Frame[]>;
}

function find(p: Slot): Slot {
  while (p.parent) p = p.parent;
  return p;
}

/** Unites two aliases of a place: it belongs to the outer computation of the two. */
function unite(a: Slot | undefined, b: Slot | undefined): void {
  if (!a || !b) return;
  const [x, y] = [find(a), find(b)];
  if (x === y) return;
  const [keep, give] =
    x.argument !== undefined || (y.argument === undefined && x.home.depth <= y.home.depth) ? [x, y] : [y, x];
  if (give.home.depth < keep.home.depth) keep.home = give.home;
  give.parent = keep;
}

/** The least age of an activation, as a fraction of the work before the peak. */
const LONG_AGO = 0.05;

const NEARLY = 1e-3;

class Memory {
  readonly #entry: Frame;

  constructor(readonly program: OptimizedProgram) {
    this.#entry = this.#frame(program.entry, 0);
    const { aliases, shape } = program.module;
    const results = this.#entry.values.get(program.entry.root.id) ?? [];
    for (const { output, parameter } of aliases?.entries ?? []) {
      const leaf = leafAt(shape?.result, output);
      unite(this.#entry.values.get(program.entry.parameter(parameter)?.id ?? -1)?.[0], results[leaf]);
    }
  }

  peak(): Peak {
    return this.#peakOf(this.#entry);
  }

  #frame(body: Body, depth: number, given?: readonly (readonly Slot[])[]): Frame {
    const frame: Frame = { body, depth, values: new Map(), inner: new Map() };
    for (const i of body.order) frame.values.set(i.id, this.#places(frame, i, given));
    return frame;
  }

  /** The places of an instruction's arrays: new ones, or those of its operands. */
  #places(frame: Frame, i: Instruction, given?: readonly (readonly Slot[])[]): readonly Slot[] {
    const operands = i.operands.map((id) => frame.values.get(id) ?? []);
    const fresh = () => leavesOf(i.shape).map((shape): Slot => ({ shape, made: i, home: frame }));
    const [first = []] = operands;
    switch (i.opcode) {
      case 'parameter': {
        const own = given?.[i.parameter] ?? fresh();
        if (!given && frame.depth === 0) for (const p of own) p.argument = i.parameter;
        return own;
      }
      case 'tuple':
        return operands.flat();
      case 'get-tuple-element': {
        const elements = frame.body.operand(i, 0).shape?.tuple ?? [];
        const from = elements.slice(0, i.index).flatMap(leavesOf).length;
        return first.slice(from, from + leavesOf(i.shape).length);
      }
      case 'bitcast':
      case 'opt-barrier':
      case 'optimization-barrier':
      case 'add-dependency':
      case 'all-reduce-done':
        return first;
      case 'copy-done':
        return first.slice(0, 1);
      case 'copy-start': {
        const [copy, , ...rest] = fresh();
        return [copy!, ...first, ...rest];
      }
      case 'while': {
        const inner = i.called.slice(0, 2).map((id) => this.#frame(this.program.body(id), frame.depth + 1, [first]));
        frame.inner.set(i.id, inner);
        inner[0]!.values.get(inner[0]!.body.root.id)?.forEach((p, k) => unite(first[k], p));
        return first;
      }
      case 'call':
      case 'conditional': {
        const own = fresh();
        const inner = i.called.map((id, k) =>
          this.#frame(this.program.body(id), frame.depth + 1, i.opcode === 'call' ? operands : [operands[k + 1] ?? []]),
        );
        frame.inner.set(i.id, inner);
        for (const f of inner) f.values.get(f.body.root.id)?.forEach((p, k) => unite(own[k], p));
        return own;
      }
      case 'async-start':
      case 'async-update':
      case 'all-gather-start':
      case 'collective-permute-start': {
        // ((operands), results, context): operands keep their places.
        const own = fresh();
        const handed = (i.opcode === 'async-update' ? operands.slice(1) : operands).flat();
        handed.forEach((p, k) => unite(p, own[k]));
        return own;
      }
      case 'async-done':
      case 'all-gather-done':
      case 'collective-permute-done': {
        const elements = frame.body.operand(i, 0).shape?.tuple ?? [];
        const from = leavesOf(elements[0]).length;
        return first.slice(from, from + leavesOf(i.shape).length);
      }
      default: {
        const own = fresh();
        for (const [result, operand] of this.#inPlace(i)) unite(operands[operand]?.[0], own[result]);
        return own;
      }
    }
  }

  /** Results that overwrite operands: those that XLA has noted, and updates of slices. */
  #inPlace(i: Instruction): readonly (readonly [result: number, operand: number])[] {
    const noted = i.aliasing.map((a) => [leafAt(i.shape, a.output), a.operand] as const);
    if (i.opcode === 'dynamic-update-slice' || i.opcode === 'scatter') return [[0, 0]];
    if (i.opcode !== 'fusion') return noted;
    const inner = this.program.body(i.called[0]!);
    const ends = inner.root.opcode === 'tuple' ? inner.root.operands.map((id) => inner.at(id)) : [inner.root];
    return [...noted, ...ends.flatMap((end, k) => this.#updated(inner, end).map((p) => [k, p] as const))];
  }

  /** The parameter that a value is an update of. */
  #updated(body: Body, value: Instruction): readonly number[] {
    let at = value;
    let updates = false;
    for (;;) {
      if (at.opcode === 'dynamic-update-slice' || at.opcode === 'scatter') updates = true;
      else if (at.opcode === 'fusion') {
        const inner = this.program.body(at.called[0]!);
        const [p] = this.#updated(inner, inner.root);
        if (p === undefined) return [];
        updates = true;
        at = body.operand(at, p);
        continue;
      } else if (at.opcode !== 'bitcast') return updates && at.opcode === 'parameter' ? [at.parameter] : [];
      at = body.operand(at, 0);
    }
  }

  /** The peak of a computation, without the buffers of its callers, which they count. */
  #peakOf(frame: Frame): Peak {
    const { order, root } = frame.body;
    const lives = this.#livesOf(frame);
    const ends = order.length - 1;
    for (const place of frame.values.get(root.id) ?? []) {
      const life = lives.get(find(place));
      if (!life) continue;
      life.last = ends;
      if (frame.depth === 0) life.first = 0; // the caller allocates results before the program runs
    }
    shareWithTheDying(frame, lives);
    const change = new Float64Array(order.length + 1);
    for (const { first, last, bytes } of lives.values()) {
      change[first]! += bytes;
      change[last + 1]! -= bytes;
    }
    let alive = 0;
    const inside = order.map((i) => this.#inside(frame, i));
    const totals = inside.map(({ bytes }, t) => {
      alive += change[t]!;
      return alive + bytes;
    });
    // Of nearly equal peaks the last one, when kept buffers are used.
    const most = totals.reduce((a, b) => Math.max(a, b), 0);
    const at = totals.findLastIndex((total) => total >= (1 - NEARLY) * most);
    const work = inside.map((p) => p.work);
    const before = work.slice(0, at).reduce((a, b) => a + b, 0);
    const since = (t: number) => work.slice(t, at).reduce((a, b) => a + b, 0); // includes iterations of a loop
    const buffers = [...lives].flatMap(([place, life]) => {
      if (life.first > at || life.last < at) return [];
      const kept = life.written < at && since(life.written) > LONG_AGO * before;
      return [this.#describe(place, life, kept ? 'activation' : 'temporary')];
    });
    return {
      bytes: most,
      buffers: [...buffers, ...(inside[at]?.buffers ?? [])],
      work: work.reduce((a, b) => a + b, 0),
    };
  }

  #livesOf(frame: Frame): Map<Slot, Life> {
    const lives = new Map<Slot, Life>();
    frame.body.order.forEach((i, t) => {
      const own = (frame.values.get(i.id) ?? []).map(find);
      const used = i.operands.flatMap((id) => frame.values.get(id) ?? []).map(find);
      const names = NAMES.has(i.opcode);
      for (const place of [...own, ...(names ? [] : used)]) {
        if (place.home !== frame || place.shape.layout?.memorySpace || place.made.opcode === 'constant') continue;
        const isArgument = place.argument !== undefined;
        const life = lives.get(place) ?? {
          first: isArgument ? 0 : t,
          last: isArgument ? frame.body.order.length - 1 : t,
          written: -1,
          bytes: arrayBytes(place.shape),
        };
        life.last = Math.max(life.last, t);
        const writer = own.includes(place) ? this.#writer(frame, i, place) : undefined;
        if (writer) Object.assign(life, { written: t, writer });
        lives.set(place, life);
      }
    });
    return lives;
  }

  /** The instruction that writes a place; for a loop, the one that computes the next carried value. */
  #writer(frame: Frame, i: Instruction, place: Slot): Writer | undefined {
    if (NAMES.has(i.opcode) || i.target === 'AllocateBuffer') return undefined;
    const handed = i.operands.flatMap((id) => frame.values.get(id) ?? []);
    const hands = /^(async|copy)-|-done$/.test(i.opcode);
    if (hands && handed.some((p) => find(p) === place)) return undefined; // only passed through
    const body = i.opcode === 'while' ? frame.inner.get(i.id)?.[0]?.body : undefined;
    if (body?.root.opcode !== 'tuple') return { body: frame.body, instruction: i };
    const carried = (frame.values.get(i.id) ?? []).map(find);
    const next = body.root.operands.findIndex((id, k) => {
      const each = body.at(id);
      const passed =
        each.opcode === 'get-tuple-element' && each.index === k && body.operand(each, 0).opcode === 'parameter';
      return carried[k] === place && !passed;
    });
    return next < 0 ? undefined : { body, instruction: body.at(body.root.operands[next]!) };
  }

  /** The peak of what an instruction calls. */
  #inside(frame: Frame, i: Instruction): Peak {
    const inner = frame.inner.get(i.id);
    if (inner) {
      const peaks = inner.map((f) => this.#peakOf(f));
      const most = peaks.reduce((a, b) => (b.bytes > a.bytes ? b : a));
      const trips = i.opcode === 'while' ? (this.program.trips(i, frame.body) ?? 1) : 1;
      return { ...most, work: trips * Math.max(...peaks.map((p) => p.work)) };
    }
    return { bytes: 0, buffers: [], work: NAMES.has(i.opcode) || i.opcode === 'constant' ? 0 : 1 };
  }

  #describe(place: Slot, { bytes, writer }: Life, kind: BufferClass): LiveBuffer {
    const shape = shapeText(place.shape);
    const made = this.program.source(place.made);
    if (place.argument !== undefined) {
      return { what: `argument ${place.argument}`, ...(made && { source: made }), bytes, class: 'argument', shape };
    }
    const source = (writer && this.program.source(writer.instruction)) ?? made;
    const what = writer ? this.#work(writer.body, writer.instruction) : place.made.name;
    return { what, ...(source && { source }), bytes, class: kind, shape };
  }

  /**
   * The name of the operation that computes a value: that of the op, or of the last one in a fusion. A value that a loop carries
   * is that of its last iteration; `turns` limits the recursion.
   */
  #work(body: Body, i: Instruction, outer?: (parameter: number) => string, turns = 0): string {
    const { opcode } = i;
    if (i.metadata?.op_name) return i.metadata.op_name;
    if (opcode === 'convolution') return 'dot'; // as a TPU writes it
    if (opcode === 'custom-call') return i.target;
    if (opcode === 'parameter') return outer?.(i.parameter) ?? 'carried';
    if (opcode === 'fusion') {
      const inner = this.program.body(i.called[0]!);
      return this.#work(inner, inner.root, (n) => this.#work(body, body.operand(i, n), outer, turns), turns);
    }
    if (opcode === 'get-tuple-element' && turns < 2 && !outer) {
      const from = body.operand(i, 0);
      const loop =
        from.opcode === 'while' ? this.program.body(from.called[0]!) : from.opcode === 'parameter' ? body : undefined;
      if (loop?.root.opcode === 'tuple') {
        return this.#work(loop, loop.at(loop.root.operands[i.index]!), undefined, turns + 1);
      }
    }
    const from = opcode === 'dynamic-update-slice' ? 1 : PASSES.has(opcode) ? 0 : undefined;
    return from === undefined || !i.operands.length ? opcode : this.#work(body, body.operand(i, from), outer, turns);
  }
}

interface Writer {
  readonly body: Body;
  readonly instruction: Instruction;
}
interface Life {
  first: number;
  last: number;
  /** The time when its content was complete. */
  written: number;
  writer?: Writer;
  readonly bytes: number;
}
interface Peak {
  readonly bytes: number;
  readonly buffers: readonly LiveBuffer[];
  /** The number of kernels that have run, including iterations, as a clock. */
  readonly work: number;
}

/** Opcodes that do not describe a value. */
// biome-ignore format: a list
const PASSES = new Set([
  'bitcast', 'convert', 'copy', 'copy-start', 'copy-done', 'reshape', 'transpose', 'tuple', 'get-tuple-element', 'broadcast',
]);
/** Opcodes that use no memory: they only rename a value. */
const NAMES = new Set(['tuple', 'get-tuple-element', 'bitcast', 'parameter', 'opt-barrier', 'optimization-barrier']);

/** The operand whose place an elementwise result takes: of the same size, and used for the last time. */
function shareWithTheDying(frame: Frame, lives: Map<Slot, Life>): void {
  frame.body.order.forEach((i, t) => {
    if (i.opcode !== 'fusion' && !ELEMENTWISE.has(i.opcode)) return;
    const made = (frame.values.get(i.id) ?? []).map((p) => lives.get(find(p))).filter((l) => l?.first === t);
    const dying = new Set(i.operands.flatMap((id) => frame.values.get(id) ?? []).map(find));
    for (const result of made) {
      const found = [...dying].find((p) => {
        const life = lives.get(p);
        return life && p.argument === undefined && life.last === t && life.first < t && life.bytes === result?.bytes;
      });
      if (!found) continue;
      lives.get(found)!.last = t - 1;
      dying.delete(found);
    }
  });
}
const ELEMENTWISE = new Set(['add', 'subtract', 'multiply', 'divide', 'select', 'convert', 'negate', 'maximum']);

/** The index among the leaves of the element at a path of tuple indices. */
function leafAt(shape: Shape | undefined, [index, ...rest]: readonly number[]): number {
  const element = shape?.tuple[index ?? -1];
  return element ? shape!.tuple.slice(0, index).flatMap(leavesOf).length + leafAt(element, rest) : 0;
}
