// All targets, one record each.
import type { Target } from './target.js';
import { ARRAYS } from './targets/arrays.js';
import { CACHES } from './targets/caches.js';
import { CHECKPOINTS } from './targets/checkpoints.js';
import { DATA } from './targets/data.js';
import { FRAMES } from './targets/frames.js';
import { GGUF } from './targets/gguf.js';
import { MODELS } from './targets/models.js';
import { RUNTIME } from './targets/runtime.js';
import { TORCH } from './targets/torch.js';

export const TARGETS: readonly Target[] = [
  ...ARRAYS,
  ...GGUF,
  ...TORCH,
  ...DATA,
  ...MODELS,
  ...CACHES,
  ...CHECKPOINTS,
  ...RUNTIME,
  ...FRAMES,
];
