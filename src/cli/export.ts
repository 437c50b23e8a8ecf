// `tsxla export`: writes a model in other formats: GGUF, safetensors for transformers, StableHLO.
import path from 'node:path';
import { Command, Option } from 'commander';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { bytes, plural, seconds } from '../base/format.js';
import { notice } from '../base/log.js';
import type { GgufFileType, GgufReport } from '../export/index.js';
import { openOutput } from '../io/file.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { withDevice } from './device-option.js';
import { count } from './numbers.js';
import { fetchProgress } from './progress.js';
import { checkOutputOf, weightBytes } from './quantize.js';

interface Options {
  readonly model: string;
  readonly base?: string;
  readonly adapters?: string;
  readonly gguf?: string;
  readonly safetensors?: string;
  readonly stablehlo?: string;
  readonly type?: GgufFileType;
  readonly name?: string;
  readonly tokenizerPre?: string;
  readonly dtype?: DType;
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly json?: true;
}

const FORMS = ['gguf', 'safetensors', 'stablehlo'] as const;
const TYPES: readonly GgufFileType[] = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0', 'q4_k'];

export function exportCommand(): Command {
  const number = (flags: string, text: string) => new Option(flags, text).argParser(count);
  return withDevice(
    new Command('export')
      .requiredOption(
        '-m, --model <name>',
        'a model folder (quantized or not), a name on the Hugging Face hub, or a file of the original',
      )
      .option('-a, --adapters <path>', 'adapters to merge into the weights first: a PEFT folder, or a file')
      .option('--base <name>', "for the original's files: the model they were made from")
      .option('--gguf <file>', 'write a GGUF file, for llama.cpp and Ollama')
      .option('--safetensors <folder>', 'write a folder that transformers reads')
      .option('--stablehlo <folder>', 'write the program of the model (model.mlir) and its weights, for tsxla hlo run')
      .addOption(
        new Option('--type <type>', 'type of matrices in a GGUF file. Default: that of the weights').choices(TYPES),
      )
      .option('--name <name>', "general.name of a GGUF file. Default: the folder's")
      .option('--tokenizer-pre <name>', 'tokenizer.ggml.pre of a GGUF file. Default: found by tokenizer.json')
      .addOption(
        new Option('--dtype <dtype>', 'dtype of the weights. Default: unchanged').choices(['f32', 'bf16', 'f16']),
      )
      .addOption(number('-b, --batch-size <n>', 'rows of the StableHLO program').default(1))
      .addOption(number('-l, --sequence-length <n>', 'tokens per row of the StableHLO program').default(128))
      .option('--json', 'print one JSON object at the end')
      .action(run),
  );
}

async function run(options: Options): Promise<void> {
  const { model: name, base, adapters, dtype, json } = options;
  const chosen = FORMS.filter((form) => options[form] !== undefined);
  if (chosen.length !== 1)
    throw new ArgumentError(
      `export: pass exactly one of ${FORMS.map((f) => `--${f}`).join(', ')}, got ${chosen.length}`,
    );
  const form = chosen[0]!;
  if (options.type && form !== 'gguf')
    throw new ArgumentError('export: --type applies to --gguf only: use --dtype for other formats');
  const started = performance.now();
  const output = form === 'gguf' ? path.dirname(options.gguf!) : options[form]!;
  await using _output = await openOutput(output, `--${form}`); // an error leaves no empty folder
  const { loadStudent, mergeStudent } = await import('../recovery/index.js');
  const { model } = await loadStudent(name, {
    ...(base && { base }),
    ...(adapters && { adapters }),
    ...(dtype && { dtype }),
    materialize: false,
    onProgress: fetchProgress(),
  });
  const { adaptersOf } = await import('../lora/index.js');
  const merged = adaptersOf(model).size;
  if (merged) await mergeStudent(model, 'dense');
  const result = await { gguf: toGguf, safetensors: toSafetensors, stablehlo: toStableHlo }[form](model, options);
  const took = (performance.now() - started) / 1e3;
  if (json) {
    process.stdout.write(`${JSON.stringify({ ...result.report, adapters: merged, seconds: took })}\n`);
    return;
  }
  for (const note of result.notes ?? []) notice(note);
  const first = merged ? `${plural(merged, 'adapter')} merged, ` : '';
  process.stdout.write(`${options[form]}: ${first}${result.said}, in ${seconds(took)}\n`);
}

interface Result {
  readonly report: object;
  readonly said: string;
  readonly notes?: readonly string[];
}

async function toGguf(model: DecoderForCausalLM, { gguf, type, name, tokenizerPre }: Options): Promise<Result> {
  const { exportGguf } = await import('../export/index.js');
  const report: GgufReport = await exportGguf(model, gguf!, {
    ...(type && { type }),
    ...(name && { name }),
    ...(tokenizerPre && { tokenizerPre }),
  });
  const { vocabulary } = report;
  const tokens = vocabulary
    ? `${plural(vocabulary.size, 'token')} (${vocabulary.model}, ${vocabulary.pre})`
    : 'no tokenizer';
  return {
    report: { file: gguf, ...report },
    said: `${plural(report.tensors, 'tensor')}, ${tokens}, ${bytes(report.bytes)}`,
    notes: [
      ...report.notes,
      ...report.fallbacks.map((f) => `${f.name} is ${f.type}: its rows of ${f.row} are not whole blocks of ${type}`),
    ],
  };
}

async function toSafetensors(
  model: DecoderForCausalLM,
  { safetensors: folder, model: name }: Options,
): Promise<Result> {
  const { saveStudent } = await import('../recovery/index.js');
  await checkOutputOf('--safetensors', folder!, model.folder ?? name);
  await saveStudent(folder!, model, { form: 'plain' });
  const size = await weightBytes(folder!);
  return { report: { folder, bytes: size }, said: bytes(size) };
}

async function toStableHlo(model: DecoderForCausalLM, options: Options): Promise<Result> {
  const { exportStableHlo } = await import('../export/index.js');
  const { batchSize, sequenceLength, stablehlo: folder } = options;
  await checkOutputOf('--stablehlo', folder!, model.folder ?? options.model);
  const report = await exportStableHlo(model, folder!, { batchSize, sequenceLength });
  return {
    report: { folder, ...report },
    said: `tokens [${batchSize}, ${sequenceLength}] to logits, ${plural(report.inputs, 'input')}, ${bytes(report.bytes)}`,
  };
}
