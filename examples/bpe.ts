// Learns a byte-level BPE tokenizer from a text (Sennrich et al., arXiv:1508.07909) and writes it as Hugging Face's files.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Qwen's pattern: merges do not cross the boundaries of these parts of a text. */
const PARTS =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const END = '<|endoftext|>';

/** Each byte as a printable character: itself if it is printable, else a character from U+0100 on. */
const LETTERS: readonly string[] = (() => {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 255 && b !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(printable(b) ? b : next++));
})();

/** Repeatedly merges the most frequent adjacent pair. Returns the pairs in order. */
function learnMerges(text: string, count: number): [string, string][] {
  const seen = new Map<string, number>();
  for (const [part] of text.matchAll(new RegExp(PARTS.replace('(?i:', '(?:'), 'gu')))
    seen.set(part, (seen.get(part) ?? 0) + 1);
  const words = [...seen].map(([part, times]) => ({ times, symbols: [...Buffer.from(part)].map((b) => LETTERS[b]!) }));
  const times = new Map<string, number>(); // how often a pair occurs
  const places = new Map<string, Set<(typeof words)[number]>>(); // the words in which it does, or did
  const tally = (word: (typeof words)[number], sign: 1 | -1) => {
    for (let i = 1; i < word.symbols.length; i++) {
      const pair = `${word.symbols[i - 1]} ${word.symbols[i]}`;
      times.set(pair, (times.get(pair) ?? 0) + sign * word.times);
      if (!places.has(pair)) places.set(pair, new Set());
      places.get(pair)!.add(word);
    }
  };
  for (const word of words) tally(word, 1);
  return Array.from({ length: count }, () => {
    const [best] = [...times].reduce((a, b) => (b[1] > a[1] ? b : a));
    const [left, right] = best.split(' ') as [string, string];
    for (const word of places.get(best)!) {
      tally(word, -1);
      for (let i = 1; i < word.symbols.length; i++)
        if (word.symbols[i - 1] === left && word.symbols[i] === right) word.symbols.splice(i - 1, 2, left + right);
      tally(word, 1);
    }
    return [left, right];
  });
}

/** Writes a tokenizer of `size` tokens into a model's folder; the last token ends a text. Returns its id. */
export function writeTokenizer(folder: string, text: string, size: number): number {
  const merges = learnMerges(text, size - LETTERS.length - 1);
  const vocab = Object.fromEntries(
    [...LETTERS, ...merges.map((pair) => pair.join(''))].map((token, id) => [token, id]),
  );
  const end = size - 1;
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  const split = { type: 'Split', pattern: { Regex: PARTS }, behavior: 'Isolated', invert: false };
  const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const tokenizer = {
    version: '1.0',
    added_tokens: [{ id: end, content: END, special: true, ...plain }],
    normalizer: { type: 'NFC' },
    pre_tokenizer: { type: 'Sequence', pretokenizers: [split, bytes] },
    post_processor: bytes,
    decoder: bytes,
    model: { type: 'BPE', vocab, merges },
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  const config = { tokenizer_class: 'Qwen2Tokenizer', eos_token: END, pad_token: END, add_prefix_space: false };
  writeFileSync(path.join(folder, 'tokenizer_config.json'), JSON.stringify(config));
  return end;
}
