"""Small tokenizers of the kinds that models have, and what transformers makes of 100 texts and of conversations with them, for
test/models/tokenizers.test.ts.

    python scripts/golden/tokenizers.py      # needs transformers 5; writes test/golden/tokenizers.json.gz
"""
import gzip
import json
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this file is called tokenizers, too
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

OUT = Path(__file__).resolve().parents[2] / "test/golden/tokenizers.json.gz"
CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps, and the fox runs away; nobody knows where to.",
    "def add(a, b):\n    return a + b\n\nfor i in range(10):\n    print(add(i, 2 * i))  # comment\n",
    "Grüße aus München! Straße, Äpfel, Öl. Déjà vu, naïve café, señor, São Paulo.",
    "你好,世界。我想在苹果工作。こんにちは世界。안녕하세요 세계.",
    "Numbers: 3.14159, 1,000,000, 42%, 2024-11-18, 0xFF. I'm sure you'll say it's what they've been told.",
    "<user> hello there </user>   several   spaces\tand tabs\n\n\nand lines",
] * 3

WORDS = ["hello", "world", "The quick brown fox", "naïve café", "Grüße aus München", "你好,世界", "こんにちは", "안녕하세요", "Привет мир",
         "مرحبا بالعالم", "שלום עולם", "สวัสดีชาวโลก", "नमस्ते दुनिया", "😀", "👩‍👩‍👧 family", "🏳️‍🌈", "e\u0301 combining", "ﬁ ligature",
         "Ⅷ roman", "½ half", "Å Å Å", "\u200bzero width", "\ufeffmark", "a\u00a0b nonbreaking", "𝕳𝖊𝖑𝖑𝖔", "\U0001F468\U0001F3FD"]
SPACES = ["", " ", "  ", "   ", "\n", "\n\n", "\t", " \n ", "a ", " a", "  a  b   c    ", "\r\n", "a\nb", "a\n\n\nb", "\ta\tb", "    indented",
          "trailing    ", "a  .  b", "\n a", "a \n", " \t \n \r\n x"]
CODE = ["def f(x):\n    return x ** 2\n", "for (let i = 0; i < 10; i++) { a[i] += i; }", "if a != b and c == d: pass", "<div class=\"x\">&amp;</div>",
        "SELECT * FROM t WHERE id = 42;", "x = {'a': [1, 2, 3], \"b\": None}", "#include <stdio.h>", "https://example.org/a?b=c&d=%20#e",
        "user@example.org", "C:\\Users\\name", "$ ls -la | grep '^d'", "a_b-c.d,e;f:g!h?i"]
NUMBERS = ["1", "12", "123", "1234", "12345678901234567890", "3.14159", "-1e-5", "1,000,000", "0xDEADBEEF", "50%", "2024-11-18T19:36:02Z", "١٢٣", "v1.2.3"]
ENGLISH = ["I'm", "I've been told he's there, you'd say it's what they'll do.", "DON'T", "don't . stop ? now ! please , yes", "'quoted'",
           "\"double\" ``back''", "ALL CAPS TEXT", "CamelCaseWord", "a-b-c", "...", "!!!???", "(parens) [brackets] {braces}", "it 's n't 've",
           "supercalifragilisticexpialidocious", "a" * 40]
ADDED = ["<|sep|>", "a<|sep|>b", "a <|sep|> b", " <|sep|> ", "<|sep|><|sep|>", "x<keep>y", "x <keep> y", "<|se", "<|sep|", "hello<|end|>world", "<|end|>\n",
         "<s>text</s>", "<unk>", "▁", "a▁b", "▁▁a", "<0x41>"]
TEXTS = WORDS + SPACES + CODE + NUMBERS + ENGLISH + ADDED
assert len(TEXTS) >= 100, len(TEXTS)

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<s>", "</s>", "<unk>", "<|sep|>", "<|end|>"]


def train(tokenizer: Tokenizer, size: int, **options) -> Tokenizer:
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, show_progress=False, **options))
    return tokenizer


def byte_level(pattern: str | None, normalizer=None, special=(), prefix: bool = False) -> Tokenizer:
    t = Tokenizer(models.BPE())
    t.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern is None)
    t.pre_tokenizer = level if pattern is None else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    t.decoder = decoders.ByteLevel()
    return train(t, 420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(special))


