"""transformers' side of bench/decode.ts: python decode_torch.py, then lines {"prompts", "length", "tokens"} on stdin."""
import json
import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

sizes = json.loads(sys.argv[1])
torch.manual_seed(0)
model = Qwen3ForCausalLM(Qwen3Config(**sizes, pad_token_id=0, eos_token_id=None)).float().eval()
model.generation_config.eos_token_id = None
print(json.dumps({"name": f"transformers, torch {torch.__version__}, {torch.get_num_threads()} threads"}), flush=True)


def run(ids, tokens):
    start, cpu = time.perf_counter(), time.process_time()
    with torch.inference_mode():
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    return time.perf_counter() - start, time.process_time() - cpu


for line in sys.stdin:
    turn = json.loads(line)
    ids = torch.randint(1, sizes["vocab_size"], (turn["prompts"], turn["length"]), generator=torch.Generator().manual_seed(1))
    first, firstCpu = run(ids, 1)
    all, allCpu = run(ids, 1 + turn["tokens"])
    print(json.dumps({"prompt": first * 1e3, "step": (all - first) / turn["tokens"] * 1e3,
                      "cpu": (allCpu - firstCpu) / turn["tokens"] * 1e3}), flush=True)
