// Tokenizers: text to tokens and back, with Hugging Face's libraries, which are loaded when first needed.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import fs from 'node:fs/promises';
import path from 'node:path';
import type { Template } from '@huggingface/jinja';
import type { Tokenizer as Library } from '@huggingface/tokenizers';
import * as v from 'valibot';
import { ArgumentError, FileError } from '../base/errors.js';
import { anyObject, checkJson, flag, list, object, optional, type Read, readJson, text, whole } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { describe } from '../base/tree.js';
import { readSet } from '../io/file.js';
import { decodePieces, type PieceDecoder, type PieceOf, pieceDecoder, TextStream } from './pieces.js';

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly [field: string]: unknown;
}
export interface ChatOptions {
  /** Append the beginning of an answer. Default: true, unlike transformers. Alias: `add_generation_prompt`. */
  readonly addGenerationPrompt?: boolean;
  readonly tools?: readonly unknown[];
  /** Other variables of the template, such as enable_thinking. */
  readonly [variable: string]: unknown;
}

/** The largest token id. Limited because the library allocates an array of this size; vocabularies have some 100,000 tokens. */
const LARGEST_ID = 2 ** 24 - 1;
const id = whole(0, LARGEST_ID);
const TokenizerSchema = object({
  decoder: v.unknown(),
  model: object({
    type: optional(v.literal('BPE', '"BPE"')),
    vocab: anyObject,
    merges: list(
      v.union([text, v.pipe(list(text), v.length(2))], 'two tokens, as a list or with a space between them'),
    ),
  }),
  added_tokens: list(object({ id, content: text, special: optional(flag) })),
});
const named = v.union([text, object({ content: text })], 'a string or { "content": a string }');
const TokenizerConfigSchema = object({
  ...Object.fromEntries(['bos', 'eos', 'pad', 'unk'].map((name) => [`${name}_token`, optional(named)])),
  chat_template: optional(
    v.union(
      [text, list(object({ name: text, template: text }))],
      'a string, or a list of { "name", "template" } with strings',
    ),
  ),
});
type TokenizerConfig = Read<typeof TokenizerConfigSchema>;

/** The tokenizer of a model: text to tokens and back, and conversations to text. */
export class Tokenizer {
  readonly #library: Library;
  readonly #special: ReadonlySet<number>;
  readonly #added: ReadonlyMap<number, string>;
  readonly #template: Template | undefined;
  readonly #decoder: PieceDecoder;
  /** bos_token, eos_token and so on, by their names in templates. */
  readonly specialTokens: Readonly<Record<string, string>>;

  private constructor(
    library: Library,
    config: TokenizerConfig,
    template: Template | undefined,
    decoder: PieceDecoder,
    /** The template of conversations (chat_template in transformers). */
    readonly chatTemplate: string | undefined,
    /** tokenizer.json, for errors. */
    readonly file: string,
  ) {
    this.#library = library;
    this.#decoder = decoder;
    const added = [...library.get_added_tokens_decoder()];
    this.#added = new Map(added.map(([id, t]) => [id, t.content]));
    this.#special = new Set(added.filter(([, t]) => t.special).map(([id]) => id));
    this.#template = template;
    const named = Object.entries(config).filter(([name]) => /^[a-z]+_token$/.test(name) && !name.startsWith('add'));
    const text = (t: unknown) => (typeof t === 'string' ? t : (t as { content?: string } | null)?.content);
    this.specialTokens = Object.fromEntries(named.flatMap(([name, t]) => (text(t) ? [[name, text(t)!]] : [])));
  }

  /** Loads tokenizer.json from a folder, and the chat template from chat_template.jinja or tokenizer_config.json. */
  static async fromPretrained(folder: string): Promise<Tokenizer> {
    const file = path.join(folder, 'tokenizer.json');
    const [json, config, own] = await readSet(folder, async () => [
      await readJson(file, anyObject),
      (await readJson(path.join(folder, 'tokenizer_config.json'), TokenizerConfigSchema)) ?? {},
      await fs.readFile(path.join(folder, 'chat_template.jinja'), 'utf8').catch(() => undefined),
    ]);
    if (!json) throw new ArgumentError(withoutTokenizer(folder));
    const decoder = pieceDecoder(json, file);
    checkVocabulary(file, checkJson(json, file, TokenizerSchema).model.vocab);
    const template = own ?? templateOf(config.chat_template);
    const { Tokenizer: Library } = await import('@huggingface/tokenizers');
    const { Template } = await import('@huggingface/jinja');
    try {
      return new Tokenizer(
        new Library(json, config),
        config,
        template ? new Template(template) : undefined,
        decoder,
        template,
        file,
      );
    } catch (e) {
      throw new ArgumentError(`the tokenizer of ${folder} cannot be used: ${messageOf(e)}`, { cause: e });
    }
  }

