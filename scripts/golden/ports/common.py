# Weights and data by formulas that both sides compute exactly: a port and its original begin with the same numbers.
import json
import math
import os

os.environ["OMP_NUM_THREADS"] = "1"
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def number(n, k):
    """n numbers between -0.5 and 0.5."""
    i = torch.arange(n, dtype=torch.int64)
    return ((i * i * 31 + i * 7919 + k * 104729 + 17) % 65537).double() / 65537 - 0.5


def data(shape, k):
    return number(math.prod(shape), k).reshape(shape) * 2


def tokens(shape, k, count):
    return ((number(math.prod(shape), k) + 0.5) * count).long().reshape(shape)


def fill(model):
    """Every parameter by its name: matrices by their number of inputs, factors of norms near 1, biases near 0."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            k = sum(ord(c) * (i + 1) for i, c in enumerate(name)) % 65537
            x = number(p.numel(), k).reshape(p.shape)
            if p.dim() >= 2:
                p.copy_(x * 2 / math.sqrt(math.prod(p.shape[1:])))
            else:
                p.copy_(x * 0.2 + (1.0 if name.endswith("weight") else 0.0))
    return model


def write(name, losses):
    print(name, losses[0], losses[-1])
    with open(f"test/golden/ports/{name}.json", "w") as f:
        json.dump([float(f"{x:.12g}") for x in losses], f)
