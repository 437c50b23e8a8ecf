// `tsxla generate`: text from a model in a folder, as it comes, and how fast it came.
import { Command, Option } from 'commander';
import pc from 'picocolors';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { seconds } from '../base/format.js';
import type { GenerateOptions, GenerateTimings } from '../models/index.js';
import { computeIn, dtypeOption, withDevice } from './device-option.js';
import { number } from './numbers.js';
import { fetchProgress } from './progress.js';

interface Options extends Omit<GenerateOptions, 'eosTokenIds'> {
  readonly model: string;
  readonly prompt?: string;
  readonly tokens?: number[];
  readonly chat?: true;
  readonly system?: string;
  readonly thinking: boolean;
  readonly greedy?: true;
  readonly dtype?: DType;
  readonly scanLayers?: true;
  readonly device: string;
  readonly adapters?: string;
  readonly json?: true;
}

export function generateCommand(): Command {
  const option = (flags: string, text: string) => new Option(flags, text).argParser(number);
  const command = new Command('generate')
    .requiredOption(
      '-m, --model <name>',
      'the folder of a model, quantized or not, or its name on the Hugging Face hub',
    )
    .option('-p, --prompt <text>', 'the beginning of the text; what is piped in unless told')
    .addOption(new Option('--tokens <ids>', 'the same as token ids: 1,2,3').argParser(numbers).conflicts('prompt'))
    .option('--chat', "the prompt is a question: put it into the model's chat template")
    .option('--system <text>', 'with --chat: what the model is told first')
    .option('--no-thinking', 'with --chat: the answer at once, without thinking')
    .addOption(option('-n, --max-new-tokens <n>', 'at most so many tokens').default(256))
    .option('--greedy', 'always the most likely token')
    .addOption(option('--temperature <t>', 'below 1: likelier tokens; 0: always the most likely'))
    .addOption(option('--top-k <k>', 'only the k most likely tokens'))
    .addOption(option('--top-p <p>', 'only the most likely tokens that together have this probability'))
    .addOption(option('--min-p <p>', 'only tokens this probable, relative to the most likely'))
    .addOption(option('--repetition-penalty <x>', 'above 1: less of what is in the text already'))
    .option('--stop <text...>', 'end where one of these texts comes')
    .addOption(option('--seed <n>', 'the same seed gives the same text'))
    .addOption(option('--cache-length <n>', 'room for so many tokens, the prompt included'))
    .option('--adapters <path>', 'put these adapters on it: a folder of PEFT, or a file')
    .addOption(dtypeOption())
    .option('--scan-layers', 'the layers as one loop: compiles faster')
    .option('--json', 'print one JSON object at the end')
    .action(run);
  return withDevice(command);
}

const numbers = (text: string): number[] => text.split(',').map(number);

async function run(given: Options): Promise<void> {
  const {
    model: folder,
    tokens,
    chat,
    system,
    thinking,
    greedy,
    dtype,
    scanLayers = false,
    device: _,
    adapters,
    json,
    prompt: started,
    ...options
  } = given;
  const { loadStudent } = await import('../recovery/index.js');
  const { model } = await loadStudent(folder, {
    ...computeIn(dtype),
    ...(adapters && { adapters }),
    scanLayers,
    onProgress: fetchProgress(),
  });
  const text = tokens ? '' : (started ?? (await pipedIn()));
  const asked = () => {
    if (!model.tokenizer) throw new ArgumentError(`${folder} has no tokenizer.json, which --chat needs`);
    const messages = [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: text }];
    return model.tokenizer.applyChatTemplate(messages, thinking ? {} : { enable_thinking: false });
  };
  const prompt = tokens ?? (chat ? asked() : text);
  const stream = model.generateStream([prompt], { ...options, ...(greedy && { doSample: false }) });
  const parts = { tokens: [] as number[], text: '', finishReason: '' };
  for await (const { token, text, finishReason } of stream) {
    parts.tokens.push(token);
    parts.text += text;
    parts.finishReason = finishReason ?? '';
    if (!json) process.stdout.write(model.tokenizer ? text : `${token} `);
  }
  if (json) process.stdout.write(`${JSON.stringify({ prompt, ...parts, timings: stream.timings }, null, 2)}\n`);
  else {
    process.stdout.write('\n');
    process.stderr.write(`${pc.dim(speed(stream.timings))}\n`);
  }
}

const speed = ({ promptTokens, newTokens, promptSeconds, decodeSeconds, compileSeconds }: GenerateTimings): string => {
  const rate = (n: number, s: number) => `${(n / Math.max(s, 1e-9)).toFixed(1)} tokens/s`;
  const decode = newTokens > 1 ? `, then ${newTokens} at ${rate(newTokens - 1, decodeSeconds)}` : '';
  return `prompt of ${promptTokens} at ${rate(promptTokens, promptSeconds)}${decode}; programs ready in ${seconds(compileSeconds)}`;
};

async function pipedIn(): Promise<string> {
  if (process.stdin.isTTY) throw new ArgumentError('no prompt: pass --prompt TEXT, or pipe one in');
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
  return text;
}
