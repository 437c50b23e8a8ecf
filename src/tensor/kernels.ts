// Kernels written in TypeScript: `tx.kernel` turns a function on blocks into a function on tensors. `tx.kernels` is the language.

import { customVjp } from '../autograd/custom-vjp.js';
import { type ArrayType, show } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isFloat, isInteger } from '../base/promote.js';
import { describe } from '../base/tree.js';
import { entry } from '../ir/source.js';
import { explainMissing, type Ref } from '../kernels/block.js';
import { type Blocks, flashBackward, flashForward } from '../kernels/flash.js';
import { callChecked, callKernel, type KernelDefinition } from '../kernels/kernel.js';
import type { BlockSpec, KernelOptions } from '../kernels/program.js';
import { SIGNATURES } from './signatures.js';
import { Tensor } from './tensor.js';

export {
  Block,
  type DotOptions,
  full,
  iota,
  type LoadOptions,
  loop,
  type Operand,
  programId,
  Ref,
  type StoreOptions,
  when,
  where,
  zeros,
} from '../kernels/block.js';
export type { BlockSpec, KernelOptions, OutSpec } from '../kernels/program.js';

explainMissing(Object.keys(SIGNATURES));

/** Part `index` of an array cut into blocks of this shape. */
export const block = (shape: BlockSpec['shape'], index: BlockSpec['index']): BlockSpec => ({ shape, index });

type ResultOf<O> = O extends { readonly out: readonly unknown[] } ? Tensor[] : Tensor;

/** A kernel that takes tensors. */
export interface Kernel<O = KernelOptions> {
  (...operands: Tensor[]): ResultOf<O>;
  /**
   * Runs the programs one by one, with the device's compiler, and checks every access. Rejects with the line of the kernel if
   * an access is out of bounds, if two programs that may run at once write the same element or one reads what another wrote, if
   * an element is read before any program wrote it, or if elements of a result are never written.
   */
  check(...operands: Tensor[]): Promise<ResultOf<O>>;
}

/**
 * A custom operation. `run` gets a reference to a block of each operand, result and scratch memory, and is called once for
 * each combination of types. `options`: the grid and the blocks, or a function of the operands' types.
 */
export function kernel<const O extends KernelOptions>(
  run: (...refs: Ref[]) => void,
  options: O | ((...operands: ArrayType[]) => O),
): Kernel<O> {
  if (typeof run !== 'function') throw new ArgumentError('kernel: its first argument is a function on references');
  const given = typeof options === 'function' ? options : () => options;
  const definition: KernelDefinition = {
    name: run.name || 'kernel',
    run,
    options: (types) => given(...types),
  };
  const isList = (outs: readonly Tensor[], types: readonly ArrayType[]) =>
    (Array.isArray(given(...types).out) ? [...outs] : outs[0]!) as ResultOf<O>;
  const exprsOf = (operands: readonly Tensor[]) =>
    operands.map((x, i) => {
      if (x instanceof Tensor) return x.expr;
      throw new ArgumentError(`kernel ${definition.name}: operand ${i} is ${describe(x)}: takes tensors`);
    });
  const call = entry((...operands: Tensor[]): ResultOf<O> => {
    const xs = exprsOf(operands);
    const outs = callKernel(definition, xs).map((x) => new Tensor(x));
    return isList(
      outs,
      xs.map((x) => x.aval),
    );
  });
  const check = async (...operands: Tensor[]): Promise<ResultOf<O>> => {
    const xs = exprsOf(operands);
    const { outs, found, problem } = callChecked(definition, xs);
    const number = await new Tensor(found).item();
    if (number) throw new ArgumentError(problem(number));
    return isList(
      outs.map((x) => new Tensor(x)),
      xs.map((x) => x.aval),
    );
  };
  return Object.assign(call, { check }) as Kernel<O>;
}

export interface FlashOptions {
  /** Query i sees keys 0 to i. Default: false. */
  readonly isCausal?: boolean;
  /** Of the scores. Default: 1 / sqrt(d). */
  readonly scale?: number;
  /** Of a causal attention: query i sees keys i - window + 1 to i only. Default: all before it. */
  readonly window?: number;
  /** Scores become tanh(score / softcap) * softcap. Default: none. */
  readonly softcap?: number;
  /** Integers [B, T], or of queries and keys: a query sees keys of its own number. Default: all. */
  readonly segmentIds?: Tensor | { readonly queries: Tensor; readonly keys: Tensor };
  /** How many queries and keys are computed at a time. Default: 512 of each, or all there are. */
  readonly blocks?: Blocks;
}
const FLASH = 'flashAttention';
const FLASH_OPTIONS: readonly (keyof FlashOptions)[] = [
  'isCausal',
  'scale',
  'window',
  'softcap',
  'segmentIds',
  'blocks',
];

