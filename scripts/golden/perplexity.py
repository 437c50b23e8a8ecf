"""What transformers' guide to perplexity (docs: "Perplexity of fixed-length models") computes with the small Qwen3 of test/golden/qwen3.

    python scripts/golden/perplexity.py      # needs torch and transformers 5; writes test/golden/perplexity.json
"""
import json
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

golden = Path(__file__).parents[2] / "test/golden"
text = "\n\n".join(
    f"{i}. the quick brown fox jumps over {i % 7} lazy dogs, and runs far away from home.\nIt is {3 * i} o'clock." for i in range(12)
)
model = Qwen3ForCausalLM.from_pretrained(golden / "qwen3/tied", dtype=torch.float64)
ids = AutoTokenizer.from_pretrained(golden / "qwen3/tied")(text, return_tensors="pt", add_special_tokens=False).input_ids


def perplexity(length: int, stride: int) -> dict:
    total, count, before = 0.0, 0, 0
    for begin in range(0, ids.size(1), stride):
        end = min(begin + length, ids.size(1))
        labels = ids[:, begin:end].clone()
        labels[:, : -(end - before)] = -100
        with torch.no_grad():
            loss = model(ids[:, begin:end], labels=labels).loss
        tokens = int((labels[:, 1:] != -100).sum())
        total, count, before = total + loss.item() * tokens, count + tokens, end
        if end == ids.size(1):
            break
    loss = total / count
    return {"sequenceLength": length, "stride": stride, "loss": loss, "perplexity": float(torch.tensor(loss, dtype=torch.float64).exp()), "tokens": count}


found = {"text": text, "tokens": ids[0].tolist(), "windows": [perplexity(32, 32), perplexity(32, 8), perplexity(48, 20)]}
(golden / "perplexity.json").write_text(json.dumps(found) + "\n")
print(found["windows"])
