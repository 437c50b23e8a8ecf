// The commands of `tsxla`: their names, what they do, and where each is loaded from. The reference of the docs site is made of it.
import type { Command } from 'commander';

// biome-ignore format: a table
export const COMMANDS: readonly (readonly [name: string, description: string, load: () => Promise<Command>])[] = [
  ['doctor', 'check Node, plugins, devices and caches, and run a matmul on every device that starts', async () => (await import('./doctor.js')).doctorCommand()],
  ['plugins', 'show, install and remove the plugins: XLA libraries for each device', async () => (await import('./plugins.js')).pluginsCommand()],
  ['hlo', 'run or compile a StableHLO module', async () => (await import('./hlo.js')).hloCommand()],
  ['generate', 'continue a text with a language model, or answer a message', async () => (await import('./generate.js')).generateCommand()],
  ['kd-cache', "cache a teacher's most likely tokens on text, for distillation; resumes an interrupted run", async () => (await import('./kd-cache.js')).kdCacheCommand()],
  ['kd-convert', "convert a KD cache to the original's .pt files, or from them", async () => (await import('./kd-cache.js')).kdConvertCommand()],
  ['quantize', "quantize a model's linears to 2 or 4 bits: a student for recovery", async () => (await import('./quantize.js')).quantizeCommand()],
  ['merge-lora', "merge adapters into a model's weights; a quantized model becomes plain, or is quantized again", async () => (await import('./merge-lora.js')).mergeLoraCommand()],
  ['export', 'write a model in other formats: GGUF for llama.cpp, safetensors for transformers, StableHLO', async () => (await import('./export.js')).exportCommand()],
  ['eval-perplexity', 'the perplexity of a model on a text: exp of the mean loss over tokens', async () => (await import('./eval-perplexity.js')).evalPerplexityCommand()],
  ['train-recovery-lora', "recover a quantized model's quality: train small adapters on a teacher's cached logits (tsxla kd-cache)", async () => (await import('./train-recovery-lora.js')).trainRecoveryLoraCommand()],
  ['board', 'show training runs as a page in the browser, live, or write them as a report', async () => (await import('./board.js')).boardCommand()],
  ['plan', 'predict for TPUs, without having one, whether a workload fits, the largest batch, and the speed', async () => (await import('./plan.js')).planCommand()],
  ['profile', 'summarize a profile: step time, where it goes, the longest kernels, what the device waited for', async () => (await import('./profile.js')).profileCommand()],
  ['cache', 'show, explain and remove compiled programs kept on disk', async () => (await import('./cache.js')).cacheCommand()],
  ['lint', 'find wrong or slow uses of tensors and compiled functions', async () => (await import('./lint.js')).lintCommand()],
  ['ray', 'submit, list and stop jobs on a Ray cluster, and show their logs', async () => (await import('./ray.js')).rayCommand()],
];
