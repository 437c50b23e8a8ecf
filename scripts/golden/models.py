"""Small random models of every architecture, made by transformers, and what it computes with them, for test/models.

    python scripts/golden/models.py      # needs torch and transformers 5; writes test/golden/models/

NAME.json: config.json, as transformers writes it; the tokens; greedy tokens after two prompts, alone and together, with
padding on the left. NAME.safetensors: logits, and of each gradient 96 numbers (of an expert's 24), its sum and the sum of its squares; of routers the
load-balancing loss and which experts each token goes through. Weights are not stored: both
sides compute them from the names and shapes of tensors (`weight`).
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, CONFIG_MAPPING

OUT = Path(__file__).resolve().parents[2] / "test/golden/models"
VOCAB, NEW = 97, 48
SIZES = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=None)


def rope(kind: str, **more) -> dict:
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


def longrope(pairs: int) -> dict:
    return dict(short_factor=[1 + 0.1 * i for i in range(pairs)], long_factor=[2 + 0.5 * i for i in range(pairs)])


MOE = dict(head_dim=16, moe_intermediate_size=24, num_experts=8, num_experts_per_tok=3, num_hidden_layers=2)
GEMMA = dict(head_dim=8, query_pre_attn_scalar=16, sliding_window=6)
MODELS = {
    "llama": ("llama", dict(tie_word_embeddings=False)),
    "llama-tied-biases": ("llama", dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama-linear": ("llama", rope("linear", factor=2.0)),
    "llama-dynamic": ("llama", dict(rope("dynamic", factor=2.0), max_position_embeddings=16)),
    "llama-yarn": ("llama", rope("yarn", factor=4.0, original_max_position_embeddings=32)),
    "llama-llama3": ("llama", rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=32)),
    "mistral": ("mistral", dict(sliding_window=6, head_dim=16)),
    "qwen2": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2-windows": ("qwen2", dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "qwen3-yarn": ("qwen3", dict(rope("yarn", factor=4.0, original_max_position_embeddings=32), head_dim=16)),
    "gemma2": ("gemma2", GEMMA),
    "gemma3": ("gemma3_text", dict(GEMMA, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
               rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                    full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0)))),
    "phi3": ("phi3", dict(original_max_position_embeddings=128)),
    "phi3-longrope": ("phi3", dict(rope("longrope", partial_rotary_factor=0.5, **longrope(2)),
                                   original_max_position_embeddings=24)),
    "smollm3": ("smollm3", dict(no_rope_layer_interval=2)),
    "olmo2": ("olmo2", dict()),
    "gpt2": ("gpt2", dict()),
    "qwen3-moe": ("qwen3_moe", dict(MOE, norm_topk_prob=True)),
    "qwen3-moe-mixed": ("qwen3_moe", dict(MOE, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3],
                                          output_router_logits=True, router_aux_loss_coef=0.5, use_sliding_window=True,
                                          sliding_window=6)),
    "mixtral": ("mixtral", dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, num_hidden_layers=2,
                                output_router_logits=True, router_aux_loss_coef=0.5)),
}

# How many greedy tokens can be compared, where not all: further positions than the model has, and where Phi-3 computes its keys
# again in transformers, when the text becomes long.
KEPT, KEPT_OF_EXPERT = 96, 24  # numbers of a gradient
COMPARABLE = {"llama-dynamic": 4, "phi3-longrope": 12}


def weight(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Numbers from -1 to 1 by a linear congruence (mod 2^31), seeded by the name; scaled like an initialization."""
    seed = 7
    for c in name:
        seed = (seed * 31 + ord(c)) % 2147483647
    state, numbers = seed, np.empty(math.prod(shape), np.float64)
    for i in range(numbers.size):
        state = (state * 16807) % 2147483647
        numbers[i] = 2 * state / 2147483647 - 1
    scale, offset = (0.35, 0.0) if len(shape) > 1 else (0.1, 0.0 if name.endswith("bias") else 0.9)
    return torch.from_numpy((numbers * scale + offset).astype(np.float32)).reshape(shape)