  /** A hash of the vocabulary: equal for tokenizers with the same token ids, however their files are written. */
  get hash(): string {
    const tokens = [...this.#library.get_vocab(true)].sort(([, a], [, b]) => a - b);
    return createHash('sha256').update(JSON.stringify(tokens)).digest('hex');
  }

  encode(text: string, options: { readonly addSpecialTokens?: boolean } = {}): number[] {
    checkOptions('Tokenizer.encode', ['addSpecialTokens'], options);
    if (typeof text !== 'string')
      throw new ArgumentError(
        `Tokenizer.encode: expected a string, got ${describe(text)}. For several strings call encode for each`,
      );
    const { addSpecialTokens = true } = options;
    const { ids, tokens } = this.#encoded(text, addSpecialTokens);
    const unknown = ids.findIndex((id: number | undefined) => id === undefined);
    if (unknown >= 0)
      throw new ArgumentError(
        `Tokenizer.encode: ${describe(tokens[unknown])} is not in the vocabulary of ${this.file}: use the tokenizer.json of the model`,
      );
    return ids;
  }
  decode(ids: readonly number[], options: { readonly skipSpecialTokens?: boolean } = {}): string {
    checkOptions('Tokenizer.decode', ['skipSpecialTokens'], options);
    const { skipSpecialTokens = true } = options;
    return decodePieces(this.#decoder, this.#pieces(skipSpecialTokens), ids);
  }
  /** Decodes token by token, in whole characters. */
  stream(options: { readonly skipSpecialTokens?: boolean } = {}): TextStream {
    checkOptions('Tokenizer.stream', ['skipSpecialTokens'], options);
    const { skipSpecialTokens = true } = options;
    return new TextStream(this.#decoder, this.#pieces(skipSpecialTokens));
  }

  /** The text of a conversation, in the format that the model was trained on. */
  applyChatTemplate(messages: readonly ChatMessage[], options: ChatOptions = {}): string {
    if (!this.#template)
      throw new ArgumentError('applyChatTemplate: the model has no chat template: pass plain text to generate');
    if (!Array.isArray(messages) || messages.some((m) => typeof m !== 'object' || m === null))
      throw new ArgumentError(
        `applyChatTemplate: the messages are ${describe(messages)}: pass a list such as [{ role: 'user', content: 'Hello' }]`,
      );
    const { add_generation_prompt: asInPython = true, addGenerationPrompt = asInPython, ...variables } = options;
    try {
      return this.#template.render({
        ...this.specialTokens,
        ...variables,
        messages,
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (e) {
      throw new ArgumentError(`applyChatTemplate: ${messageOf(e)}`, { cause: e });
    }
  }

  #encoded(text: string, addSpecialTokens: boolean): ReturnType<Library['encode']> {
    try {
      return this.#library.encode(text, { add_special_tokens: addSpecialTokens });
    } catch (e) {
      throw new ArgumentError(`Tokenizer.encode: ${this.file} cannot be used: ${messageOf(e)}`, { cause: e });
    }
  }
  #pieces(skipSpecial: boolean): PieceOf {
    return (id) => {
      if (skipSpecial && this.#special.has(id)) return null;
      const added = this.#added.get(id);
      return { piece: added ?? this.#library.id_to_token(id) ?? '', isAdded: added !== undefined };
    };
  }
}
/** Throws unless all ids are valid indices of an array. */
function checkVocabulary(file: string, vocabulary: object): void {
  for (const [token, id] of Object.entries(vocabulary))
    if (!Number.isInteger(id) || id < 0 || id > LARGEST_ID)
      throw new FileError(
        `${file}: the token ${brief(token)} has the id ${brief(id)}: expected a whole number from 0 to ${LARGEST_ID}`,
      );
}
const brief = (x: unknown): string => (JSON.stringify(x) ?? String(x)).slice(0, 60);

/** Files of tokenizers in other formats. */
const OTHER_FORMS = ['tokenizer.model', 'tekken.json', 'vocab.json'];
/** The error for a folder without tokenizer.json. */
export function withoutTokenizer(folder: string): string {
  const other = OTHER_FORMS.find((name) => existsSync(path.join(folder, name)));
  if (!other) return `${folder} has no tokenizer.json: pass token ids instead of text`;
  return (
    `${folder} has ${other} but no tokenizer.json, the only supported format: write one with transformers, ` +
    `python -c "from transformers import AutoTokenizer as T; T.from_pretrained('${folder}').save_pretrained('${folder}')"`
  );
}

/** tokenizer_config.json has one template, or several with names. */
function templateOf(given: TokenizerConfig['chat_template']): string | undefined {
  if (!Array.isArray(given)) return given;
  return (given.find((t) => t.name === 'default') ?? given[0])?.template;
}
