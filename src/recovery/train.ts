// Recovery training: a quantized student learns, through small adapters, what a teacher or a text says. Whatever is wrong with
// what is asked for is said before anything is compiled, and whether it fits before any data is read.
import fs from 'node:fs/promises';
import path from 'node:path';
import { type DType, dtypeNamed } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { DataLoader, IterableDataset } from '../data/index.js';
import { sourcesOf } from '../distill/cache-rows.js';
import { CheckpointManager } from '../io/index.js';
import { adaptersOf, addLora, loadAdapters, saveAdapters, TARGETS } from '../lora/index.js';
import { Qwen3ForCausalLM, Tokenizer } from '../models/index.js';
import { readConfig } from '../models/pretrained.js';
import { readQwen3Config } from '../models/qwen3-config.js';
import { AdamW, LambdaLR } from '../optim/index.js';
import { FactoredLinear, quantizeModel, quantLinears } from '../quant/index.js';
import { device } from '../runtime/device.js';
import { counts } from '../runtime/program.js';
import { manualSeed } from '../tensor/random.js';
import type { Prepared } from '../tensor/step.js';
import { sync } from '../tensor/sync.js';
import { getMemoryInfo } from '../xm/index.js';
import { type Batch, type Lesson, openLesson } from './lessons.js';
import { type Metrics, MetricsFile } from './metrics.js';
import { flagOf, type RecoveryOptions, type Settings, settle } from './options.js';
import { evaluatePerplexity, type Perplexity, perplexityRows } from './perplexity.js';
import { emptyAnchor, fillAnchor, recoveryStep, scheduleAt } from './step.js';
import { findStudent, loadStudent, type StudentForm } from './student.js';
