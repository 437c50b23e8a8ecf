// tsxla/export: models as GGUF files for llama.cpp, and as StableHLO for other XLA runtimes.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export { type ExportGgufOptions, exportGguf, GGUF_FILE_TYPES, type GgufFileType, type GgufReport } from './gguf.js';
export { type ExportStableHloOptions, exportStableHlo, type StableHloReport } from './stablehlo.js';
