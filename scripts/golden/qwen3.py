"""Small random Qwen3 models made by transformers, and what it computes with them, for test/models.

    python scripts/golden/qwen3.py      # needs torch and transformers 5; writes test/golden/qwen3/

tied/    weights tied, one file; with a tokenizer of Qwen's kind
untied/  weights untied, biases, heads wider than the model, three files and their index
Weights are stored in bf16, as the published ones are; all numbers are computed from them in f32.
"""
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.generation import logits_process as lp

OUT = Path(__file__).resolve().parents[2] / "test/golden/qwen3"
VOCAB = 352
numbers: dict[str, torch.Tensor] = {}
facts: dict = {}


def make(name: str, seed: int, shard: str, **sizes) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB, num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256,
        initializer_range=0.15, eos_token_id=2, pad_token_id=0, **sizes,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for key, p in model.named_parameters():  # else norms are ones, and biases zeros
            if p.ndim == 1:
                p.copy_(torch.randn_like(p) * 0.1 + (0 if key.endswith("bias") else 1))
    model.to(torch.bfloat16).save_pretrained(OUT / name, max_shard_size=shard)
    # Read back, as .float() would keep the frequencies of positions rounded to bf16.
    return Qwen3ForCausalLM.from_pretrained(OUT / name, dtype=torch.float32).eval()


def forward(name: str, model: Qwen3ForCausalLM) -> None:
    """Logits and every gradient of one batch; logits of one with padding on the left."""
    torch.manual_seed(1)
    ids = torch.randint(0, VOCAB, (2, 9))
    labels = ids.clone()
    labels[1, :4] = -100
    out = model(input_ids=ids, labels=labels)
    out.loss.backward()
    numbers[f"{name}.ids"], numbers[f"{name}.labels"] = ids, labels
    numbers[f"{name}.logits"], numbers[f"{name}.loss"] = out.logits.detach(), out.loss.detach()
    for key, p in model.named_parameters():
        numbers[f"{name}.grad.{key}"] = p.grad
    mask = torch.tensor([[0] * 4 + [1] * 5, [1] * 9])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        padded = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
    numbers[f"{name}.mask"], numbers[f"{name}.positions"] = mask, positions
    numbers[f"{name}.padded"] = padded[:, 4:].contiguous()


def greedy(name: str, model: Qwen3ForCausalLM) -> None:
    """64 tokens after each of three prompts, alone and together."""
    torch.manual_seed(2)
    model.generation_config.eos_token_id = None
    prompts = [torch.randint(3, VOCAB, (n,)) for n in (5, 11, 40)]
    longest = max(map(len, prompts))
    batch = torch.stack([torch.nn.functional.pad(p, (longest - len(p), 0)) for p in prompts])
    mask = torch.stack([(torch.arange(longest) >= longest - len(p)).long() for p in prompts])
    run = dict(max_new_tokens=64, do_sample=False)
    alone = [model.generate(p[None], **run)[0, len(p):].tolist() for p in prompts]
    together = model.generate(batch, attention_mask=mask, **run)[:, longest:].tolist()
    penalized = model.generate(prompts[0][None], **run, repetition_penalty=1.3)[0, len(prompts[0]):].tolist()
    assert alone == together
    facts[name] = dict(prompts=[p.tolist() for p in prompts], greedy=alone, penalized=penalized)


FILTERS = [
    dict(temperature=0.6, top_k=20, top_p=0.95),
    dict(temperature=1.7, top_p=0.5),
    dict(top_k=1),
    dict(top_k=7, min_p=0.3),
    dict(min_p=0.05),
    dict(repetition_penalty=1.3, temperature=0.8, top_k=50, top_p=0.9, min_p=0.02),
    dict(repetition_penalty=0.7),
    {},
]


def filters() -> None:
    """What transformers' processors leave of some logits, in the order in which generate() has them."""
    torch.manual_seed(3)
    logits = torch.randn(3, 200) * 3
    seen = torch.randint(0, 200, (3, 30))
    numbers["filter.logits"], numbers["filter.seen"] = logits, seen
    for i, o in enumerate(FILTERS):
        steps = [
            "repetition_penalty" in o and lp.RepetitionPenaltyLogitsProcessor(o["repetition_penalty"]),
            "temperature" in o and lp.TemperatureLogitsWarper(o["temperature"]),
            "top_k" in o and lp.TopKLogitsWarper(o["top_k"]),
            "top_p" in o and lp.TopPLogitsWarper(o["top_p"]),
            "min_p" in o and lp.MinPLogitsWarper(o["min_p"]),
        ]
        numbers[f"filter.{i}"] = lp.LogitsProcessorList([s for s in steps if s])(seen, logits.clone())
    facts["filters"] = FILTERS


