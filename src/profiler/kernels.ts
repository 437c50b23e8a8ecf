// Finds the category and source line of kernels, from the programs contained in a profile.
import { type Computation, type Instruction, MODULE, type Module } from '../pjrt/hlo-proto.js';
import { decode, message } from '../pjrt/proto.js';
import { Body } from '../plan/hlo/program.js';
import { isGraph, kernelName, matchKernels } from './graphs.js';
import type { ReadEvent, ReadPlane } from './xplane.js';

export const CATEGORIES = ['products', 'attention', 'collectives', 'elementwise', 'copies'] as const;
export type Category = (typeof CATEGORIES)[number];

const HLO_PROTO = message({ module: [1, MODULE] });
const ATTENTION = /attention|fmha|flash|mha_|sdpa/i;
const PRODUCT = /gemm|gemv|matmul|cublas|cutlass|nvjet|dot|conv(?!ert)/i;
const COLLECTIVE = /all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|collective|permute|nccl|\bsend\b|\brecv\b/i;
const COPY = /memcpy|memset|copy|transpose/i;

/** The category of an operation or kernel, from its name only. */
function categoryByName(name: string): Category {
  if (ATTENTION.test(name)) return 'attention';
  if (COLLECTIVE.test(name)) return 'collectives';
  if (PRODUCT.test(name)) return 'products';
  return COPY.test(name) ? 'copies' : 'elementwise';
}

interface Known {
  readonly category: Category;
  /** train.ts:31, layers.0.mlp/matmul */
  readonly source: string | undefined;
  readonly path: string | undefined;
}

interface Operations {
  readonly byName: ReadonlyMap<string, Known>;
  /** Operations by the names of their kernels. */
  readonly byKernel: ReadonlyMap<string, Known>;
  /** The operations of the program and its loops' bodies, in the order they run. */
  readonly schedules: readonly (readonly Instruction[])[];
}
/** The operations of one program. */
function operationsOf(module: Module): Operations {
  const bodies = new Map<number, Computation>(module.computations.map((c) => [c.id, c]));
  const { files, locations, frames } = module.frames ?? { files: [], locations: [], frames: [] };
  const sourceOf = ({ metadata: m }: Instruction): string | undefined => {
    if (m?.source_file) return m.source_file === TEXT ? undefined : `${m.source_file}:${m.source_line}`;
    const at = m?.frame ? locations[(frames[m.frame - 1]?.location ?? 0) - 1] : undefined;
    return at && files[at.file - 1] !== TEXT ? `${files[at.file - 1]}:${at.line}` : undefined;
  };
  const inside = (i: Instruction): readonly Instruction[] =>
    i.called.flatMap((id) => bodies.get(id)?.instructions ?? []);
  const categoryOf = (i: Instruction): Category => {
    // Only the operation's own name: a module may be called postAttentionLayernorm.
    const operation = /[^/]*$/.exec(i.metadata?.op_name ?? '')![0];
    if (ATTENTION.test(i.target) || (i.metadata?.op_name.includes('/') && ATTENTION.test(operation)))
      return 'attention';
    if (COLLECTIVE.test(i.opcode)) return 'collectives';
    if (i.opcode === 'custom-call') return categoryByName(i.target);
    if (i.opcode !== 'fusion') return categoryByName(i.opcode);
    const kinds = inside(i).map((part) => categoryByName(part.opcode));
    for (const kind of ['collectives', 'products'] as const) if (kinds.includes(kind)) return kind;
    const work = inside(i).filter(
      ({ opcode }) => !/^(parameter|bitcast|tuple|get-tuple-element|constant)$/.test(opcode),
    );
    return work.length && work.every(({ opcode }) => COPY.test(opcode)) ? 'copies' : 'elementwise';
  };
  /** The source of a fusion without one (XLA leaves it out for some): that of its first part that has one. */
  const about = (i: Instruction) => [i, ...inside(i)].find((x) => sourceOf(x)) ?? i;
  const byName = new Map(
    module.computations.flatMap(({ instructions }) =>
      instructions.map((i): [string, Known] => [
        i.name,
        { category: categoryOf(i), source: sourceOf(about(i)), path: about(i).metadata?.op_name || undefined },
      ]),
    ),
  );
  const fused = new Set(
    module.computations.flatMap((c) => c.instructions.flatMap((i) => (i.opcode === 'fusion' ? i.called : []))),
  );
  return {
    byName,
    byKernel: new Map([...byName].map(([name, known]) => [kernelName(name), known])),
    schedules: module.computations.filter(({ id }) => !fused.has(id)).map((c) => new Body(c, module).order),
  };
}

