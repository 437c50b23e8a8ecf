"""transformers' side of bench/generate-cuda.mjs: python generate_torch.py [MODELS] [PROMPTS] [eager,static]."""
import json
import pathlib
import statistics
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

configs = json.loads((pathlib.Path(__file__).parent / "generate.json").read_text())
names = (sys.argv[1] if len(sys.argv) > 1 else "qwen3-0.6b,llama-3.2-1b").split(",")
counts = [int(n) for n in (sys.argv[2] if len(sys.argv) > 2 else "1,32").split(",")]
forms = (sys.argv[3] if len(sys.argv) > 3 else "eager,static").split(",")
length, tokens, rounds = 128, 256, 3

for name in names:
    torch.manual_seed(0)
    sizes = dict(configs[name])
    config = AutoConfig.for_model(sizes.pop("model_type"), **sizes, pad_token_id=0, eos_token_id=None)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    model.generation_config.eos_token_id = None
    for prompts in counts:
        ids = torch.randint(1, config.vocab_size, (prompts, length), device="cuda")
        for form in forms:
            how = {"cache_implementation": "static"} if form == "static" else {}

            def run():
                torch.cuda.synchronize()
                start = time.perf_counter()
                with torch.inference_mode():
                    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                                   do_sample=False, pad_token_id=0, **how)
                torch.cuda.synchronize()
                return time.perf_counter() - start

            for _ in range(2):
                warm = run()
            took = statistics.median(run() for _ in range(rounds))
            print(f"transformers {form} {name}, {prompts} x {length} + {tokens}: {prompts * tokens / took:.0f} tokens/s", flush=True)
