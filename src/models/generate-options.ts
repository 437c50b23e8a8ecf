// The options of generate(), and their checks.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, shown } from '../base/tree.js';
import { ASSISTANT_TOKENS } from './assisted.js';
import { BEAMS, type BeamOptions } from './beams.js';
import type { CausalLM } from './generate.js';
import { PROCESSORS, type ProcessorOptions, ProcessorPlan } from './processors.js';
import { SAMPLING, type SamplingOptions, samplingSettings } from './sampling.js';

export interface GenerateOptions extends SamplingOptions, ProcessorOptions, BeamOptions {
  /** The largest number of tokens to generate. Default: 256. */
  readonly maxNewTokens?: number;
  /** Draw tokens (sampling); false: always take the most likely token. */
  readonly doSample?: boolean;
  /** Number of sequences for each prompt: samples, or the best of numBeams. Those of a prompt are adjacent. Default: 1. */
  readonly numReturnSequences?: number;
  /** A smaller model with the same vocabulary that proposes tokens (speculative decoding). */
  readonly assistantModel?: CausalLM;
  /** Number of tokens that assistantModel proposes at a time. Default: 5. */
  readonly numAssistantTokens?: number;
  /** Seed of the sampling. Default: a random one. */
  readonly seed?: number | bigint;
  /** Strings that end a sequence; they are not part of the result. */
  readonly stop?: string | readonly string[];
  /** Tokens that end a sequence. Default: the model's. */
  readonly eosTokenIds?: number | readonly number[];
  /** Capacity of the key-value cache in tokens per sequence, with prompt and padding. Default: a sufficient power of two. */
  readonly cacheLength?: number;
}
const OPTIONS = [
  'maxNewTokens',
  'doSample',
  ...SAMPLING,
  ...PROCESSORS,
  ...BEAMS,
  'numReturnSequences',
  'assistantModel',
  'numAssistantTokens',
  'seed',
  'stop',
  'eosTokenIds',
  'cacheLength',
] as const satisfies (keyof GenerateOptions)[];

const DEFAULT_NEW_TOKENS = 256;

/** The checked options of a generation. */
export interface GenerationPlan {
  readonly kind: 'tokens' | 'beams' | 'assisted';
  /** Number of sequences of each prompt that are computed; `returned` is the number that is returned. */
  readonly copies: number;
  readonly returned: number;
  readonly newTokens: number;
  readonly samples: boolean;
  /** The settings of `sample`. */
  readonly settings: Float32Array;
  readonly processors: ProcessorPlan;
  readonly ends: ReadonlySet<number>;
  readonly stops: readonly string[];
  readonly beams: BeamOptions;
  readonly assistant: CausalLM | undefined;
  readonly proposed: number;
  readonly seed: number | bigint | undefined;
  readonly cacheLength: number | undefined;
}

/** Whether given options ask for sampling, whatever the model's generation_config.json says. */
const asksForSampling = ({ doSample, temperature, ...options }: GenerateOptions): boolean =>
  doSample ??
  (temperature === undefined
    ? (['topK', 'topP', 'minP', 'typicalP', 'epsilonCutoff', 'etaCutoff'] as const).some(
        (o) => options[o] !== undefined,
      )
    : temperature > 0);

/** Given options override those of the model's generation_config.json. A given numBeams disables its sampling, and vice versa. */
function merged(model: CausalLM, given: GenerateOptions): GenerateOptions {
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as GenerateOptions;
  const all = { ...model.generationConfig, ...(asksForSampling(known) && { doSample: true }), ...known };
  if ((all.numBeams ?? 1) === 1 || !samplesWith(all)) return all;
  if (known.numBeams === undefined) return { ...all, numBeams: 1 };
  if (!asksForSampling(known)) return { ...all, doSample: false };
  throw new ArgumentError(
    `generate: numBeams is ${all.numBeams}, but beam search does not sample: leave out doSample, temperature and the other sampling options`,
  );
}
const samplesWith = ({ doSample = true, temperature = 1 }: GenerateOptions): boolean => doSample && temperature > 0;

