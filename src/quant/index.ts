// `tsxla/quant`: quantized linears, quantization of models, and their files.
import '../nn/index.js';

export { CLIP_METHODS, type ClipMethod } from './clip.js';
export { FactoredLinear, type FactoredOptions } from './factored.js';
export { type Parts, QuantLinear, type Scale } from './linear.js';
export { roundF16, symmetricLut, uniformLut } from './lut.js';
export { LutLinear, type LutOptions } from './lut-linear.js';
export { type LayerReport, type QuantizeOptions, QuantReport, quantizeModel, quantLinears } from './model.js';
export {
  exportOriginal,
  type Imported,
  importOriginal,
  type OriginalConfig,
  originalConfig,
  saveOriginal,
} from './original.js';
export {
  loadPacked,
  type PackedFile,
  type PackedForm,
  PackedLinear,
  pack,
  packModel,
  savePacked,
  unpack,
} from './packed.js';
export { ATTENTION, MLP, PRESETS, type Preset } from './presets.js';
export { type LayerOptions, presetRules, type QuantRule } from './rules.js';
export { SymmetricLinear, type SymmetricOptions } from './symmetric.js';
