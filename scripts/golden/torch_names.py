"""The functions torch has: python scripts/golden/torch_names.py > test/golden/torch-names.json"""
import inspect
import json
import re

import torch
import torch.nn.functional as F

PRIVATE = ("_", "cudnn", "miopen", "mkldnn", "fbgemm", "quantized", "q_", "sparse", "ccol", "crow", "is_", "set_", "get_", "sym_", "fake_quant")


def functions(namespace):
    """Public callables that take tensors: no classes, no modules, no in-place forms, no settings."""
    names = (n for n in dir(namespace) if n.islower() and not n.startswith(PRIVATE) and not n.endswith(("_", "_copy")))
    return sorted(n for n in names if callable(getattr(namespace, n)) and not inspect.isclass(getattr(namespace, n)))


def alias_of(name):
    """What torch's own documentation says this is another name of."""
    said = re.search(r"Alias (?:for|of) :func:`torch\.(?:linalg\.)?(\w+)`", getattr(torch, name).__doc__ or "")
    return said and said.group(1)


overridable = {f.__name__ for fs in torch.overrides.get_overridable_functions().values() for f in fs if hasattr(f, "__name__")}
print(json.dumps({
    "version": torch.__version__.split("+")[0],
    "torch": [n for n in functions(torch) if n in overridable or n in ("arange", "linspace", "eye", "full", "zeros", "ones", "tensor", "rand", "randn", "randint", "randperm")],
    "torch.nn.functional": [n for n in functions(F) if n in overridable],
    "torch.linalg": functions(torch.linalg),
    "torch.special": [n for n in functions(torch.special) if n in overridable or "special_" + n in overridable],
    "torch.Tensor": [n for n in functions(torch.Tensor) if not hasattr(torch, n)],
    "aliases": {n: alias_of(n) for n in functions(torch) if alias_of(n)},
}, indent=1))
