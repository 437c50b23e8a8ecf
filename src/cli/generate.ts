// `tsxla generate`: generates text with a model, printed as it is generated, and reports the speed.
import { Command, Option } from 'commander';
import pc from 'picocolors';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { seconds } from '../base/format.js';
import type { GenerateOptions, GenerateTimings } from '../models/index.js';
import { computeIn, dtypeOption, withDevice } from './device-option.js';
import { number } from './numbers.js';
import { fetchProgress } from './progress.js';

interface Options extends Omit<GenerateOptions, 'eosTokenIds' | 'assistantModel' | 'logitsProcessor'> {
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
  readonly assistant?: string;
  readonly json?: true;
}

export function generateCommand(): Command {
  const option = (flags: string, text: string) => new Option(flags, text).argParser(number);
  const command = new Command('generate')
    .requiredOption('-m, --model <name>', 'a model folder (quantized or not), or a name on the Hugging Face hub')
    .option('-p, --prompt <text>', 'the text to continue. Default: standard input')
    .addOption(new Option('--tokens <ids>', 'the prompt as token ids: 1,2,3').argParser(numbers).conflicts('prompt'))
    .option('--chat', "treat the prompt as a user message, in the model's chat template")
    .option('--system <text>', 'with --chat: the system message')
    .option('--no-thinking', 'with --chat: answer without a thinking phase')
    .addOption(option('-n, --max-new-tokens <n>', 'the most tokens to generate').default(256))
    .option('--greedy', 'always take the most likely token')
    .addOption(option('--temperature <t>', 'below 1 favours likely tokens; 0 always takes the most likely'))
    .addOption(option('--top-k <k>', 'sample only from the k most likely tokens'))
    .addOption(option('--top-p <p>', 'sample only from the most likely tokens with this total probability'))
    .addOption(option('--min-p <p>', 'least probability of a token, relative to that of the most likely'))
    .addOption(option('--repetition-penalty <x>', 'above 1 makes tokens that are in the text already less likely'))
    .addOption(option('--typical-p <p>', 'sample only from the most typical tokens with this total probability'))
    .addOption(option('--epsilon-cutoff <p>', 'least probability of a token'))
    .addOption(option('--eta-cutoff <p>', 'least probability of a token, lowered with the entropy'))
    .addOption(option('--num-return-sequences <n>', 'number of texts: sampled, or the best of --num-beams'))
    .addOption(option('--num-beams <n>', 'beam search with this number of beams, without sampling'))
    .addOption(option('--length-penalty <x>', 'with --num-beams: above 0 favours longer texts. Default: 1'))
    .addOption(
      new Option(
        '--early-stopping [when]',
        'with --num-beams: stop as soon as there are --num-beams texts; never: search to the end',
      )
        .choices(['never'])
        .preset(true),
    )
    .addOption(
      // commander would take the prefix no- as a negation.
      Object.assign(option('--no-repeat-ngram-size <n>', 'never repeat a sequence of n tokens'), { negate: false }),
    )
    .addOption(option('--min-new-tokens <n>', 'the fewest tokens to generate'))
    .addOption(option('--min-length <n>', 'the fewest tokens, including the prompt'))
    .addOption(tokenList('--suppress-tokens <ids>', 'tokens that are never generated: 1,2,3'))
    .addOption(tokenList('--begin-suppress-tokens <ids>', 'tokens that are not generated first'))
    .addOption(
      new Option('--bad-words-ids <ids>', 'sequences of tokens that are never generated: 1,2;3').argParser((text) =>
        text.split(';').map(numbers),
      ),
    )
    .addOption(option('--forced-bos-token-id <id>', 'the token after a prompt of one token'))
    .addOption(option('--forced-eos-token-id <id>', 'the last token, at --max-new-tokens'))
    .option('--assistant <name>', 'a smaller model with the same vocabulary that proposes tokens: a folder or a name')
    .addOption(option('--num-assistant-tokens <n>', 'tokens it proposes at a time. Default: 5'))
    .option('--stop <text...>', 'stop at one of these texts')
    .addOption(option('--seed <n>', 'random seed: the same seed gives the same text'))
    .addOption(option('--cache-length <n>', 'tokens the key-value cache has room for, including the prompt'))
    .option('--adapters <path>', 'adapters to load onto the model: a PEFT folder, or a file')
    .addOption(dtypeOption())
    .option('--scan-layers', 'run the layers as one loop: compiles faster')
    .option('--json', 'print one JSON object at the end')
    .action(run);
  return withDevice(command);
}

const numbers = (text: string): number[] => text.split(',').map(number);
const tokenList = (flags: string, text: string) => new Option(flags, text).argParser(numbers);

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
    assistant,
    json,
    prompt: started,
    ...options
  } = given;
  const { loadStudent } = await import('../recovery/index.js');
  const load = { ...computeIn(dtype), scanLayers, onProgress: fetchProgress() };
  const { model } = await loadStudent(folder, { ...load, ...(adapters && { adapters }) });
  const assistantModel = assistant && (await loadStudent(assistant, load)).model;
  const text = tokens ? '' : (started ?? (await pipedIn()));
  if (!tokens && !model.tokenizer)
    throw new ArgumentError((await import('../models/tokenizer.js')).withoutTokenizer(folder));
  const asked = () => {
    const messages = [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: text }];
    return model.tokenizer!.applyChatTemplate(messages, thinking ? {} : { enable_thinking: false });
  };
  const prompt = tokens ?? (chat ? asked() : text);
  const stream = model.generateStream([prompt], {
    ...options,
    ...(greedy && { doSample: false }),
    ...(assistantModel && { assistantModel }),
  });
  if ((options.numReturnSequences ?? 1) > 1) {
    const sequences = await stream.collect();
    if (json) printJson({ prompt, sequences, timings: stream.timings });
    else
      for (const { text, tokens } of sequences)
        process.stdout.write(`${model.tokenizer ? text : tokens.join(' ')}\n\n`);
  } else {
    const parts = { tokens: [] as number[], text: '', finishReason: '' };
    for await (const { token, text, finishReason } of stream) {
      parts.tokens.push(token);
      parts.text += text;
      parts.finishReason = finishReason ?? '';
      if (!json) process.stdout.write(model.tokenizer ? text : `${token} `);
    }
    if (json) printJson({ prompt, ...parts, timings: stream.timings });
    else process.stdout.write('\n');
  }
  if (!json) process.stderr.write(`${pc.dim(speed(stream.timings))}\n`);
}

const printJson = (x: unknown): boolean => process.stdout.write(`${JSON.stringify(x, null, 2)}\n`);

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
