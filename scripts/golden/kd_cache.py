"""A KD cache in the layout of the original's precompute_teacher_topk.py, for test/distill.

    python scripts/golden/kd_cache.py      # needs torch; writes test/golden/kd-cache/

Five sequences of 8 tokens in two shards. Every number follows from its place (cache-original.test.ts has the formulas), and is exact in f16.
"""
import json
from pathlib import Path

import torch

OUT = Path(__file__).resolve().parents[2] / "test/golden/kd-cache"
L, K, R, VOCAB = 8, 4, 3, 352
OUT.mkdir(parents=True, exist_ok=True)


def shard(first: int, count: int) -> dict[str, torch.Tensor]:
    n = torch.arange(first, first + count)
    s, k, r, l = torch.arange(L - 1), torch.arange(K), torch.arange(R), torch.arange(L)
    mask = torch.ones(count, L, dtype=torch.uint8)
    if first + count == 5:
        mask[-1, 5:] = 0  # the last sequence has three tokens of padding
    return {
        "input_ids": ((31 * n[:, None] + 7 * l) % VOCAB).to(torch.int32),
        "attention_mask": mask,
        "topk_idx": (40 * n[:, None, None] + 5 * s[:, None] + k).to(torch.int32),
        "topk_logits": (8 - k - s[:, None] / 8 + n[:, None, None] / 64).to(torch.float16),
        "rand_idx": (300 + 9 * n[:, None, None] + s[:, None] + r).to(torch.int32),
        "rand_logits": (-1 - r - s[:, None] / 8 - n[:, None, None] / 64).to(torch.float16),
    }


torch.save(shard(0, 3), OUT / "shard_00000.pt")
torch.save(shard(3, 2), OUT / "shard_00001.pt")
meta = {
    "format": "qwen_kd_topk_cache_v1", "teacher_model": "Qwen/Qwen3-32B", "tokenizer": "Qwen/Qwen3-32B", "dataset_name": "made up",
    "max_length": L, "topk": K, "top_k": K, "rand_neg": R, "random_negatives": R, "num_sequences": 5, "total_sequences": 5,
    "vocab_size": VOCAB, "created_utc": "2026-02-07T00:00:00Z",
}
(OUT / "meta.json").write_text(json.dumps(meta, indent=2) + "\n")
(OUT / "progress.json").write_text(json.dumps({"n_written": 5, "next_shard_id": 2, "done": True}) + "\n")
