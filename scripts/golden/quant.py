"""The three quantized linears of the original recipe, by their formulas, in torch and f64: python scripts/golden/quant.py test/golden/quant.safetensors
V2 is summed rank by rank, as the original computes it, with autograd through everything; test/quant compares values and gradients."""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
out = {}
OUT, IN, N = 6, 10, 5
x0, gy = torch.randn(3, IN), torch.randn(3, OUT)
weight = torch.randn(OUT, IN) * 0.1
out |= {"x": x0, "gy": gy, "weight": weight}


def record(name, forward, **parameters):
    leaves = {k: v.clone().requires_grad_() for k, v in {"x": x0, **parameters}.items()}
    y = forward(**leaves)
    (y * gy).sum().backward()
    out[f"{name}.y"] = y.detach()
    for k, v in leaves.items():
        out[f"{name}.{k}"] = v.detach()
        out[f"{name}.grad.{k}"] = v.grad


round_ste = lambda x: x + (torch.round(x) - x).detach()
f16_ste = lambda x: x + (x.clamp(-65504, 65504).half().to(x.dtype) - x).detach()
lut_of = lambda n: torch.linspace(-1, 1, n, dtype=torch.float16).double()
nearest = lambda u, lut: (u.unsqueeze(-1) - lut).abs().argmin(-1)
for n in (4, 5, 16):
    out[f"lut{n}"] = lut_of(n)
out["lut16.zero"] = torch.cat([torch.linspace(-1, 0, 9, dtype=torch.float16)[:-1], torch.linspace(0, 1, 8, dtype=torch.float16)]).double()

# ---- V0
for bits in (2, 4):
    qmin, qmax = -((1 << (bits - 1)) - 1), 1 << (bits - 1)

    def symmetric(x, weight, f):
        s = (F.softplus(f) + 1e-8) * weight.detach().abs().max().clamp(min=1e-8) / qmax
        return x @ ((torch.clamp(round_ste(weight / s + 0.5), qmin, qmax) - 0.5) * s).T

    record(f"v0.{bits}", symmetric, weight=weight, f=torch.tensor(-0.4))

    w = (torch.randn(40, 50) * 0.02).float().double()
    w[0, 0] = 0.2
    a, amax = w.abs().flatten(), w.abs().max()

    def mse(c):
        s = c / qmax
        return (((torch.clamp(torch.round(w / s + 0.5), qmin, qmax) - 0.5) * s - w) ** 2).mean()

    kth = lambda p: a.kthvalue(min(max(1, int(p / 100 * a.numel())), a.numel())).values
    c = kth(99.5)
    out[f"v0.{bits}.clip.weight"], out[f"v0.{bits}.clip.percentile"] = w, c / amax
    out[f"v0.{bits}.clip.grid"] = min((kth(p) for p in (99, 99.3, 99.5, 99.7, 99.9, 100)), key=mse) / amax
    for _ in range(4):
        eps = max(1e-6, 0.01 * c)
        lo, mid, hi = mse(c - eps), mse(c), mse(min(amax, c + eps))
        f1, f2 = (hi - lo) / (2 * eps), (hi - 2 * mid + lo) / eps**2
        c = (c - 0.1 * f1 if abs(f2) < 1e-12 else c - f1 / f2).clamp(1e-6, amax)
    out[f"v0.{bits}.clip.newton_mse"] = mse(c)

# ---- V1: groups of 4 (the last one padded), rank 2
groups = F.pad(weight, (0, 2)).view(OUT, 3, 4).abs().amax(2).clamp(min=1e-8)
u, s, vh = torch.linalg.svd(groups.repeat_interleave(4, 1), full_matrices=False)
a, b = u[:, :2] * s[:2], vh[:2]
out["v1.scales"] = a @ b


def with_lut(x, scale_A, scale_B, lut):
    scale = (scale_A @ scale_B).clamp(min=1e-8)[:, :IN]
    return x @ (lut[nearest(weight / scale.detach(), lut.detach())] * scale).T


