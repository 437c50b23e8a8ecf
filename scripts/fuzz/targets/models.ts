// Models: config.json, generation_config.json, the tokenizer's files, adapters of PEFT.
import path from 'node:path';
import type { HostArray } from 'tsxla/io';
import { adaptersOf, type LoraLinear, loadAdapters, loraStateDict } from 'tsxla/lora';
import { type Qwen3Config, Qwen3ForCausalLM, readFolder, Tokenizer } from 'tsxla/models';
import { generationOptions, readGenerationJson } from '../../../dist/models/pretrained.js';
import { mutateBytes, oneOf } from '../bytes.js';
import { shown } from '../compare.js';
import { mutateJson } from '../json.js';
import { mutateSafetensors, readSafetensorsStrictly, writeSafetensorsPlainly } from '../safetensors.js';
import type { Case, Target } from '../target.js';
import { bytesOf, golden, goldenPath, sameMeaning, strictly, together } from './files.js';

type Is = (x: unknown) => boolean;
const whole: Is = (x) => Number.isSafeInteger(x) && (x as number) >= 0;
const positive: Is = (x) => typeof x === 'number' && Number.isFinite(x) && x > 0;
const flag: Is = (x) => typeof x === 'boolean';
const id: Is = (x) => x === null || x === -1 || whole(x); // -1 stands for none in some files
const ids: Is = (x) => id(x) || (Array.isArray(x) && x.every(id));

/** The first field of a value that is not what its type says. */
const misfit = (value: object, types: Readonly<Record<string, Is>>): string | undefined => {
  const found = Object.entries(value).find(([name, x]) => !types[name]?.(x));
  return found && `${found[0]} is ${shown(found[1])}`;
};
/** What was read has the types it should have, and is another only where the JSON is. */
const typed =
  (types: Readonly<Record<string, Is>>) =>
  (c: Case): string | undefined =>
    sameMeaning(c) ? 'another value of JSON that means the same' : misfit(c.value as object, types);

const CONFIG: Readonly<Record<keyof Qwen3Config, Is>> = {
  modelType: (x) => x === 'qwen3',
  rope: (x) => typeof x === 'object',
  ...{ vocabSize: whole, hiddenSize: whole, intermediateSize: whole, numHiddenLayers: whole, numAttentionHeads: whole },
  ...{ numKeyValueHeads: whole, headDim: whole, maxPositionEmbeddings: whole },
  ...{ ropeTheta: positive, rmsNormEps: positive, initializerRange: positive },
  ...{
    tieWordEmbeddings: flag,
    attentionBias: flag,
    dtype: (x) => ['f32', 'f64', 'f16', 'bf16'].includes(x as string),
  },
  ...{ bosTokenId: id, eosTokenId: ids, padTokenId: id },
};
const config: Target = {
  name: 'config',
  about: 'config.json of a model',
  covers: ['tsxla/models readFolder', 'tsxla/models readDecoderConfig', 'tsxla/models readQwen3Config'],
  make: () => ['tied', 'untied'].map((name) => together(`qwen3/${name}`, ['config.json'])),
  mutate: () => mutateJson,
  read: async (folder) => (await readFolder(folder)).config,
  legal: typed(CONFIG),
};

const number: Is = (x) => typeof x === 'number' && Number.isFinite(x);
const generation: Target = {
  name: 'generation-config',
  about: 'generation_config.json',
  covers: [],
  make: () => ['tied', 'untied'].map((name) => together(`qwen3/${name}`, ['generation_config.json'])),
  mutate: () => mutateJson,
  read: async (folder) => generationOptions(await readGenerationJson(folder)),
  legal: typed({
    ...{ doSample: flag, eosTokenIds: ids, maxNewTokens: whole, minP: number, repetitionPenalty: number },
    ...{ temperature: number, topK: whole, topP: number, padTokenId: id, bosTokenId: id },
  }),
};

