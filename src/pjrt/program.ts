// Programs in the form PJRT accepts.
import { Struct } from './struct.js';

/** StableHLO, as text or MLIR bytecode. */
export type Program = string | Uint8Array;

/** The numbers of partitions and replicas in the module's attributes. Not read from bytecode. */
export function devicesOf(program: Program): { readonly numPartitions?: number; readonly numReplicas?: number } {
  const attributes = typeof program === 'string' && /^\s*module\b[^{\n]*\battributes\s*\{([^}]*)\}/m.exec(program)?.[1];
  const count = (name: string) =>
    Number((attributes && new RegExp(`mhlo\\.num_${name}\\s*=\\s*(\\d+)`).exec(attributes)?.[1]) || 0);
  const [numPartitions, numReplicas] = [count('partitions'), count('replicas')];
  return { ...(numPartitions && { numPartitions }), ...(numReplicas && { numReplicas }) };
}

export function encodeProgram(program: Program): Struct<'PJRT_Program'> {
  const bytes = Buffer.from(program as string);
  const code = Buffer.concat([bytes, Buffer.of(0)]); // MLIR's parser looks for the 0 behind a text, also where a plugin made no copy
  const format = Buffer.from('mlir');
  return new Struct('PJRT_Program', { code, code_size: bytes.length, format, format_size: format.length });
}
