// Converts a tokenizer.json to the metadata from which llama.cpp builds its tokenizer: tokens with their kinds, merges
// (byte-level) or scores (SentencePiece), and the name of the pre-tokenizer.
import path from 'node:path';
import * as v from 'valibot';
import { ArgumentError } from '../base/errors.js';
import { anyObject, checkJson, flag, list, object, optional, type Read, readJson, text, whole } from '../base/json.js';
import type { GgufValue } from '../io/index.js';
import type { DecoderConfig } from '../models/config.js';
import { string, u32 } from '../models/gguf-form.js';
import type { Tokenizer } from '../models/index.js';
import { pieceDecoder } from '../models/pieces.js';

export interface GgufVocabulary {
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** tokenizer.ggml.model: gpt2 is byte-level, llama SentencePiece. */
  readonly model: 'gpt2' | 'llama';
  readonly pre: string;
  readonly size: number;
  readonly notes: readonly string[];
}

/** llama.cpp's kinds of tokens. */
const KIND = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

const STEP = {
  type: text,
  pattern: optional(object({ Regex: optional(text), String: optional(text) })),
  use_regex: optional(flag),
  individual_digits: optional(flag),
  prepend_scheme: optional(text),
  add_prefix_space: optional(flag),
};
const StepSchema = object(STEP);
const StepsSchema = optional(
  object({ ...STEP, pretokenizers: optional(list(StepSchema)), normalizers: optional(list(StepSchema)) }),
);
const VocabularySchema = object({
  normalizer: StepsSchema,
  pre_tokenizer: StepsSchema,
  model: object({
    vocab: anyObject,
    merges: list(v.union([text, list(text)])),
    byte_fallback: optional(flag),
    ignore_merges: optional(flag),
    unk_token: optional(text),
  }),
  added_tokens: list(object({ id: whole(), content: text, special: optional(flag) })),
});
type Json = Read<typeof VocabularySchema>;
type Step = Read<typeof StepSchema>;

/** Reads the tokenizer of a model's folder. */
export async function ggufVocabulary(
  folder: string,
  tokenizer: Tokenizer,
  config: DecoderConfig,
  givenPre?: string,
): Promise<GgufVocabulary> {
  const file = path.join(folder, 'tokenizer.json');
  const json = checkJson(await readJson(file, anyObject), file, VocabularySchema);
  const isByteLevel = pieceDecoder(await readJson(file, anyObject), file).kind === 'bytes';
  const model = isByteLevel ? 'gpt2' : 'llama';
  const pre = givenPre ?? (isByteLevel ? preOf(json, file) : 'default');
  const { tokens, kinds } = tokensOf(json, file, config.vocabSize, isByteLevel);
  const merges = json.model.merges.map((m) => (typeof m === 'string' ? m.split(' ') : m));
  const ids = new Map(Object.entries(json.model.vocab as Record<string, number>));
  for (const { content, id } of json.added_tokens) ids.set(content, id);
  const idOf = (name: string, otherwise: number | null | undefined): number | undefined =>
    ids.get(tokenizer.specialTokens[name] ?? '') ?? otherwise ?? undefined;
  const special = {
    bos_token_id: idOf('bos_token', config.bosTokenId),
    eos_token_id: idOf('eos_token', [config.eosTokenId].flat()[0]),
    unknown_token_id: idOf('unk_token', ids.get(json.model.unk_token ?? '')),
    padding_token_id: idOf('pad_token', config.padTokenId),
  };
  const [plain, whole] = [false, true].map((addSpecialTokens) => tokenizer.encode('a', { addSpecialTokens }));
  const hasBos = whole!.length > plain!.length && whole![0] === special.bos_token_id;
  const hasEos = whole!.length > plain!.length && whole!.at(-1) === special.eos_token_id;
  const own: Record<string, GgufValue> = {
    model: string(model),
    pre: string(pre),
    tokens: { type: 'array', of: 'string', value: tokens },
    token_type: { type: 'array', of: 'i32', value: kinds },
    ...(isByteLevel
      ? { merges: { type: 'array', of: 'string', value: merges.map((m) => m.join(' ')) } }
      : { scores: { type: 'array', of: 'f32', value: scoresOf(tokens, merges) } }),
    ...Object.fromEntries(
      Object.entries(special).flatMap(([key, id]) => (id === undefined ? [] : [[key, u32(id)] as const])),
    ),
    add_bos_token: { type: 'bool', value: hasBos },
    add_eos_token: { type: 'bool', value: hasEos },
    add_space_prefix: { type: 'bool', value: beginsWithSpace(json) },
  };
  const metadata = new Map<string, GgufValue>(
    Object.entries(own).map(([key, value]) => [`tokenizer.ggml.${key}`, value]),
  );
  if (tokenizer.chatTemplate !== undefined) metadata.set('tokenizer.chat_template', string(tokenizer.chatTemplate));
  return {
    metadata,
    model,
    pre,
    size: tokens.length,
    notes: notesOf(json, isByteLevel ? 0 : unmergedPairs(tokens, kinds, merges)),
  };
}