def training(name: str, model: Qwen3ForCausalLM) -> None:
    """50 steps of AdamW on batches with a pattern to be learned: each token is the one before it plus 7."""
    torch.manual_seed(4)
    batches = (torch.randint(0, VOCAB, (50, 4, 1)) + 7 * torch.arange(16)) % VOCAB
    model.train()
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    losses = []
    for ids in batches:
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    numbers["train.batches"] = batches
    facts["training"] = dict(model=name, lr=3e-3, weight_decay=0.1, losses=losses)


SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = """{%- if tools %}
    {{- '<|im_start|>system\\nTools:' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- if message.role == 'user' and message.content is string and not message.content.startswith('(') and ns.last < 0 %}
        {%- set ns.last = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content and loop.index0 < ns.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
TEXTS = [
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "  two  spaces\n\n\tand a tab\r\nand 12345 numbers",
    "Grüße aus Köln, 你好，世界! 😀👩‍👩‍👧 e\u0301 = é",
    "<|im_start|>user\nhi<|im_end|>\n<think>hm</think><|endoftext|>",
    "",
    "I'LL WE'RE they'd x'y ... --> (a+b)*c != \"d\"",
]
CHATS = [
    dict(messages=[dict(role="user", content="Hello there")]),
    dict(
        messages=[
            dict(role="system", content="Be brief."),
            dict(role="user", content="1 + 1?"),
            dict(role="assistant", content="<think>\nAdding.\n</think>\n\n2"),
            dict(role="user", content="And <b>2 & 2</b>?"),
        ],
        enable_thinking=False,
    ),
    dict(
        messages=[dict(role="user", content="Weather?")],
        tools=[dict(type="function", function=dict(name="weather", parameters=dict(city="Zürich", n=1.5, on=True)))],
    ),
]


def render(fast, messages, **options) -> str:
    return fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)


def tokenizer(folder: Path) -> None:
    """A byte-level BPE in the form of Qwen's."""
    t = Tokenizer(models.BPE(byte_fallback=False))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - 2, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    t.train_from_iterator(TEXTS * 3 + ["hello there, the other brother is over there; then they gather"] * 9, trainer)
    t.add_tokens([AddedToken(s, special=False, normalized=False) for s in ("<think>", "</think>")])
    t.save(str(folder / "tokenizer.json"))
    config = dict(
        tokenizer_class="Qwen2Tokenizer", eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token=None, unk_token=None,
        add_bos_token=False, add_prefix_space=False, clean_up_tokenization_spaces=False, model_max_length=256,
        chat_template=TEMPLATE,
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    fast = PreTrainedTokenizerFast.from_pretrained(folder)
    facts["tokenizer"] = dict(
        texts=[dict(text=s, ids=t.encode(s).ids, decoded=t.decode(t.encode(s).ids, skip_special_tokens=True)) for s in TEXTS],
        chats=[dict(given=c, text=render(fast, **c)) for c in CHATS],
        vocab=t.get_vocab_size(),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    shutil.rmtree(OUT, ignore_errors=True)
    tied = make("tied", 10, "1GB", hidden_size=64, intermediate_size=64, num_hidden_layers=2, tie_word_embeddings=True)
    untied = make(
        "untied", 11, "50KB", hidden_size=32, intermediate_size=64, num_hidden_layers=3, tie_word_embeddings=False,
        attention_bias=True, rope_parameters=dict(rope_type="default", rope_theta=1e6),
    )
    for name, model in (("tied", tied), ("untied", untied)):
        forward(name, model)
        greedy(name, model)
    filters()
    training("tied", tied)
    tokenizer(OUT / "tied")
    generation = dict(do_sample=True, temperature=0.6, top_k=20, top_p=0.95, eos_token_id=[2, 0], pad_token_id=0)
    (OUT / "tied/generation_config.json").write_text(json.dumps(generation, indent=1))
    save_file({k: v.contiguous() for k, v in numbers.items()}, OUT / "numbers.safetensors")
    (OUT / "facts.json").write_text(json.dumps(facts, ensure_ascii=False))
