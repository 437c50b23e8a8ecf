# Jacobians, Hessians and products with Jacobians by torch.func: test/golden/func.json. Needs torch; run from the repository's root.
# The same functions are in test/func/golden.test.ts.
import json
import math
import torch
import torch.nn.functional as F
from torch.func import hessian, jacfwd, jacrev, jvp, vjp


def wave(shape, phase=0.0):
    n = math.prod(shape)
    return torch.tensor([math.sin(1.7 * i + phase) for i in range(n)], dtype=torch.float64).reshape(shape)


def layer_norm(x, w):
    # Written out: torch 2.13 takes mean and deviation for constants in the derivative by x of F.layer_norm's gradient by its weight.
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() * w


FUNCTIONS = {
    "sines": (lambda x: (x.sin() * x).sum(), [[4]]),
    "a layer": (lambda x: (wave([2, 3], 0.5) @ x).tanh(), [[3]]),
    "softmax": (lambda x: x.softmax(-1), [[4]]),
    "logsumexp": (lambda x: x.logsumexp(1), [[2, 3]]),
    "two arguments": (lambda x, y: x.exp() * y.pow(3), [[3], [3]]),
    "layer norm": (layer_norm, [[2, 3], [3]]),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.tensor([2, 0])), [[2, 3]]),
    "inverse": (lambda x: torch.linalg.inv(x + 3 * torch.eye(2, dtype=torch.float64)), [[2, 2]]),
    "convolution": (lambda x, w: F.conv1d(x, w, stride=2, padding=1).tanh(), [[1, 2, 4], [2, 2, 3]]),
    "cumprod and sort": (lambda x: x.cumprod(0) + x.sort().values ** 2, [[4]]),
    "gelu and norm": (lambda x: F.gelu(x) / x.norm(), [[4]]),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k), [[1, 2, 3], [1, 2, 3]]),
}

rounded = lambda t: [float(f"{x:.12g}") for x in t.detach().flatten().tolist()]
leaves = lambda t: [x for part in t for x in leaves(part)] if isinstance(t, tuple) else [t]
out = {}
for name, (f, shapes) in FUNCTIONS.items():
    xs = [wave(s, i + 0.2) for i, s in enumerate(shapes)]
    ts = tuple(wave(s, i + 2.2) for i, s in enumerate(shapes))
    args = tuple(range(len(xs)))
    value, change = jvp(f, tuple(xs), ts)
    _, pull = vjp(f, *xs)
    out[name] = {
        "jacrev": [rounded(t) for t in leaves(jacrev(f, argnums=args)(*xs))],
        "jacfwd": [rounded(t) for t in leaves(jacfwd(f, argnums=args)(*xs))],
        "hessian": [rounded(t) for t in leaves(hessian(f, argnums=args)(*xs))],
        "value": rounded(value),
        "jvp": rounded(change),
        "vjp": [rounded(t) for t in pull(wave(list(value.shape), 4.2))],
    }
with open("test/golden/func.json", "w") as file:
    json.dump(out, file, separators=(",", ":"))
    file.write("\n")