/** A token for every id of the model: ids unknown to the tokenizer are [PAD...]. */
function tokensOf(json: Json, file: string, size: number, isByteLevel: boolean) {
  const tokens = Array.from({ length: size }, (_, i) => `[PAD${i}]`);
  const kinds: number[] = tokens.map(() => KIND.unused);
  const put = (id: number, token: string, kind: number): void => {
    if (id >= size)
      throw new ArgumentError(
        `${file}: the token ${JSON.stringify(token)} has the id ${id}, but vocab_size is ${size}`,
      );
    tokens[id] = token;
    kinds[id] = kind;
  };
  const { vocab, byte_fallback, unk_token } = json.model;
  for (const [token, id] of Object.entries(vocab as Record<string, number>)) {
    const isByte = byte_fallback && /^<0x[0-9A-F]{2}>$/.test(token);
    put(id, token, token === unk_token ? KIND.unknown : isByte ? KIND.byte : KIND.normal);
  }
  for (const { id, content, special } of json.added_tokens) {
    const isUnknown = content === unk_token && !isByteLevel;
    const kind = isUnknown ? KIND.unknown : special || looksSpecial(content) ? KIND.control : KIND.userDefined;
    put(id, kind === KIND.userDefined ? content.replaceAll('▁', ' ') : content, kind);
  }
  return { tokens, kinds };
}
/** Some files have marks of conversations as ordinary tokens; llama.cpp's converter takes these for special, too. */
const looksSpecial = (token: string): boolean =>
  ['<pad>', '<mask>', '<2mass>', '[@BOS@]'].includes(token) || /^(<\|.*\|>|<｜.*｜>|<unused.*>)$/s.test(token);

/** SentencePiece joins what gives the token of the largest score: that of the first merge has the largest. */
function scoresOf(tokens: readonly string[], merges: readonly (readonly string[])[]): number[] {
  const first = new Map<string, number>();
  for (const [rank, pair] of merges.entries()) {
    const made = pair.join('');
    if (!first.has(made)) first.set(made, rank);
  }
  return tokens.map((token) => -(first.get(token) ?? merges.length));
}

/** The number of pairs of tokens that form a token but have no merge. 0 in files converted from SentencePiece. */
function unmergedPairs(tokens: readonly string[], kinds: readonly number[], merges: readonly (readonly string[])[]) {
  const normal = new Set(tokens.filter((_, i) => kinds[i] === KIND.normal));
  const joined = new Set(merges.map((pair) => pair.join('\0')));
  let missing = 0;
  for (const token of normal) {
    const characters = [...token];
    for (let i = 1; i < characters.length; i++) {
      const pair = [characters.slice(0, i).join(''), characters.slice(i).join('')];
      if (pair.every((part) => normal.has(part)) && !joined.has(pair.join('\0'))) missing++;
    }
  }
  return missing;
}

const stepsOf = (given: Json['pre_tokenizer'] | undefined): readonly Step[] =>
  given ? (given.pretokenizers ?? given.normalizers ?? [given]) : [];

/** Whether the text is prefixed with a space. */
const beginsWithSpace = ({ normalizer, pre_tokenizer }: Json): boolean =>
  [...stepsOf(normalizer), ...stepsOf(pre_tokenizer)].some(
    ({ type, prepend_scheme, add_prefix_space }) =>
      type === 'Prepend' ||
      (type === 'Metaspace' && (prepend_scheme ? prepend_scheme !== 'never' : add_prefix_space !== false)) ||
      (type === 'ByteLevel' && add_prefix_space === true),
  );

function notesOf({ normalizer }: Json, missing: number): string[] {
  const forms = stepsOf(normalizer).filter(({ type }) => !['Prepend', 'Replace'].includes(type));
  return [
    ...(forms.length ? [`llama.cpp leaves out the normalizer ${forms.map((f) => f.type).join(', ')}`] : []),
    ...(missing
      ? [`llama.cpp joins ${missing} pairs of tokens that no merge joins: it may split text differently`]
      : []),
  ];
}

// ---- pre-tokenizers

const [ENDS, LINES] = ["(?i:'s|'t|'re|'ve|'m|'ll|'d)", '|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'];
const WORD = '[^\\r\\n\\p{L}\\p{N}]?';
const [UPPER, LOWER] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'];
const cased = (ends: string): string => `${WORD}${UPPER}*${LOWER}+${ends}|${WORD}${UPPER}+${LOWER}*${ends}`;
/** By the regular expression of the pre-tokenizer. */
const PRE: ReadonlyMap<string, string> = new Map([
  [`${ENDS}|${WORD}\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*${LINES}`, 'llama-bpe'],
  [`${ENDS}|${WORD}\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*${LINES}`, 'qwen2'],
  [`${cased('')}|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*${LINES}`, 'tekken'],
  [`${cased(`${ENDS}?`)}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*${LINES}`, 'gpt-4o'],
]);

/** llama.cpp's name (tokenizer.ggml.pre) of the pre-tokenizer of a byte-level tokenizer. */
function preOf({ pre_tokenizer, model }: Json, file: string): string {
  const steps = stepsOf(pre_tokenizer);
  const kinds = steps.map((s) => s.type).join();
  const [first] = steps;
  if (kinds === 'ByteLevel' && first!.use_regex !== false) return 'gpt-2';
  if (kinds === 'Digits,ByteLevel' && first!.individual_digits && steps[1]!.use_regex !== false) return 'smollm';
  const found = kinds === 'Split,ByteLevel' && PRE.get(first!.pattern?.Regex ?? '');
  if (found) return found === 'llama-bpe' && !model.ignore_merges ? 'dbrx' : found; // the same, with merges obeyed
  throw new ArgumentError(
    `${file}: llama.cpp's name for the way this tokenizer splits text is not known here (${kinds || 'no pre_tokenizer'}${
      first?.pattern?.Regex ? `: ${first.pattern.Regex}` : ''
    }): name it with tokenizerPre (--tokenizer-pre), as convert_hf_to_gguf.py of llama.cpp prints it`,
  );
}
