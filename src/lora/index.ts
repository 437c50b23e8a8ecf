// `tsxla/lora`: low-rank adapters for layers of any model: training, saving, merging.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export {
  adaptersOf,
  addLora,
  disableAdapter,
  type LoraOptions,
  mergeAdapter,
  mergeAndUnload,
  TARGETS,
  type Target,
  unmergeAdapter,
} from './adapters.js';
export { loadAdapters, loraStateDict, type SaveOptions, saveAdapters } from './files.js';
export { type Adaptable, type AdapterOptions, isAdaptable, LoraLinear } from './linear.js';