/** Looks up kernels in the programs of /host:metadata. */
export class KernelNames {
  readonly #modules = new Map<string, Operations>();
  readonly #ofGraphs = new Map<ReadEvent, Known>();

  /** `kernels`: all events of the device. */
  constructor(planes: readonly ReadPlane[], kernels: readonly ReadEvent[]) {
    for (const plane of planes)
      for (const bytes of [...plane.bytesOf('Hlo Proto'), ...plane.bytesOf('hlo_proto')]) {
        const { module } = decode(HLO_PROTO, bytes);
        if (module) this.#modules.set(module.name, operationsOf(module));
      }
    this.#readGraphs(kernels);
  }
  #readGraphs(kernels: readonly ReadEvent[]): void {
    const launches = new Map<string, ReadEvent[]>();
    for (const kernel of kernels) {
      const { op, module } = placeOf(kernel);
      if (!isGraph(op) || module === undefined || !this.#modules.has(module)) continue;
      const launch = `${module}\0${op}\0${kernel.stat('correlation_id')}`;
      const known = launches.get(launch);
      if (known) known.push(kernel);
      else launches.set(launch, [kernel]);
    }
    const matches = new Map<string, readonly (Known | undefined)[]>();
    for (const [launch, events] of launches) {
      events.sort((a, b) => a.start - b.start);
      const names = events.map(({ name }) => name);
      const module = launch.slice(0, launch.indexOf('\0'));
      const key = [module, ...names].join('\0'); // each step's launch is the same
      const found = matches.get(key) ?? this.#match(this.#modules.get(module)!, names);
      matches.set(key, found);
      events.forEach((event, i) => {
        if (found[i]) this.#ofGraphs.set(event, found[i]);
      });
    }
  }
  #match({ schedules, byName }: Operations, names: readonly string[]): readonly (Known | undefined)[] {
    const all = schedules.map((operations) => {
      const matched = [...matchKernels(names, operations)];
      return { operations, matched, count: matched.filter((i) => i >= 0).length };
    });
    const best = all.reduce((a, b) => (b.count > a.count ? b : a));
    return best.matched.map((i) => (i < 0 ? undefined : byName.get(best.operations[i]!.name)));
  }

  of(event: ReadEvent): Known {
    const { op, module } = placeOf(event);
    const graph = isGraph(op);
    const inModule = module === undefined ? undefined : this.#modules.get(module);
    const found = graph
      ? (this.#ofGraphs.get(event) ?? inModule?.byKernel.get(event.name))
      : (inModule?.byName.get(op ?? event.name) ??
        (module === undefined ? this.#anywhere(op ?? event.name) : undefined));
    // On TPUs, the event itself has it.
    const text = (key: string) => {
      const value = event.stat(key);
      return value === undefined || value === '' ? undefined : String(value);
    };
    const guess = categoryByName([text('hlo_category'), graph ? undefined : op, event.name].filter(Boolean).join(' '));
    // Copies that a library makes before and after its product are kernels of the same operation.
    const own = /^mem(cpy|set)/i.test(event.name) ? 'copies' : undefined;
    return {
      category: ATTENTION.test(event.name) ? 'attention' : (own ?? found?.category ?? guess),
      source: found?.source ?? text('source'),
      path: found?.path ?? (graph ? undefined : text('tf_op')?.replace(NO_PATH, '') || undefined),
    };
  }
  #anywhere(op: string): Known | undefined {
    for (const { byName } of this.#modules.values()) if (byName.has(op)) return byName.get(op);
    return undefined;
  }
}

/** The file name of operations in a program without locations: their lines refer to the program's text. */
const TEXT = '-';
/** The placeholder path of operations without one. */
const NO_PATH = /^XlaModule:$/;

/** The operation and the program that the profile records for a kernel. */
function placeOf(event: ReadEvent): { readonly op: string | undefined; readonly module: string | undefined } {
  const [op, module] = ['hlo_op', 'hlo_module'].map((key) => {
    const value = event.stat(key);
    return value === undefined ? undefined : String(value);
  });
  return { op, module: module?.replace(/\(\d+\)$/, '') };
}
