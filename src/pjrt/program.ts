// A program as PJRT takes it.
import { Struct } from './struct.js';

/** StableHLO: as text, or as MLIR bytecode. */
export type Program = string | Uint8Array;

export function encodeProgram(program: Program): Struct<'PJRT_Program'> {
  const code = Buffer.from(program as string);
  const format = Buffer.from('mlir');
  return new Struct('PJRT_Program', { code, code_size: code.length, format, format_size: format.length });
}