const TEXT = 'Hello <|im_start|> wörld 你好 😀\n\tx';
const CHAT = [
  { role: 'user', content: 'Hi' },
  { role: 'assistant', content: '<think>a</think>b' },
];
const tokenizer: Target = {
  name: 'tokenizer',
  about: 'tokenizer.json and tokenizer_config.json',
  covers: ['tsxla/models Tokenizer'],
  make: () => [together('qwen3/tied', ['tokenizer.json', 'tokenizer_config.json'])],
  mutate: () => oneOf(mutateJson, mutateJson, mutateJson, mutateBytes),
  async read(folder) {
    const tokenizer = await Tokenizer.fromPretrained(folder);
    const ids = tokenizer.encode(TEXT);
    return {
      hash: tokenizer.hash,
      ids,
      text: tokenizer.decode(ids, { skipSpecialTokens: false }),
      special: tokenizer.specialTokens,
      chat: await chatOf(tokenizer, folder),
    };
  },
  legal(c) {
    if (sameMeaning(c)) return 'another tokenizer of JSON that means the same';
    const { hash, ids, text, special } = c.value as { hash: string; ids: unknown[]; text: string; special: object };
    if (!/^[0-9a-f]{64}$/.test(hash) || typeof text !== 'string') return 'no hash or no text';
    if (!ids.every(whole)) return `token ids that are none: ${shown(ids)}`;
    return Object.values(special).every((t) => typeof t === 'string') ? undefined : 'special tokens that are no texts';
  },
};
/** A template says itself that it cannot be used: its error names no file. */
async function chatOf(tokenizer: Tokenizer, folder: string): Promise<string> {
  const { ArgumentError } = await import('tsxla');
  try {
    return tokenizer.applyChatTemplate(CHAT);
  } catch (e) {
    if (e instanceof ArgumentError && e.message.startsWith('applyChatTemplate')) return `${folder}: refused`;
    throw e;
  }
}

const [PEFT_CONFIG, PEFT_WEIGHTS, OWN] = ['adapter_config.json', 'adapter_model.safetensors', 'adapters.safetensors'];
/** A model of one layer: the weights stay what they are, so that nothing is computed. */
async function smallModel(): Promise<Qwen3ForCausalLM> {
  const { config } = await readFolder(goldenPath('qwen3/tied'));
  return new Qwen3ForCausalLM({ ...config, numHiddenLayers: 1 });
}
interface Adapters {
  readonly rank: number;
  readonly alpha: number;
  readonly arrays: ReadonlyMap<string, HostArray>;
}
const ownName = (name: string): string => name.replace('base_model.model.', '').replace(/(lora_[AB])\.weight$/, '$1');

const peft: Target = {
  name: 'peft',
  about: "PEFT's adapters: adapter_config.json and adapter_model.safetensors; and our own in one file",
  covers: ['tsxla/lora loadAdapters'],
  async make() {
    const told = readSafetensorsStrictly(golden(`lora/peft/${PEFT_WEIGHTS}`));
    const first = [...told].filter(([name]) => name.includes('.layers.0.'));
    return [
      new Map([
        [PEFT_CONFIG, golden(`lora/peft/${PEFT_CONFIG}`)],
        [PEFT_WEIGHTS, writeSafetensorsPlainly(first, { format: 'pt' })],
      ]),
      new Map([
        [
          OWN,
          writeSafetensorsPlainly(
            first.map(([name, a]) => [ownName(name), a]),
            { lora_alpha: '6' },
          ),
        ],
      ]),
    ];
  },
  mutate: (name) => (name.endsWith('.json') ? mutateJson : mutateSafetensors),
  async read(folder, files): Promise<Adapters> {
    const model = await smallModel();
    await loadAdapters(model, files.has(OWN) ? path.join(folder, OWN) : folder);
    const arrays = new Map<string, HostArray>();
    for (const [name, t] of loraStateDict(model))
      arrays.set(name, { dtype: t.dtype, shape: t.shape, data: await t.data() });
    const [{ rank, alpha }] = [...adaptersOf(model).values()] as [LoraLinear];
    return { rank, alpha, arrays };
  },
  legal: ({ after, value }) =>
    strictly(
      () => readSafetensorsStrictly((after.get(OWN) ?? after.get(PEFT_WEIGHTS))!),
      (told) => {
        const { rank, alpha, arrays } = value as Adapters;
        const said = after.has(OWN) ? {} : JSON.parse(after.get(PEFT_CONFIG)!.toString());
        if (said.r !== undefined && rank !== said.r) return `rank ${rank}, the file says ${said.r}`;
        if (said.lora_alpha !== undefined && alpha !== said.lora_alpha)
          return `alpha ${alpha}, the file says ${said.lora_alpha}`;
        if (!positive(alpha) || !whole(rank)) return `rank ${rank}, alpha ${alpha}`;
        for (const [name, { dtype, bytes }] of told) {
          const ours = arrays.get(ownName(name));
          if (!ours) return `${name} is missing`;
          if (dtype === 'F32' && !bytesOf(ours).equals(bytes)) return `${name} has other elements than the file`;
        }
        return arrays.size === told.size ? undefined : `${arrays.size} arrays of ${told.size}`;
      },
    ),
};

export const MODELS: readonly Target[] = [config, generation, tokenizer, peft];