def in_files(kind: str, key: str, p: torch.Tensor) -> list:
    """The names that files have for a parameter, and the part of it that each is: transformers joins experts."""
    block, gate, up, down = ("block_sparse_moe", "w1", "w3", "w2") if kind == "mixtral" else ("mlp", "gate_proj", "up_proj", "down_proj")
    key = key.replace(".mlp.", f".{block}.")
    base, _, last = key.rpartition(".")
    if not base.endswith(".experts"):
        return [(key, lambda t: t)]
    half = p.shape[1] // 2
    if last == "down_proj":
        return [(f"{base}.{e}.{down}.weight", lambda t, e=e: t[e]) for e in range(p.shape[0])]
    return [(f"{base}.{e}.{name}.weight", lambda t, e=e, at=at: t[e, at: at + half])
            for e in range(p.shape[0]) for name, at in ((gate, 0), (up, half))]


def make(name: str) -> None:
    kind, own = MODELS[name]
    sizes = dict(SIZES)
    if kind == "gpt2":
        sizes = dict(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=None)
    config = CONFIG_MAPPING[kind](**{**sizes, **own})
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    parts = {key: in_files(kind, key, p) for key, p in model.named_parameters()}
    with torch.no_grad():
        for key, p in model.named_parameters():
            for stored, of in parts[key]:
                part = of(p)
                part.copy_(weight(stored, tuple(part.shape)))
    rng = np.random.default_rng(3)
    ids = torch.from_numpy(rng.integers(1, VOCAB, (2, 26)))
    out = model(input_ids=ids, labels=ids)
    out.loss.backward()
    numbers = {"logits": out.logits.detach().contiguous(), "loss": out.loss.detach()}
    for key, p in model.named_parameters():
        for stored, of in parts[key]:
            g = of(p.grad).double().flatten()
            most = KEPT if len(parts[key]) == 1 else KEPT_OF_EXPERT
            some = g[:: max(1, g.numel() // most)][:most]
            numbers[f"grad.{stored}"] = torch.cat([some, g.sum()[None], g.square().sum()[None]]).float()
    facts = dict(config=json.loads(config.to_json_string(use_diff=False)), ids=ids.tolist())
    if kind in ("qwen3_moe", "mixtral"):
        mask = torch.tensor([[1] * 26, [0] * 5 + [1] * 21])
        masked = model(input_ids=ids, attention_mask=mask, output_router_logits=True)
        numbers["aux_loss"] = masked.aux_loss.detach()
        for i, logits in enumerate(masked.router_logits):
            numbers[f"experts.{i}"] = logits.softmax(-1).topk(config.num_experts_per_tok).indices.int()
        model.config.output_router_logits = False  # transformers' generate fails with it
    prompts = [rng.integers(1, VOCAB, n).tolist() for n in (7, 12)]
    longest = max(map(len, prompts))
    batch = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    run = dict(max_new_tokens=NEW, do_sample=False, pad_token_id=0)
    model.generation_config.eos_token_id = None
    alone = [model.generate(torch.tensor([p]), **run)[0, len(p):].tolist() for p in prompts]
    together = model.generate(batch, attention_mask=mask, **run)[:, longest:].tolist()
    facts |= dict(prompts=prompts, greedy=alone)
    if name in COMPARABLE:
        facts["comparable"] = COMPARABLE[name]
    n = COMPARABLE.get(name, NEW)
    assert [a[:n] for a in alone] == [t[:n] for t in together], name
    facts["config"]["model_type"] = kind
    (OUT / f"{name}.json").write_text(json.dumps(facts) + "\n")
    save_file(numbers, str(OUT / f"{name}.safetensors"))
    print(name, float(out.loss.detach()), alone[0][:12])


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        make(name)
