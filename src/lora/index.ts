// Low-rank adapters: on layers of any model, trained alone, saved alone, merged.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

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
