"""The functions torch has: python scripts/golden/torch_names.py > test/golden/torch-names.json"""
import inspect
import json

import torch
import torch.nn.functional as F

PRIVATE = ("_", "cudnn", "miopen", "mkldnn", "fbgemm", "quantized", "q_", "sparse", "ccol", "crow", "is_", "set_", "get_", "sym_", "fake_quant")


def functions(namespace):
    """Public callables that take tensors: no classes, no modules, no in-place forms, no settings."""
    names = (n for n in dir(namespace) if n.islower() and not n.startswith(PRIVATE) and not n.endswith(("_", "_copy")))
    return sorted(n for n in names if callable(getattr(namespace, n)) and not inspect.isclass(getattr(namespace, n)))


overridable = {f.__name__ for fs in torch.overrides.get_overridable_functions().values() for f in fs if hasattr(f, "__name__")}
print(json.dumps({
    "version": torch.__version__.split("+")[0],
    "torch": [n for n in functions(torch) if n in overridable or n in ("arange", "linspace", "eye", "full", "zeros", "ones", "tensor", "rand", "randn", "randint", "randperm")],
    "torch.nn.functional": [n for n in functions(F) if n in overridable],
    "torch.linalg": functions(torch.linalg),
    "torch.Tensor": [n for n in functions(torch.Tensor) if not hasattr(torch, n)],
}, indent=1))
