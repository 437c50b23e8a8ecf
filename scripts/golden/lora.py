"""Adapters made by PEFT on a small Qwen3 (test/golden/qwen3/tied), and what it computes with them, for test/lora.

    python scripts/golden/lora.py            # needs torch, transformers and peft; writes test/golden/lora/
    python scripts/golden/lora.py more       # only what more() writes
    python scripts/golden/lora.py FOLDER     # loads adapters that tsxla saved, with PEFT, and prints logits as JSON
"""
import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import Qwen3ForCausalLM

GOLDEN = Path(__file__).resolve().parents[2] / "test/golden"
OUT = GOLDEN / "lora"
TARGETS = ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
IDS = torch.arange(14).view(2, 7) * 11 % 352


def base():
    return Qwen3ForCausalLM.from_pretrained(GOLDEN / "qwen3/tied", dtype=torch.float32).eval()


def check(folder):
    model = PeftModel.from_pretrained(base(), folder)
    missing = [name for name, p in model.named_parameters() if "lora_B" in name and not p.any()]
    with torch.no_grad():
        print(json.dumps(dict(untouched=missing, logits=model(input_ids=IDS).logits.flatten().tolist())))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = get_peft_model(base(), LoraConfig(task_type="CAUSAL_LM", r=3, lora_alpha=6, target_modules=TARGETS))
    model.base_model.model.config._name_or_path = model.peft_config["default"].base_model_name_or_path = "qwen3/tied"
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn_like(p) * 0.1)
    model.save_pretrained(OUT / "peft")
    (OUT / "peft/README.md").unlink()
    out = model(input_ids=IDS, labels=IDS)
    out.loss.backward()
    plain = lambda name: name.removeprefix("base_model.model.").replace(".default.weight", "")
    adapters = {plain(name): p for name, p in model.named_parameters() if "lora_" in name}
    numbers = {f"grad.{name}": p.grad for name, p in adapters.items()}
    assert all(p.grad is None for name, p in model.named_parameters() if "lora_" not in name)
    # The original of recovery LoRA: a state dict of torch, among other things in it.
    torch.save({name: p.detach().clone() for name, p in adapters.items()} | {"lm_head.weight": torch.zeros(2, 2)}, OUT / "original.pt")
    merged = model.merge_and_unload()
    with torch.no_grad():
        numbers |= {"logits": out.logits.detach(), "loss": out.loss.detach(), "merged": merged(input_ids=IDS).logits}
        numbers["weight"] = merged.model.layers[1].mlp.up_proj.weight.clone()
    save_file({k: v.contiguous() for k, v in numbers.items()} | {"ids": IDS.clone()}, OUT / "numbers.safetensors")


def more():
    """Embeddings that are trained and tied, and adapters on one layer alone: PEFT's folders, and logits with them."""
    torch.manual_seed(1)
    common = dict(task_type="CAUSAL_LM", r=2, lora_alpha=4, target_modules=["q_proj", "up_proj"])
    kinds = {
        "embeddings": LoraConfig(**common, modules_to_save=["model.embed_tokens"], ensure_weight_tying=True),
        "one-layer": LoraConfig(**common, layers_to_transform=[1], layers_pattern="layers"),
    }
    numbers = {"ids": IDS.clone()}
    for name, config in kinds.items():
        model = get_peft_model(base(), config).eval()
        model.peft_config["default"].base_model_name_or_path = "qwen3/tied"
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p) * 0.1)
            numbers[name] = model(input_ids=IDS).logits
        model.save_pretrained(OUT / name)
        (OUT / name / "README.md").unlink()
    save_file(numbers, OUT / "more.safetensors")


if __name__ == "__main__":
    if sys.argv[1:] == ["more"]:
        more()
    elif len(sys.argv) > 1:
        check(sys.argv[1])
    else:
        main()
        more()