/**
 * softmax(query keyT * scale) value without a matrix of scores, by kernels for TPUs that run as StableHLO elsewhere: query
 * [B, H, T, d], key [B, G, S, d], value [B, G, S, e], where G divides H. A query that sees no key gets zeros. No operand needs an element.
 */
export const flashAttention = entry((query: Tensor, key: Tensor, value: Tensor, options: FlashOptions = {}): Tensor => {
  checkOptions(FLASH, FLASH_OPTIONS, options);
  const { isCausal = false, window, softcap, segmentIds, blocks } = options;
  const [q, k, v] = [query, key, value].map((x) => x.expr);
  checkFlash(query, key, value, options);
  const ids = segmentIds && ('queries' in segmentIds ? segmentIds : { queries: segmentIds, keys: segmentIds });
  const segments = ids && { queries: ids.queries.expr, keys: ids.keys.expr };
  const scale = options.scale ?? 1 / Math.sqrt(query.shape[3]!);
  const of = { scale, causal: isCausal, window, softcap, blocks };
  const [output, statistic] = flashForward({ q: q!, k: k!, v: v!, segments }, of);
  const needs = [q!, k!, v!, output, statistic, ...(segments ? [segments.queries, segments.keys] : [])];
  const [result] = customVjp([q!, k!, v!], [output], needs, ([q, k, v, output, statistic, ...ids], [g]) => {
    const segments = ids.length ? { queries: ids[0]!, keys: ids[1]! } : undefined;
    const operands = { q: q!, k: k!, v: v!, segments };
    return flashBackward(operands, { output: output!, statistic: statistic!, g: g! }, of);
  });
  return new Tensor(result!);
});

function checkFlash(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  { isCausal, window, softcap, segmentIds, blocks }: FlashOptions,
): void {
  const types = [q, k, v].map(show).join(', ');
  const fail = (why: string): never => {
    throw new ShapeError(`${FLASH}: ${why}: ${types}`);
  };
  if ([q, k, v].some((x) => x.shape.length !== 4)) fail('takes [B, heads, tokens, d] three times');
  if (!isFloat(q.dtype) || q.dtype !== k.dtype || q.dtype !== v.dtype)
    throw new DTypeError(`${FLASH}: takes floats of one dtype, got ${types}: convert with to()`);
  const [B, H, T, d] = q.shape as [number, number, number, number];
  const [ofKey, G, S, other] = k.shape as [number, number, number, number];
  if (ofKey !== B || v.shape[0] !== B) fail('sizes of the batch differ');
  if (v.shape[1] !== G || H % G)
    fail(`${G} heads of the key must divide the ${H} of the query, and be those of the value`);
  if (d !== other) fail(`sizes of the last dim of query and key, ${d} and ${other}, differ`);
  if (v.shape[2] !== S) fail(`there are ${S} keys and ${v.shape[2]} values`);
  if (d === 0) fail('the last dim of query and key is 0: there is nothing to compare by');
  if (window !== undefined && !(isCausal && Number.isInteger(window) && window > 0))
    throw new ArgumentError(`${FLASH}: window is ${window}: takes a whole number from 1, together with isCausal: true`);
  if (softcap !== undefined && !(softcap > 0))
    throw new ArgumentError(`${FLASH}: softcap is ${softcap}: takes a number above 0`);
  if (blocks && ![blocks.queries, blocks.keys].every((n) => Number.isInteger(n) && n > 0))
    throw new ArgumentError(
      `${FLASH}: blocks are ${JSON.stringify(blocks)}: takes { queries, keys }, whole numbers from 1`,
    );
  if (!segmentIds) return;
  const { queries, keys } = 'queries' in segmentIds ? segmentIds : { queries: segmentIds, keys: segmentIds };
  const wrong = [
    [queries, T],
    [keys, S],
  ].find(([x, n]) => !isInteger((x as Tensor).dtype) || String((x as Tensor).shape) !== String([B, n]));
  if (wrong) fail(`segmentIds must be integers [${B}, ${wrong[1]}], and are ${show(wrong[0] as Tensor)}`);
}
