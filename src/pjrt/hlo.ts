// Reads the inputs and outputs of an HLO program.
import { type ArrayType, DTYPES, dtypeFrom } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import {
  type HloFormat,
  type Ints,
  MODULE,
  type Module,
  open,
  PROGRAM,
  primitive,
  type Shape,
  type Sharding,
  TUPLE,
} from './hlo-proto.js';

export type { HloFormat, Module, Sharding as HloSharding } from './hlo-proto.js';

export interface ProgramShape {
  readonly name: string;
  readonly inputs: readonly ArrayType[];
  readonly outputs: readonly ArrayType[];
  /** Outputs that are written to the memory of an input. */
  readonly aliases: readonly { readonly output: number; readonly input: number }[];
  /** Inputs whose memory the program may use for anything. */
  readonly donors: readonly number[];
  /** The sharding of each output, if the program was split over several devices. */
  readonly outputShardings: readonly Sharding[];
}

/** A whole program: computations with their instructions, in the order they run if it was compiled. */
export const readModule = (bytes: Uint8Array, format: HloFormat): Module => open(MODULE, bytes, format)[0];

/** The inputs and outputs of a program; a tuple of results is flattened. */
export function readProgramShape(bytes: Uint8Array, format: HloFormat): ProgramShape {
  const [{ name, shape, aliases, donors, outputSharding }] = open(PROGRAM, bytes, format);
  const result = shape?.result;
  if (!result) throw new ArgumentError(`these ${bytes.length} bytes of format ${format} contain no HLO program`);
  const tuple = shape.parameters.findIndex((p) => p.type === TUPLE);
  if (tuple >= 0) {
    throw new ArgumentError(`input ${tuple} of ${name} is a tuple, which cannot be passed: take its parts as inputs`);
  }
  return {
    name,
    inputs: shape.parameters.map((s, i) => arrayType(s, `input ${i} of ${name}`)),
    outputs: leaves(result).map((s, i) => arrayType(s, `output ${i} of ${name}`)),
    aliases: (aliases?.entries ?? []).map((a) => ({
      output: leafAt(result, a.output),
      input: a.parameter,
    })),
    donors: (donors?.entries ?? []).map((d) => d.parameter),
    outputShardings: outputSharding ? (result.type === TUPLE ? outputSharding.tuple : [outputSharding]) : [],
  };
}

const leaves = (s: Shape): readonly Shape[] => (s.type === TUPLE ? s.tuple.flatMap(leaves) : [s]);

/** The index, among all leaves, of the leaf at a path of tuple indices. */
function leafAt(s: Shape, [index, ...rest]: Ints): number {
  const element = s.tuple[index ?? -1];
  return element ? s.tuple.slice(0, index).flatMap(leaves).length + leafAt(element, rest) : 0;
}

function arrayType(s: Shape, what: string): ArrayType {
  try {
    const { minorToMajor = [] } = s.layout ?? {};
    if (minorToMajor.some((d, i) => d !== s.dims.length - 1 - i)) {
      throw new ArgumentError(
        `${what} has layout {${minorToMajor}}: only row-major is passed; leave out mhlo.layout_mode`,
      );
    }
    if (s.dynamic.some(Boolean)) throw new ArgumentError(`${what} has a size that depends on values: make it static`);
    return { dtype: dtypeFrom('hlo', s.type), shape: s.dims };
  } catch (e) {
    if (e instanceof ArgumentError && e.message.startsWith(what)) throw e;
    const known = Object.keys(DTYPES).join(', ');
    throw new ArgumentError(`${what} is a ${primitive(s.type)}, which cannot be passed: use an array of ${known}`);
  }
}
