# Weights and data by formulas that both sides compute exactly: a port and its original begin with the same numbers.
# Each file has make(sizes, wrap): its step, which gives the loss, or a list of them. bench/zoo.ts measures it, and the file as a
# program writes the golden losses. `wrap` is given the modules that are called: torch.compile, for instance.
import json
import math

import torch


def number(n, k):
    """n numbers between -0.5 and 0.5."""
    i = torch.arange(n, dtype=torch.int64)
    return (((i * i * 31 + i * 7919 + k * 104729 + 17) % 65537).double() / 65537 - 0.5).to(torch.get_default_dtype())


def data(shape, k):
    return number(math.prod(shape), k).reshape(shape) * 2


def tokens(shape, k, count):
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    return ((i * i * 31 + i * 7919 + k * 104729 + 17) % 65537 * count // 65537).reshape(shape)


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


def sizes_of(name, size):
    with open("bench/ports.json") as f:
        return json.load(f)[name][size]


def golden(name, make):
    """Writes the first 20 losses in f64. Run from the repository's root."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    step, losses = make(sizes_of(name, "golden"), lambda module: module), []
    while len(losses) < 20:
        loss = step()
        losses += loss if isinstance(loss, list) else [loss]
    print(name, losses[0], losses[-1])
    with open(f"test/golden/ports/{name}.json", "w") as f:
        json.dump([float(f"{x:.12g}") for x in losses], f)
