// Text to tokens and back, with Hugging Face's own libraries, which are loaded when first needed.
import { createHash } from 'node:crypto';
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

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly [field: string]: unknown;
}
export interface ChatOptions {
  /** Ends with the beginning of an answer: true unless told, unlike transformers. `add_generation_prompt` is the same. */
  readonly addGenerationPrompt?: boolean;
  readonly tools?: readonly unknown[];
  /** Whatever else a template knows (enable_thinking), by the names it uses. */
  readonly [variable: string]: unknown;
}

/** The largest id of a token: the library makes an array of as many. Vocabularies have some 100,000 tokens. */
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

/** Text to tokens and back, and conversations to text, as the files in a model's folder say. */
export class Tokenizer {
  readonly #library: Library;
  readonly #special: ReadonlySet<number>;
  readonly #added: ReadonlyMap<number, string>;
  readonly #template: Template | undefined;
  /** bos_token, eos_token and so on, as templates call them. */
  readonly specialTokens: Readonly<Record<string, string>>;

  private constructor(
    library: Library,
    config: TokenizerConfig,
    template: Template | undefined,
    /** tokenizer.json, for errors. */
    readonly file: string,
  ) {
    this.#library = library;
    const added = [...library.get_added_tokens_decoder()];
    this.#added = new Map(added.map(([id, t]) => [id, t.content]));
    this.#special = new Set(added.filter(([, t]) => t.special).map(([id]) => id));
    this.#template = template;
    const named = Object.entries(config).filter(([name]) => /^[a-z]+_token$/.test(name) && !name.startsWith('add'));
    const text = (t: unknown) => (typeof t === 'string' ? t : (t as { content?: string } | null)?.content);
    this.specialTokens = Object.fromEntries(named.flatMap(([name, t]) => (text(t) ? [[name, text(t)!]] : [])));
  }

  /** From a folder with tokenizer.json; its chat template from chat_template.jinja or tokenizer_config.json. */
  static async fromPretrained(folder: string): Promise<Tokenizer> {
    const file = path.join(folder, 'tokenizer.json');
    const [json, config, own] = await readSet(folder, async () => [
      await readJson(file, anyObject),
      (await readJson(path.join(folder, 'tokenizer_config.json'), TokenizerConfigSchema)) ?? {},
      await fs.readFile(path.join(folder, 'chat_template.jinja'), 'utf8').catch(() => undefined),
    ]);
    if (!json) throw new ArgumentError(`${folder} has no tokenizer.json: give token ids instead of text`);
    if (!JSON.stringify(Object(json).decoder ?? null).includes('"ByteLevel"'))
      throw new ArgumentError(`${folder}: this reads byte-level tokenizers, as Qwen's; its decoder is another`);
    checkVocabulary(file, checkJson(json, file, TokenizerSchema).model.vocab);
    const template = own ?? templateOf(config.chat_template);
    const { Tokenizer: Library } = await import('@huggingface/tokenizers');
    const { Template } = await import('@huggingface/jinja');
    try {
      return new Tokenizer(new Library(json, config), config, template ? new Template(template) : undefined, file);
    } catch (e) {
      throw new ArgumentError(`the tokenizer of ${folder} cannot be used: ${messageOf(e)}`, { cause: e });
    }
  }

  /** The same for tokenizers whose token ids mean the same texts, however their files are written. */
  get hash(): string {
    const tokens = [...this.#library.get_vocab(true)].sort(([, a], [, b]) => a - b);
    return createHash('sha256').update(JSON.stringify(tokens)).digest('hex');
  }

  encode(text: string, options: { readonly addSpecialTokens?: boolean } = {}): number[] {
    checkOptions('Tokenizer.encode', ['addSpecialTokens'], options);
    if (typeof text !== 'string')
      throw new ArgumentError(`Tokenizer.encode: takes a text, got ${describe(text)}: of several, encode each`);
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
    const stream = new TextStream((id) => this.#bytesOf(id, skipSpecialTokens));
    return ids.map((id) => stream.push(id)).join('') + stream.end();
  }
  /** Text token by token, in whole characters. */
  stream(options: { readonly skipSpecialTokens?: boolean } = {}): TextStream {
    checkOptions('Tokenizer.stream', ['skipSpecialTokens'], options);
    const { skipSpecialTokens = true } = options;
    return new TextStream((id) => this.#bytesOf(id, skipSpecialTokens));
  }

  /** The text of a conversation, as the model was trained on it. */
  applyChatTemplate(messages: readonly ChatMessage[], options: ChatOptions = {}): string {
    if (!this.#template)
      throw new ArgumentError('applyChatTemplate: the model has no chat template: it continues plain text');
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
  #bytesOf(id: number, skipSpecial: boolean): Uint8Array {
    if (skipSpecial && this.#special.has(id)) return NOTHING;
    const added = this.#added.get(id);
    if (added !== undefined) return new TextEncoder().encode(added);
    return Uint8Array.from([...(this.#library.id_to_token(id) ?? '')], (c) => BYTES.get(c) ?? 0);
  }
}
const NOTHING = new Uint8Array();

/** Half a character is kept until the rest of it comes. */
export class TextStream {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #bytesOf: (id: number) => Uint8Array;
  constructor(bytesOf: (id: number) => Uint8Array) {
    this.#bytesOf = bytesOf;
  }
  push(id: number): string {
    return this.#decoder.decode(this.#bytesOf(id), { stream: true });
  }
  /** What is left: half a character becomes U+FFFD. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** Byte-level vocabularies write each byte as a printable character: itself where it is one, else one from U+0100 on. */
const BYTES: ReadonlyMap<string, number> = (() => {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 255 && b !== 173);
  let next = 256;
  return new Map(Array.from({ length: 256 }, (_, b) => [String.fromCharCode(printable(b) ? b : next++), b]));
})();

/** Every token has an id that an array can have as an index. */
function checkVocabulary(file: string, vocabulary: object): void {
  for (const [token, id] of Object.entries(vocabulary))
    if (!Number.isInteger(id) || id < 0 || id > LARGEST_ID)
      throw new FileError(
        `${file}: the token ${brief(token)} has the id ${brief(id)}: expected a whole number from 0 to ${LARGEST_ID}`,
      );
}
const brief = (x: unknown): string => (JSON.stringify(x) ?? String(x)).slice(0, 60);

/** tokenizer_config.json has one template, or several with names. */
function templateOf(given: TokenizerConfig['chat_template']): string | undefined {
  if (!Array.isArray(given)) return given;
  return (given.find((t) => t.name === 'default') ?? given[0])?.template;
}
