"""torch's answers for bench/attention-cuda.mjs --against DIR: python bench/attention_torch.py DIR [--tiny]

For each case of attention-cases.json, DIR/N.pt holds what torch drew (q, k, v, mask, g: the gradient of the output), its
results (output, and the gradients of q, k, v and of a float mask) in the case's dtype by scaled_dot_product_attention, and
the truth: the same in f32, product by product. On a GPU if there is one. --tiny: small shapes, to try it on a CPU."""
import argparse
import json
import math
import pathlib

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("dir", type=pathlib.Path)
parser.add_argument("--tiny", action="store_true")
options = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cuda.matmul.allow_tf32 = False  # the truth is in whole f32
torch.manual_seed(0)


def mask_of(kind, batch, heads, queries, keys, dtype):
    """lengths: sequences of different lengths, and two queries that see nothing. float: added to the scores of each head."""
    if kind == "float":
        return torch.randn(heads, queries, keys, dtype=dtype, device=device, requires_grad=True)
    if kind == "random":
        return torch.rand(queries, keys, device=device) < 0.7
    if kind == "lengths":
        lengths = (torch.arange(batch, device=device) + 1) * (keys // batch)
        rows = torch.arange(queries, device=device).view(1, 1, queries, 1)
        return (torch.arange(keys, device=device).view(1, 1, 1, keys) < lengths.view(batch, 1, 1, 1)) & (rows >= 2)
    return None


def exact(q, k, v, mask, causal):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=device).tril()
    if mask is not None and mask.dtype != torch.bool:
        return torch.softmax(scores + mask, -1) @ v
    if mask is None:
        return torch.softmax(scores, -1) @ v
    sees = mask.any(-1, keepdim=True)  # a query that sees no key gets zeros
    weights = torch.softmax(scores.masked_fill(~mask & sees, -math.inf), -1)
    return torch.where(sees, weights, 0) @ v


def results(attend, xs, g):
    """The output, and the gradients of what wants one."""
    output = attend(*xs)
    wanted = [x for x in xs if x is not None and x.requires_grad]
    return [y.detach().cpu() for y in (output, *torch.autograd.grad(output, wanted, g))]


def case(name, batch, heads, queries, d, groups=None, keys=None, causal=False, mask=None, dtype="bf16"):
    groups, keys = groups or heads, keys or queries
    if options.tiny:
        groups, heads = max(1, groups * min(heads, 4) // heads), min(heads, 4)
        batch, d = min(batch, 2), min(d, 16)
        queries, keys = (n // 32 if n > 32 else n for n in (queries, keys))
    dtype = dict(bf16=torch.bfloat16, f16=torch.float16)[dtype]
    draw = lambda h, t, grad=True: torch.randn(batch, h, t, d, dtype=dtype, device=device, requires_grad=grad)
    xs = [draw(heads, queries), draw(groups, keys), draw(groups, keys), mask_of(mask, batch, heads, queries, keys, dtype)]
    g = draw(heads, queries, False)
    flash = lambda q, k, v, m: F.scaled_dot_product_attention(
        q, k, v, attn_mask=m, is_causal=causal, enable_gqa=groups != heads)
    wide = [x.detach().float().requires_grad_() if x is not None and x.requires_grad else x for x in xs]
    truth = results(lambda q, k, v, m: exact(q, k, v, m, causal), wide, g.float())
    named = {n: x.detach().cpu().contiguous() for n, x in zip(("q", "k", "v", "mask"), xs) if x is not None}
    return {**named, "g": g.cpu(), "torch": results(flash, xs, g), "truth": truth}


options.dir.mkdir(parents=True, exist_ok=True)
for i, row in enumerate(json.loads((pathlib.Path(__file__).parent / "attention-cases.json").read_text())):
    made = case(**row)
    torch.save({n: [x.contiguous() for x in v] if isinstance(v, list) else v for n, v in made.items()}, options.dir / f"{i}.pt")
    print(f"{row['name']}: {tuple(made['q'].shape)} on {device}")
