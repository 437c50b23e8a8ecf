"""Writes test/golden/nn-utils.json: packed sequences, weight norm and spectral norm, as torch computes them.

    OMP_NUM_THREADS=1 python scripts/golden/nn_utils.py test/golden/nn-utils.json
"""

import json
import sys

import torch
from torch import nn
from torch.nn.utils import parametrizations, rnn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def numbers(t):
    return {"shape": list(t.shape), "data": [round(x, 12) for x in t.detach().flatten().tolist()]}


def weighted(*ys):
    """A number that depends on every element."""
    return sum((y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum() for y in ys)


def record(module, x, ys):
    weighted(*ys).backward()
    return {
        "x": numbers(x),
        "outputs": [numbers(y) for y in ys],
        "gradX": numbers(x.grad),
        "grads": {name: numbers(p.grad) for name, p in module.named_parameters()},
        "after": {name: numbers(t) for name, t in module.state_dict().items()},
    }


def state(module):
    return {name: numbers(t) for name, t in module.state_dict().items()}


out = {"packed": [], "norms": []}
for kind, bidirectional in (("RNN", False), ("GRU", True), ("LSTM", True)):
    module = getattr(nn, kind)(2, 3, num_layers=2, bidirectional=bidirectional, batch_first=True)
    before = state(module)
    x = torch.randn(4, 5, 2, requires_grad=True)
    lengths = [2, 5, 1, 4]
    packed = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    data = packed.data
    h0 = torch.randn(4 if bidirectional else 2, 4, 3)
    y, last = module(packed, (h0, h0 * 0.5) if kind == "LSTM" else h0)
    padded, _ = rnn.pad_packed_sequence(y, batch_first=True, padding_value=-1.0, total_length=6)
    states = list(last) if kind == "LSTM" else [last]
    case = {
        "kind": kind,
        "bidirectional": bidirectional,
        "lengths": lengths,
        "state": before,
        "h0": numbers(h0),
        "packedData": numbers(data),
        "batchSizes": packed.batch_sizes.tolist(),
    }
    out["packed"].append(case | record(module, x, [padded, *states]))

MAKE = {
    "Linear": (lambda: nn.Linear(3, 4), lambda: torch.randn(2, 3, requires_grad=True)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 2), lambda: torch.randn(1, 2, 5, requires_grad=True)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 2), lambda: torch.randn(1, 2, 5, requires_grad=True)),
}
for layer, norm, how in [
    ("Linear", "weightNorm", parametrizations.weight_norm),
    ("Conv1d", "weightNorm", lambda m: parametrizations.weight_norm(m, dim=None)),
    ("Linear", "oldWeightNorm", nn.utils.weight_norm),
    ("Conv1d", "oldWeightNorm", lambda m: nn.utils.weight_norm(m, dim=1)),
    ("Linear", "spectralNorm", parametrizations.spectral_norm),
    ("ConvTranspose1d", "spectralNorm", lambda m: parametrizations.spectral_norm(m, n_power_iterations=2)),
    ("Conv1d", "oldSpectralNorm", nn.utils.spectral_norm),
]:
    make, inputs = MAKE[layer]
    module, x = how(make()), inputs()
    before = state(module)
    y = module(x)
    module.eval()
    z = module(x)
    out["norms"].append({"layer": layer, "norm": norm, "state": before} | record(module, x, [y, z]))

with open(sys.argv[1], "w") as f:
    f.write(json.dumps(out, separators=(",", ":")) + "\n")
