# What torch answers for test/complex.test.ts: python scripts/golden/complex.py test/golden/complex.json
# Each row is an expression of z, w (complex matrices [3, 4]), x (real), in Python; the test has the same in TypeScript.
import json
import math
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
Z, W = (torch.complex(torch.randn(3, 4).round(decimals=3), torch.randn(3, 4).round(decimals=3)) for _ in range(2))
X = torch.randn(3, 4).round(decimals=3)
SIGNAL = torch.randn(2, 24).round(decimals=3)
WINDOW = torch.hann_window(8)

ROWS = """
z + w
z - x
torch.sub(z, w, alpha=0.5)
z * w
z * x
z / w
x / z
2 / z
-z
z.exp()
z.expm1()
z.log()
z.log1p()
z.sqrt()
z.rsqrt()
z.sin()
z.cos()
z.tan()
z.asin()
z.acos()
z.atan()
z.sinh()
z.cosh()
z.tanh()
z.asinh()
z.acosh()
z.atanh()
z.sigmoid()
z.reciprocal()
z.square()
z.pow(3)
z.pow(0.5)
z.pow(w)
x.abs().pow(z)
z.abs()
z.angle()
z.conj()
z.real
z.imag
z.sgn()
z.sum()
z.sum(1)
z.mean(0)
z.prod(1)
z.cumsum(1)
z.cumprod(1)
z @ w.mT
z.mH @ w
z @ x.mT.to(z.dtype)
torch.dot(z[0], w[1])
torch.vdot(z[0], w[1])
torch.outer(z[0], w[1])
torch.einsum('ij,kj->ik', z, w)
torch.where(x > 0, z, w)
torch.cat([z, w], 1)
torch.stack([z, w])
z[1:, ::2]
z[:, [0, 2, 2]]
z.flip(1).roll(1, 0).reshape(4, 3).permute(1, 0)
z.norm()
torch.linalg.vector_norm(z, 3, dim=1)
torch.view_as_real(z)
torch.view_as_complex(torch.stack([x, x * 2], -1))
torch.polar(x.abs(), x)
torch.complex(x, x * 3)
torch.trace(z[:, :3])
torch.tril(z)
z.to(torch.complex64).to(torch.complex128)
torch.lerp(z, w, 0.25)
torch.addcmul(z, w, z, value=2)
torch.fft.fft(z)
torch.fft.fft(x, dim=0)
torch.fft.fft(z, n=6)
torch.fft.fft(z, n=3, dim=0, norm='ortho')
torch.fft.ifft(z)
torch.fft.ifft(z, norm='forward')
torch.fft.rfft(x)
torch.fft.rfft(x, n=7, dim=0, norm='forward')
torch.fft.irfft(z)
torch.fft.irfft(z, n=7)
torch.fft.irfft(z, n=5, norm='ortho', dim=0)
torch.fft.hfft(z)
torch.fft.hfft(z, n=5, norm='ortho')
torch.fft.ihfft(x)
torch.fft.fft2(z)
torch.fft.ifft2(z, norm='ortho')
torch.fft.rfft2(x)
torch.fft.irfft2(z)
torch.fft.fftn(z, s=[2, 5])
torch.fft.ifftn(z)
torch.fft.rfftn(x, s=[4, 5], norm='ortho')
torch.fft.irfftn(z, s=[3, 5])
torch.fft.hfft2(z)
torch.fft.hfftn(z, s=[2, 5], norm='ortho')
torch.fft.ihfft2(x)
torch.fft.ihfftn(x, norm='forward')
torch.fft.fftshift(z)
torch.fft.ifftshift(z, dim=1)
torch.stft(signal, 8, 2, window=window, return_complex=True)
torch.stft(signal, 8, 4, 6, window=window[:6], center=False, normalized=True, onesided=False, return_complex=True)
torch.istft(torch.stft(signal, 8, 2, window=window, return_complex=True) * 2, 8, 2, window=window)
torch.istft(torch.stft(signal, 8, 2, window=window, return_complex=True), 8, 2, window=window, length=20)
""".strip().splitlines()


def flat(t):
    t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    values = [float(f"{v:.11g}") for v in t.detach().reshape(-1).tolist()]
    assert all(map(math.isfinite, values))
    return values


def record(row):
    given = {"z": Z, "w": W, "x": X, "signal": SIGNAL}
    given = {k: v.clone().requires_grad_() for k, v in given.items()}
    y = eval(row, {"torch": torch, "window": WINDOW, **given})
    # A loss that looks at every part of the result: its weights are 1, 2, 3, ...
    parts = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
    loss = (parts.reshape(-1) * torch.arange(1, parts.numel() + 1)).sum()
    grads = torch.autograd.grad(loss, list(given.values()), allow_unused=True)
    return {
        "row": row,
        "shape": list(y.shape),
        "complex": y.is_complex(),
        "value": flat(y),
        "grads": {k: flat(g) for k, g in zip(given, grads) if g is not None},
    }


def promoted():
    names = {"bool": "bool", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}
    back = {getattr(torch, v): k for k, v in names.items()}
    types = {k: getattr(torch, v) for k, v in names.items()}
    return [[a, b, back[torch.promote_types(types[a], types[b])]] for a in types for b in ("c64", "c128")]


# Optimizers with options, of which some state does not begin with 0: z after three steps towards w.
OPTIMIZERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.5}),
    ("Adadelta", {"lr": 1.0}),
    ("Adamax", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1}),
    ("Rprop", {"lr": 0.1}),
]


def learned(name, options):
    p = torch.nn.Parameter(Z.clone())
    optimizer = getattr(torch.optim, name)([p], **options)
    for _ in range(3):
        optimizer.zero_grad()
        (p * W - X).abs().square().sum().backward()
        optimizer.step()
    return {"name": name, "options": options, "value": flat(p.detach())}


torch.set_default_dtype(torch.float32)
PRINTED = [
    torch.tensor([1.5 + 0.5j, -2 + 1j, 0j]),
    torch.tensor([[1 + 2j, -3 - 4j]]),
    torch.tensor([1e-6 + 1j, 2 - 3j]),
    torch.tensor(1.25 - 0.5j, dtype=torch.complex128),
    torch.tensor([complex(math.nan, math.inf), 1 + 0j]),
]
printed = [{"value": flat(torch.nan_to_num(t, 0.0, 0.0, 0.0)), "text": str(t), "real": t.real.tolist(), "imag": t.imag.tolist()} for t in PRINTED[:4]]
torch.set_default_dtype(torch.float64)
result = {
    "given": {"z": flat(Z), "w": flat(W), "x": flat(X), "signal": flat(SIGNAL), "window": flat(WINDOW)},
    "rows": [record(row) for row in ROWS],
    "promote": promoted(),
    "printed": printed,
    "learned": [learned(name, options) for name, options in OPTIMIZERS],
    "freq": [torch.fft.fftfreq(5, 0.5).tolist(), torch.fft.fftfreq(4).tolist(), torch.fft.rfftfreq(5, 0.5).tolist()],
}
with open(sys.argv[1], "w") as f:
    json.dump(result, f, separators=(",", ":"))
    f.write("\n")
