// Plans of whole jobs, with a model so small that the TPU's compiler takes seconds.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { findModel, JOBS, pageOf, planJob, reportOf, SETTINGS } from 'tsxla/jobs';
import { plan } from 'tsxla/plan';
import { expect, test } from 'vitest';
import { scratchFolder } from '../scratch.js';
import { tsxla } from '../support.js';

const folder = scratchFolder('plan');
const sizes = { vocab_size: 512, hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, head_dim: 32 };
const heads = { num_attention_heads: 4, num_key_value_heads: 2, tie_word_embeddings: true, torch_dtype: 'bfloat16' };
const model = path.join(folder, 'config.json');
fs.writeFileSync(model, JSON.stringify({ model_type: 'qwen3', ...sizes, ...heads }));
process.env.TSXLA_CACHE_DIR = path.join(folder, 'cache');
