// Kernels as operations of the graph: one primitive, lowered by what the device has for kernels.
import { noticeOnce } from '../base/log.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Emitter, Ssa } from '../ir/op.js';
import { placeOf } from '../ir/source.js';
import { full } from '../ops/prim/constant.js';
import { defineMulti } from '../ops/prim/define.js';
import { TextEmitter } from '../stablehlo/emitter.js';
import type { Ref } from './block.js';
import { lowerToMosaic } from './mosaic.js';
import { emptyResults, type KernelOptions, type KernelProgram, traceKernel } from './program.js';
import { lowerChecked, lowerToStablehlo, type Site } from './stablehlo.js';
import { usesTriton } from './switches.js';
import { lowerToTriton } from './triton.js';
import { Unsupported } from './unsupported.js';

/** How a device compiles kernels. Throws `Unsupported` for one that it cannot. */
export type KernelForm = (e: Emitter, kernel: KernelProgram, operands: readonly Ssa[], outs: readonly Aval[]) => Ssa[];
const FORMS: Readonly<Record<string, KernelForm>> = { cuda: lowerToTriton, tpu: lowerToMosaic };

interface Attrs {
  readonly kernel: KernelProgram;
  /** Whether TSXLA_KERNELS asks for the form of GPUs. */
  readonly triton?: true;
}
const attrsOf = (kernel: KernelProgram): Attrs => ({ kernel, ...(usesTriton() && { triton: true }) });
const kernelOp: (xs: readonly Expr[], attrs: Attrs) => Expr[] = defineMulti<readonly Expr[], Attrs>({
  name: 'kernel',
  infer: (_, { kernel }) => kernel.outputs.map((p) => p.array),
  lower: (e, xs, { kernel, triton }, outs) => {
    const form = e.platform !== 'cuda' || triton ? FORMS[e.platform] : undefined;
    if (form) {
      try {
        return form(e, kernel, xs, outs);
      } catch (why) {
        if (!(why instanceof Unsupported)) throw why;
        noticeOnce(`kernel ${kernel.name} runs as StableHLO on ${e.platform}, which is slower: ${why.message}`);
      }
    }
    return lowerToStablehlo(e, kernel, xs);
  },
  batch: ({ xs, stacked, attrs: { kernel, ...form }, n, all }) => {
    const known = stacked.some(Boolean);
    const operands = known ? xs : all();
    const outs = kernelOp(operands, {
      ...form,
      kernel: kernel.batch(n, known ? [...stacked] : operands.map(() => true)),
    });
    return outs.map((x) => ({ x, stacked: true }));
  },
});

const checkedOp: (xs: readonly Expr[], attrs: Attrs) => Expr[] = defineMulti<readonly Expr[], Attrs>({
  name: 'kernelCheck',
  infer: (_, { kernel }) => [...kernel.outputs.map((p) => p.array), Aval.of('i32', [])],
  lower: (e, xs, { kernel }) => lowerChecked(e, kernel, xs).outs,
  batch: ({ xs, stacked, attrs: { kernel }, n }) =>
    checkedOp(xs, { kernel: kernel.batch(n, [...stacked]) }).map((x, i, outs) => ({ x, stacked: i < outs.length - 1 })),
});

/** A kernel's function, and its grid and blocks for operands of these types. */
export interface KernelDefinition {
  readonly name: string;
  readonly run: (...refs: Ref[]) => unknown;
  readonly options: (types: readonly Aval[]) => KernelOptions;
}

const MOST_TRACED = 100;
const traced = new WeakMap<KernelDefinition, Map<string, KernelProgram>>();
function programOf(definition: KernelDefinition, xs: readonly Expr[]): KernelProgram {
  const types = xs.map((x) => x.aval);
  const known = traced.get(definition) ?? new Map<string, KernelProgram>();
  traced.set(definition, known);
  const key = types.map((t) => t.id).join();
  const program = known.get(key) ?? traceKernel(definition.name, definition.run, types, definition.options(types));
  if (known.size >= MOST_TRACED) known.clear();
  known.set(key, program);
  return program;
}

const emptyOf = ({ options }: KernelDefinition, xs: readonly Expr[]): Expr[] | undefined =>
  emptyResults(options(xs.map((x) => x.aval)))?.map((t) => full(t.shape, 0, t.dtype));

/** The results of a kernel for these operands. */
export const callKernel = (definition: KernelDefinition, xs: readonly Expr[]): Expr[] =>
  emptyOf(definition, xs) ?? kernelOp(xs, attrsOf(programOf(definition, xs)));

/** What a check of a kernel looks at, in the order of its numbers. */
function sitesOf(kernel: KernelProgram): readonly Site[] {
  const e = new TextEmitter();
  return lowerChecked(
    e,
    kernel,
    kernel.inputs.map((p) => e.parameter(p.array)),
  ).sites;
}

export interface Checked {
  readonly outs: readonly Expr[];
  /** The number of the first access that was wrong, or 0. */
  readonly found: Expr;
  /** What that number says. */
  readonly problem: (found: number) => string;
}
/** The results of a kernel run with every access checked. */
export function callChecked(definition: KernelDefinition, xs: readonly Expr[]): Checked {
  const empty = emptyOf(definition, xs);
  if (empty) return { outs: empty, found: full([], 0, 'i32'), problem: () => '' };
  const kernel = programOf(definition, xs);
  const all = checkedOp(xs, { kernel });
  return {
    outs: all.slice(0, -1),
    found: all.at(-1)!,
    problem: (n) => {
      const { what, source } = sitesOf(kernel)[n - 1]!;
      const line = placeOf(source);
      return `kernel ${kernel.name}: ${what}${line && `\n    at ${line}`}`;
    },
  };
}

/** What a kernel becomes on a device, as text: 'triton' and 'mosaic' modules, or StableHLO. */
export const traceFor = (definition: KernelDefinition, types: readonly Aval[]): KernelProgram =>
  traceKernel(definition.name, definition.run, types, definition.options(types));
