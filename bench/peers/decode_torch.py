"""transformers' side of bench/decode.ts and bench/zoo.ts: python decode_torch.py SIZES [--folder FOLDER] [--device cuda], then lines
{"prompts", "length", "tokens"} on stdin. The model is written to the folder first, for the other side."""
import argparse
import json
import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("sizes", type=json.loads)
parser.add_argument("--folder")
parser.add_argument("--device", default="cpu")
options = parser.parse_args()
sizes = options.sizes
torch.manual_seed(0)
model = Qwen3ForCausalLM(Qwen3Config(**sizes, pad_token_id=0, eos_token_id=None)).float().eval()
model.generation_config.eos_token_id = None
if options.folder:
    model.save_pretrained(options.folder)
model.to(options.device)
print(json.dumps({"name": f"transformers, torch {torch.__version__}, {torch.get_num_threads()} threads"}), flush=True)


def run(ids, tokens):
    start, cpu = time.perf_counter(), time.process_time()
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    new = out[:, ids.shape[1] :].tolist()
    return time.perf_counter() - start, time.process_time() - cpu, new


for line in sys.stdin:
    turn = json.loads(line)
    row, column = torch.arange(turn["prompts"])[:, None], torch.arange(turn["length"])
    ids = (1 + (row * 7919 + column * 104729) % (sizes["vocab_size"] - 1)).to(options.device)
    first, firstCpu, _ = run(ids, 1)
    all, allCpu, new = run(ids, 1 + turn["tokens"])
    print(json.dumps({"prompt": first * 1e3, "step": (all - first) / turn["tokens"] * 1e3,
                      "cpu": (allCpu - firstCpu) / turn["tokens"] * 1e3, "ids": new}), flush=True)
