// A program as PJRT takes it.
import { Struct } from './struct.js';

/** StableHLO: as text, or as MLIR bytecode. */
export type Program = string | Uint8Array;

/** Over how many devices the module says it is split and copied. Bytecode does not tell. */
export function devicesOf(program: Program): { readonly numPartitions?: number; readonly numReplicas?: number } {
  const attributes = typeof program === 'string' && /^\s*module\b[^{\n]*\battributes\s*\{([^}]*)\}/m.exec(program)?.[1];
  const count = (name: string) =>
    Number((attributes && new RegExp(`mhlo\\.num_${name}\\s*=\\s*(\\d+)`).exec(attributes)?.[1]) || 0);
  const [numPartitions, numReplicas] = [count('partitions'), count('replicas')];
  return { ...(numPartitions && { numPartitions }), ...(numReplicas && { numReplicas }) };
}

export function encodeProgram(program: Program): Struct<'PJRT_Program'> {
  const code = Buffer.from(program as string);
  const format = Buffer.from('mlir');
  return new Struct('PJRT_Program', { code, code_size: code.length, format, format_size: format.length });
}
