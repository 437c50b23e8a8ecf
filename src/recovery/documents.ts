// Reads files of texts, tasks or chats as rows of tokens, with a mask of the tokens to predict.
import { DataError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import type { Document, IterableDataset } from '../data/index.js';
import { CacheRows, endOfText, itemsOf, tokensOf } from '../distill/cache-rows.js';
import type { ChatMessage, Tokenizer } from '../models/index.js';
import type { Settings } from './options.js';

type TextSettings = Pick<
  Settings,
  'trainData' | 'textField' | 'datasetFormat' | 'templateMode' | 'loraMode' | 'shuffle' | 'seed'
>;

/** Rows are shuffled within a window of this size. */
const SHUFFLED = 4096;

/** Rows of L tokens, into which documents are packed. */
export async function textRows(
  s: TextSettings,
  tokenizer: Tokenizer,
  length: number,
  vocabSize: number,
): Promise<IterableDataset<Readonly<Record<string, unknown>>>> {
  const separator = endOfText(tokenizer);
  const field = s.datasetFormat === 'text' ? s.textField : '';
  const documents = itemsOf(s.trainData!, { field, by: 'paragraph' }).map((item) =>
    documentOf(item, s, tokenizer, separator),
  );
  for await (const _ of documents) break; // the first document shows whether --dataset-format is right
  const rows = new CacheRows(documents, { length, pack: true, padValue: separator ?? 0, vocabSize });
  const mixed = s.shuffle ? rows.shuffle(SHUFFLED, s.seed) : rows;
  return mixed.map(({ inputIds, lossMask }) => ({ inputIds, lossMask }));
}

/** `enable_thinking` of the chat template for each form; null: no template. */
const FORMS = {
  none: [null],
  'no-think': [false],
  think: [true],
  both: [false, true],
  all: [null, false, true],
} as const;

/** One item in all requested forms, concatenated. With sft only the last answer of a chat is predicted. */
function documentOf(item: unknown, s: TextSettings, tokenizer: Tokenizer, separator: number | null): Document {
  if (s.datasetFormat === 'text' && s.templateMode === 'none' && s.loraMode !== 'sft')
    return tokensOf(item, tokenizer, { field: s.textField, by: 'paragraph', separator });
  const messages = messagesOf(item, s);
  const tokens: number[] = [];
  const labels: number[] = [];
  const add = (text: string, counts: boolean) => {
    const ids = tokenizer.encode(text, { addSpecialTokens: false });
    tokens.push(...ids);
    labels.push(...(counts ? ids : ids.map(() => -100)));
  };
  for (const thinking of FORMS[s.templateMode]) {
    const [question, answer] = split(messages, thinking, tokenizer);
    add(question, s.loraMode !== 'sft');
    add(answer, true);
    if (separator !== null) {
      tokens.push(separator);
      labels.push(separator);
    }
  }
  return { tokens, labels };
}

/** Splits the text of a chat into the prompt and the last answer. */
function split(messages: readonly ChatMessage[], thinking: boolean | null, tokenizer: Tokenizer): [string, string] {
  const last = messages.at(-1)!;
  const before = last.role === 'assistant' ? messages.slice(0, -1) : [];
  if (thinking === null) return [before.map((m) => `${m.content}\n`).join(''), last.content];
  const options = { enable_thinking: thinking };
  const whole = tokenizer.applyChatTemplate(messages, { ...options, addGenerationPrompt: false });
  const given = before.length ? tokenizer.applyChatTemplate(before, options) : '';
  let n = 0; // a template may write the start of an answer differently if the answer is present
  while (n < given.length && given[n] === whole[n]) n++;
  return [whole.slice(0, n), whole.slice(n)];
}

const ROLES: Readonly<Record<string, string>> = {
  human: 'user',
  gpt: 'assistant',
  bing: 'assistant',
  chatgpt: 'assistant',
};

function messagesOf(item: unknown, { datasetFormat, textField }: TextSettings): ChatMessage[] {
  const record = (typeof item === 'object' && item !== null ? item : { [textField]: item }) as Record<string, unknown>;
  const text = (name: string, otherwise?: string): string => {
    const value = record[name] ?? otherwise;
    if (typeof value === 'string') return value;
    throw new DataError(
      `--dataset-format ${datasetFormat}: an object has no string field '${name}'; its fields are ${Object.keys(record).join(', ')}`,
    );
  };
  if (datasetFormat === 'alpaca') {
    const [instruction, input] = [text('instruction'), text('input', '')];
    return [
      { role: 'user', content: input ? `${instruction}\n\n${input}` : instruction },
      { role: 'assistant', content: text('output') },
    ];
  }
  if (datasetFormat === 'sharegpt') {
    const turns = record.conversations ?? record.messages;
    if (!Array.isArray(turns) || !turns.length)
      throw new DataError(
        `--dataset-format sharegpt: an object has no list 'conversations'; its fields are ${Object.keys(record).join(', ')}`,
      );
    return turns.map(({ from, value, role, content }: Record<string, string>) => ({
      role: role ?? ROLES[from!] ?? from!,
      content: content ?? value ?? '',
    }));
  }
  const value = record[textField];
  if (typeof value === 'string') return [{ role: 'assistant', content: value }];
  if (Array.isArray(value) && value.every((m) => typeof m?.role === 'string')) return value as ChatMessage[];
  throw new DataError(
    `the field '${textField}' of a document is ${describe(value)}: it must be a string or a list of messages`,
  );
}
