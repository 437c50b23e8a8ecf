// What bench/decode.ts and bench/zoo.ts measure of generation: a model of 98 million parameters, its prompts, and our side.
import type { AutoModelForCausalLM } from 'tsxla/models';

/** 98 million parameters. */
export const SIZES = {
  vocab_size: 32000,
  hidden_size: 768,
  intermediate_size: 2304,
  num_hidden_layers: 10,
  num_attention_heads: 12,
  num_key_value_heads: 4,
  head_dim: 64,
  max_position_embeddings: 2048,
  tie_word_embeddings: true,
};

type Model = ReturnType<typeof AutoModelForCausalLM.fromConfig>;

export interface Turn {
  readonly prompt: number;
  readonly step: number;
  /** Processor milliseconds of a step. */
  readonly cpu: number;
  /** The new tokens. */
  readonly ids: number[][];
}

/** Generates that many tokens after the first one, greedily. */
export async function decode(model: Model, prompts: number, length: number, tokens: number): Promise<Turn> {
  const prompt = Array.from({ length: prompts }, (_, i) =>
    Array.from({ length }, (_, j) => 1 + ((i * 7919 + j * 104729) % (SIZES.vocab_size - 1))),
  );
  const start = process.cpuUsage();
  let first = start;
  const stream = model.generateStream(prompt, { doSample: false, maxNewTokens: 1 + tokens, eosTokenIds: [] });
  let read = 0;
  const ids = Array.from({ length: prompts }, (): number[] => []);
  for await (const { index, token } of stream) {
    ids[index]!.push(token);
    if (++read === prompts) first = process.cpuUsage(); // the prompts are read
  }
  const { user, system } = process.cpuUsage(first);
  const { promptSeconds, decodeSeconds } = stream.timings;
  const step = (decodeSeconds / tokens) * 1e3;
  return { prompt: promptSeconds * 1e3, step, cpu: (user + system) / 1e3 / tokens, ids };
}
