"""Answers of torch for the table of layers: npx tsx scripts/golden/nn.ts | python nn.py OUT_FILE

All in f64: what differs is no rounding. For each row ROW/state/NAME (the state dict, with values that are nobody's defaults), ROW/in0.. (the inputs), and for MODE
train and eval: ROW/MODE/out0.., seed0.. (of the results), grad0.. (of the inputs), param/NAME (gradients), buffer/NAME
(after the forward pass). Where both modes are the same, only train is there."""
import copy
import json
import sys
import zlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from ops import fill


def tensors(tree):
    """All tensors in nested tuples."""
    if isinstance(tree, (tuple, list)):
        return [t for part in tree for t in tensors(part)]
    return [] if tree is None else [tree]


def answer(row):
    rng = np.random.default_rng(zlib.crc32(row["name"].encode()))
    torch.manual_seed(0)
    inputs = [fill(spec, rng) for spec in row["inputs"]]
    module = eval(row["torch"], dict(nn=nn, torch=torch)).double()
    with torch.no_grad():
        for name, t in module.state_dict().items():
            if name.endswith("running_var"):
                t.copy_(torch.from_numpy(rng.uniform(0.5, 2, t.shape)))
            elif t.is_floating_point():
                t.copy_(torch.from_numpy(rng.standard_normal(t.shape) * 0.5))
    arrays = {f"in{i}": x for i, x in enumerate(inputs)}
    arrays |= {f"state/{name}": t for name, t in module.state_dict().items()}
    train, evaluation = (run(row, copy.deepcopy(module).train(on), inputs) for on in (True, False))
    arrays |= {f"train/{key}": t for key, t in train.items()}
    if any(not torch.equal(t, evaluation[key]) for key, t in train.items()):
        arrays |= {f"eval/{key}": t for key, t in evaluation.items()}
    return {name: t.detach().contiguous().clone() for name, t in arrays.items()}


def run(row, m, inputs):
    """What comes out of a module, and what goes back."""
    rng = np.random.default_rng(1)
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = tensors(eval(row["call"], dict(zip("abcdefgh", leaves), m=m, torch=torch)))
    seeds = [torch.from_numpy(rng.standard_normal(tuple(y.shape))).to(y.dtype) for y in results]
    torch.autograd.backward(results, seeds)
    return {f"out{i}": y.detach() for i, y in enumerate(results)} | {
        f"seed{i}": s for i, s in enumerate(seeds)} | {
        f"grad{i}": x.grad for i, x in enumerate(leaves) if x.requires_grad and x.grad is not None} | {
        f"param/{name}": p.grad for name, p in m.named_parameters() if p.grad is not None} | {
        f"buffer/{name}": b for name, b in m.named_buffers()}


golden = {}
for row in json.load(sys.stdin):
    try:
        golden |= {f"{row['name']}/{key}": t for key, t in answer(row).items()}
    except Exception as e:
        raise RuntimeError(f"{row['name']}: {e}") from e
save_file(golden, sys.argv[1])