def sentence_piece(size: int, special: list[str], split=None) -> Tokenizer:
    """Tokens of bytes for what is not in the vocabulary; a space is ▁."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    if split:
        t.pre_tokenizer = split
    trained = train(t, size, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=90)
    state = json.loads(trained.to_str())
    state["added_tokens"] = [a for a in state["added_tokens"] if not a["content"].startswith("<0x")]
    state["model"].update(byte_fallback=True, fuse_unk=True)
    return Tokenizer.from_str(json.dumps(state))


def bos(t: Tokenizer, token: str) -> None:
    t.post_processor = processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, t.token_to_id(token))])


def add(t: Tokenizer) -> None:
    t.add_special_tokens([AddedToken("<|sep|>", special=True, normalized=False), AddedToken("<|end|>", special=True, normalized=False, rstrip=True)])
    t.add_tokens([AddedToken("<keep>", special=False, normalized=False)])


def gpt2() -> Tokenizer:
    t = byte_level(None, special=["<|endoftext|>"])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3() -> Tokenizer:
    t = byte_level(LLAMA3, special=["<s>", "</s>"])
    bos(t, "<s>")
    return t


def qwen() -> Tokenizer:
    return byte_level(QWEN, normalizers.NFC(), special=["<|endoftext|>"])


def smollm() -> Tokenizer:
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    return train(t, 400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"])


def llama2() -> Tokenizer:
    """As Llama 2, Mistral and Phi-3 have it in tokenizer.json: a ▁ is put before the text."""
    t = sentence_piece(520, ["<unk>", "<s>", "</s>"], pre_tokenizers.Split("▁", "merged_with_next"))
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    bos(t, "<s>")
    return t


def metaspace() -> Tokenizer:
    """The same as newer files have it: the ▁ comes from Metaspace, before the first part alone."""
    t = llama2()
    t.normalizer = None
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    return t


def gemma() -> Tokenizer:
    t = sentence_piece(520, ["<pad>", "<eos>", "<s>", "<unk>"], pre_tokenizers.Split("▁", "merged_with_previous"))
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bos(t, "<s>")
    spaces = max((piece for piece in t.get_vocab() if set(piece) == {"▁"}), key=len)  # Gemma's are in the vocabulary, too
    t.add_tokens([AddedToken("\n\n", normalized=False), AddedToken(spaces, normalized=False)])
    return t


# Conversations and templates in the form of those that models ship.
USER = {"role": "user", "content": "  What is 2 + 2?\n"}
ANSWER = {"role": "assistant", "content": "It is 4. "}
SYSTEM = {"role": "system", "content": "Be brief."}
CHATS = [[USER], [SYSTEM, USER], [USER, ANSWER, {"role": "user", "content": "Grüße 😀"}], [SYSTEM, USER, ANSWER]]
TEMPLATES = {
    "llama3": "{{- bos_token }}{%- set ns = namespace(system='') %}{%- if messages[0]['role'] == 'system' %}{%- set ns.system = messages[0]['content'] | trim %}"
    "{%- set messages = messages[1:] %}{%- endif %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}{{- ns.system }}{{- '<|eot_id|>' }}"
    "{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}",
    "gemma": "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- if messages[0]['content'] is string -%}\n        {%- set first = messages[0]['content'] + '\n\n' -%}\n"
    "    {%- else -%}\n        {%- set first = messages[0]['content'][0]['text'] + '\n\n' -%}\n    {%- endif -%}\n    {%- set rest = messages[1:] -%}\n{%- else -%}\n"
    "    {%- set first = '' -%}\n    {%- set rest = messages -%}\n{%- endif -%}\n{%- for message in rest -%}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}\n        {{ raise_exception('Conversation roles must alternate') }}\n    {%- endif -%}\n"
    "    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}\n"
    "    {{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}\n{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n    {{ '<start_of_turn>model\n' }}\n{%- endif -%}\n",
    "qwen": "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0].role == 'system' %}\n        {{- messages[0].content + '\\n\\n' }}\n    {%- endif %}\n"
    "    {{- '# Tools\\n<tools>' }}\n    {%- for tool in tools %}\n        {{- '\\n' }}\n        {{- tool | tojson }}\n    {%- endfor %}\n    {{- '\\n</tools><|im_end|>\\n' }}\n"
    "{%- elif messages[0].role == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- endif %}\n"
    "{%- for message in messages %}\n    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n    {%- elif message.role == 'assistant' %}\n"
    "        {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}\n        {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
    "        {{- '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}\n{%- endif %}",
    "mistral": "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}{%- set turns = messages[1:] %}{%- else %}{%- set turns = messages %}{%- endif %}"
    "{{- bos_token }}{%- for message in turns %}{%- if message['role'] == 'user' %}{%- if loop.last and system is defined %}"
    "{{- '[INST] ' + system + '\\n\\n' + message['content'] + '[/INST]' }}{%- else %}{{- '[INST] ' + message['content'] + '[/INST]' }}{%- endif %}"
    "{%- elif message['role'] == 'assistant' %}{{- ' ' + message['content'] | trim + eos_token }}{%- else %}{{- raise_exception('Only user and assistant roles are supported') }}"
    "{%- endif %}{%- endfor %}",
    "phi": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <two> numbers", "parameters": {"a": "int", "b": 1.5, "c": None, "d": True}}}]
KINDS = {"gpt2": (gpt2, "phi", "<|endoftext|>"), "llama3": (llama3, "llama3", "<s>"), "qwen": (qwen, "qwen", "<|endoftext|>"),
         "smollm": (smollm, "qwen", "<|endoftext|>"), "llama2": (llama2, "mistral", "<s>"), "metaspace": (metaspace, "phi", "<s>"), "gemma": (gemma, "gemma", "<s>")}


def make(name: str) -> dict:
    build, template, first = KINDS[name]
    t = build()
    add(t)
    ends = next(e for e in ("</s>", "<eos>", "<|endoftext|>") if t.token_to_id(e) is not None)
    fast = PreTrainedTokenizerFast(tokenizer_object=t, bos_token=first, eos_token=ends, chat_template=TEMPLATES[template],
                                   **({"unk_token": "<unk>"} if t.token_to_id("<unk>") is not None else {}))
    with tempfile.TemporaryDirectory() as folder:
        fast.save_pretrained(folder)
        files = {p.name: p.read_text() for p in Path(folder).iterdir()}
        again = PreTrainedTokenizerFast.from_pretrained(folder)
    texts = []
    for text in TEXTS:
        ids = again(text)["input_ids"]
        plain = again(text, add_special_tokens=False)["input_ids"]
        texts.append(dict(text=text, ids=ids, plain=plain, decoded=again.decode(ids), skipped=again.decode(ids, skip_special_tokens=True)))
    chats = []
    for messages in CHATS:
        for begun in (False, True):
            for more in [{}] + ([{"tools": TOOLS}, {"enable_thinking": False}] if template == "qwen" else []):
                chats.append(dict(messages=messages, options=dict(add_generation_prompt=begun, **more),
                                  text=again.apply_chat_template(messages, tokenize=False, add_generation_prompt=begun, **more)))
    # Any ids: bytes of half a character among them.
    n = len(again)
    odd = [[(i * 37 + j * j * 11) % n for j in range(12)] for i in range(8)]
    if (byte := t.token_to_id("<0xE4>")) is not None:
        odd += [[byte], [byte, byte, t.token_to_id("<0x41>")], [t.token_to_id(f"<0x{b:02X}>") for b in "你".encode()], [t.token_to_id("<0x41>"), byte, 270]]
    odd = [dict(ids=ids, decoded=again.decode(ids), skipped=again.decode(ids, skip_special_tokens=True)) for ids in odd]
    return dict(files=files, texts=texts, chats=chats, odd=odd)


if __name__ == "__main__":
    made = {name: make(name) for name in KINDS}
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
    OUT.write_bytes(gzip.compress(text, 9, mtime=0))
    print({name: (list(m["files"]), len(m["texts"]), len(m["chats"])) for name, m in made.items()}, len(text), OUT.stat().st_size)