/** Checks all options. `longest` is the length of the longest prompt. */
export function planOf(model: CausalLM, given: GenerateOptions, longest: number): GenerationPlan {
  checkOptions('generate', OPTIONS, given);
  const options = merged(model, given);
  const { vocabSize, maxPositionEmbeddings } = model.config;
  const { maxNewTokens = DEFAULT_NEW_TOKENS, numBeams = 1, numReturnSequences = 1, assistantModel } = options;
  checkWhole('generate: maxNewTokens', maxNewTokens, 1);
  checkWhole('generate: numBeams', numBeams, 1);
  checkWhole('generate: numReturnSequences', numReturnSequences, 1);
  const newTokens = Math.min(maxNewTokens, maxPositionEmbeddings - longest);
  const samples = samplesWith(options);
  const ends = new Set([options.eosTokenIds ?? []].flat());
  const stops = [options.stop ?? []].flat();
  if (stops.length && !model.tokenizer)
    throw new ArgumentError('generate: stop needs a tokenizer, and the model has none: use eosTokenIds');
  if (stops.includes(''))
    throw new ArgumentError('generate: stop has an empty string, which would end every sequence: remove it');
  checkBeams(given, { numBeams, numReturnSequences, samples, stops, assistantModel });
  checkAssistant(model, options);
  for (const token of ends) checkWhole('generate: eosTokenIds', token);
  const settings = samplingSettings(picked(options), vocabSize);
  if (!samples) settings[SAMPLING.indexOf('temperature')] = 0;
  return {
    kind: numBeams > 1 ? 'beams' : assistantModel ? 'assisted' : 'tokens',
    copies: Math.max(numBeams, numReturnSequences),
    returned: numReturnSequences,
    newTokens,
    samples,
    settings,
    processors: new ProcessorPlan(options, { vocabSize, ends, maxNewTokens: newTokens }),
    ends,
    stops,
    beams: options,
    assistant: assistantModel,
    proposed: options.numAssistantTokens ?? ASSISTANT_TOKENS,
    seed: options.seed,
    cacheLength: options.cacheLength,
  };
}
const picked = (options: SamplingOptions): SamplingOptions =>
  Object.fromEntries(SAMPLING.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])));

function checkBeams(
  given: GenerateOptions,
  options: Readonly<Record<'numBeams' | 'numReturnSequences', number>> & {
    readonly samples: boolean;
    readonly stops: readonly string[];
    readonly assistantModel: CausalLM | undefined;
  },
): void {
  const { numBeams, numReturnSequences: wanted, samples } = options;
  const { lengthPenalty = 1, earlyStopping = false } = given;
  if (!Number.isFinite(lengthPenalty))
    throw new ArgumentError(`generate: lengthPenalty is ${shown(lengthPenalty)}: it must be a number`);
  if (![true, false, 'never'].includes(earlyStopping))
    throw new ArgumentError(`generate: earlyStopping is ${shown(earlyStopping)}: it must be true, false or 'never'`);
  if (numBeams === 1) {
    const lone = (['lengthPenalty', 'earlyStopping'] as const).find((name) => given[name] !== undefined);
    if (lone) throw new ArgumentError(`generate: ${lone} is an option of beam search: pass numBeams as well`);
    if (wanted > 1 && !samples)
      throw new ArgumentError(
        `generate: numReturnSequences is ${wanted}, but all would be the same: pass doSample: true, or numBeams`,
      );
    return;
  }
  if (wanted > numBeams)
    throw new ArgumentError(
      `generate: numReturnSequences is ${wanted}: it must be at most numBeams, which is ${numBeams}`,
    );
  if (options.stops.length) throw new ArgumentError('generate: stop is not supported with numBeams: use eosTokenIds');
  if (options.assistantModel)
    throw new ArgumentError('generate: assistantModel is not supported with numBeams: leave one of them out');
}

function checkAssistant(model: CausalLM, { assistantModel, numAssistantTokens }: GenerateOptions): void {
  if (!assistantModel) {
    if (numAssistantTokens !== undefined)
      throw new ArgumentError(
        'generate: numAssistantTokens is an option of speculative decoding: pass assistantModel as well',
      );
    return;
  }
  if (typeof assistantModel.makeCache !== 'function')
    throw new ArgumentError(`generate: assistantModel is ${describe(assistantModel)}: it must be a model`);
  checkWhole('generate: numAssistantTokens', numAssistantTokens ?? ASSISTANT_TOKENS, 1);
  const [own, other] = [model.config.vocabSize, assistantModel.config.vocabSize];
  if (own !== other)
    throw new ArgumentError(
      `generate: assistantModel has a vocabulary of ${other} tokens, the model of ${own}: they must be the same`,
    );
}
