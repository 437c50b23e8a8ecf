// Generation on a GPU, in bf16 with random weights: tokens per second for 1 and 32 prompts of 128 tokens, 256 more each. Beside it,
// in the same run: python bench/peers/generate_torch.py
//   node bench/generate-cuda.mjs [--models qwen3-0.6b,llama-3.2-1b] [--prompts 1,32] [--rounds 3] [--tokens 256]
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import * as tx from '../dist/index.js';

const { values } = parseArgs({
  options: {
    models: { type: 'string', default: 'qwen3-0.6b,llama-3.2-1b' },
    prompts: { type: 'string', default: '1,32' },
    length: { type: 'string', default: '128' },
    tokens: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '3' },
  },
});
const configs = JSON.parse(readFileSync(new URL('peers/generate.json', import.meta.url), 'utf8'));
const [length, tokens, rounds] = [values.length, values.tokens, values.rounds].map(Number);
const median = (xs) => xs.toSorted((a, b) => a - b)[xs.length >> 1];

for (const name of values.models.split(',')) {
  tx.manualSeed(0);
  const model = tx.models.AutoModelForCausalLM.fromConfig(configs[name]).to('bf16').eval();
  const { vocab_size: V } = configs[name];
  for (const prompts of values.prompts.split(',').map(Number)) {
    const ids = Array.from({ length: prompts }, (_, i) =>
      Array.from({ length }, (_, j) => 1 + ((i * 7919 + j * 104729) % (V - 1))),
    );
    const run = async () => {
      const stream = model.generateStream(ids, { doSample: false, maxNewTokens: tokens, eosTokenIds: [] });
      const begin = performance.now();
      let parts = 0;
      for await (const _ of stream) parts++;
      return { all: (performance.now() - begin) / 1e3, parts, ...stream.timings };
    };
    const first = await run();
    const turns = [];
    for (let i = 0; i < rounds; i++) turns.push(await run());
    const rate = median(turns.map((t) => t.parts / t.all));
    const decode = median(turns.map((t) => (t.parts - prompts) / t.decodeSeconds));
    console.log(
      `tsxla ${name}, ${prompts} x ${length} + ${tokens}: ${rate.toFixed(0)} tokens/s in all, decoding ${decode.toFixed(0)}, ` +
        `prompts ${(1e3 * median(turns.map((t) => t.promptSeconds))).toFixed(1)} ms, compile ${first.compileSeconds.toFixed(1)} s`,
    );
  }
}