record("v1", with_lut, scale_A=a, scale_B=b, lut=lut_of(4))

# ---- V2: groups of 4, rank 2 of 3, rank by rank
groups = groups.repeat_interleave(4, 1)[:, :IN]
u, s, vh = torch.linalg.svd(groups, full_matrices=False)
out["v2.scales"] = (u[:, :2] * s[:2]) @ vh[:2]
out["v2.indices"] = nearest(weight / out["v2.scales"], lut_of(16)).to(torch.uint8)


def by_rank(positive, magnitude, f16, Q=None):
    r = f16_ste if f16 else lambda v: v

    def forward(x, scale_A, scale_B, rank_magnitude, deltas=None):
        A, B = (scale_A.abs(), scale_B.abs()) if positive else (scale_A, scale_B)
        A = A / A.norm(dim=0, keepdim=True).clamp(min=1e-6)
        B = B / B.norm(dim=1, keepdim=True).clamp(min=1e-6)
        g = r(magnitude(rank_magnitude) + 1e-6)
        q = lut_of(16)[indices]
        if deltas is not None:
            least = 2 * 2**-10
            upper = torch.cumsum(least + (1 - 8 * least) * F.softmax(deltas, 0), 0)
            q = f16_ste(torch.cat([-upper.flip(0), upper]))[indices]
        if f16:  # in one product, as ours: the weight is what is rounded
            return r(x @ r(q * (r(A * g) @ r(B))).T)
        return sum(g[k] * A[:, k] * ((x * B[k]) @ q.T) for k in range(scale_A.shape[1]))

    return forward


indices = torch.randint(0, 16, (OUT, IN))
out["v2.codes"] = indices.to(torch.uint8)
given = dict(scale_A=torch.randn(OUT, 3), scale_B=torch.randn(3, IN), rank_magnitude=torch.tensor([0.5, -0.2, 1.5]))
record("v2.identity", by_rank(False, lambda m: m, False), **given)
record("v2.positive", by_rank(True, F.softplus, False), **given)
record("v2.learned", by_rank(False, lambda m: m, False), **given, deltas=torch.randn(8))
record("v2.f16", by_rank(False, lambda m: m, True), **given)

# ---- adapters on quantized layers of a residual MLP: exact gradients of the early ones too
h, r = 12, 2
names = ("gate", "up", "down")
shapes = dict(gate=(h, IN), up=(h, IN), down=(IN, h))
frozen = {}
for n, (o, i) in shapes.items():
    codes, A, B, g = torch.randint(0, 16, (o, i)), torch.randn(o, 2), torch.randn(2, i), torch.tensor([3.0, 1.0])
    frozen[n] = lut_of(16)[codes] * ((A / A.norm(dim=0) * (g + 1e-6)) @ (B / B.norm(dim=1, keepdim=True)))
    out |= {f"mlp.{n}._indices": codes.to(torch.uint8), f"mlp.{n}.scale_A": A, f"mlp.{n}.scale_B": B, f"mlp.{n}.rank_magnitude": g, f"mlp.{n}.lut": lut_of(16)}
adapters = {f"{n}_{m}": (torch.randn(r, shapes[n][1]) * 0.02 if m == "A" else torch.zeros(shapes[n][0], r)) for n in names for m in "AB"}
target = torch.randn(3, IN)
out["mlp.target"] = target


def mlp_loss(x, **ad):
    lin = lambda n, v: v @ frozen[n].T + (v @ ad[f"{n}_A"].T) @ ad[f"{n}_B"].T
    y = x + lin("down", F.silu(lin("gate", x)) * lin("up", x))
    return ((y - target) ** 2).mean()


leaves = {k: v.clone().requires_grad_() for k, v in adapters.items()}
mlp_loss(x0, **leaves).backward()
for k, v in leaves.items():
    out[f"mlp.{k}"], out[f"mlp.grad.{k}"] = v.detach(), v.grad
save_file({k: v.contiguous().clone() for k, v in out.items()}, sys.argv[1])
