"""The loops of test/plain/loops.ts in torch: what they have learned after 60, 250 and 1,000 steps.

    .venv/bin/python scripts/golden/plain_loops.py > test/golden/plain-loops.json
"""
import json
import math

import torch
from torch import nn
import torch.nn.functional as F


def wave(shape, seed, scale=0.3):
    size = math.prod(shape)
    return torch.tensor([math.sin((i + 1) * (seed + 1) * 0.7) * scale for i in range(size)], dtype=torch.float32).reshape(shape)


def fill(module, seed):
    with torch.no_grad():
        for n, p in enumerate(module.parameters()):
            p.copy_(wave(p.shape, seed + n))
    return module


def mlp():
    return fill(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), 0)


X = wave([16, 6], 11, 1)
Y = torch.tensor([i % 3 for i in range(16)])


def run_mlp(n):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(n):
        opt.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        opt.step()
    return list(model.parameters())


def run_rnn(n):
    w, u = wave([4, 4], 1).requires_grad_(), wave([4, 4], 2).requires_grad_()
    opt = torch.optim.SGD([w, u], lr=0.05, momentum=0.9)
    x = wave([2, 4], 3, 1)
    h = torch.zeros(2, 4)
    for _ in range(n):
        h = h.detach()
        opt.zero_grad()
        h = torch.tanh(x @ w + h @ u)
        ((h - 0.5) ** 2).mean().backward()
        opt.step()
    return [w, u, h]


def run_gan(n):
    g, d = fill(nn.Linear(2, 4), 4), fill(nn.Linear(4, 1), 6)
    og = torch.optim.Adam(g.parameters(), lr=0.01, betas=(0.5, 0.999))
    od = torch.optim.Adam(d.parameters(), lr=0.01, betas=(0.5, 0.999))
    z, real = wave([8, 2], 8, 1), wave([8, 4], 9, 1) + 0.5
    ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
    bce = F.binary_cross_entropy_with_logits
    for _ in range(n):
        fake = g(z)
        od.zero_grad()
        (bce(d(real), ones) + bce(d(fake.detach()), zeros)).backward()
        od.step()
        og.zero_grad()
        bce(d(fake), ones).backward()
        og.step()
    return [*g.parameters(), *d.parameters()]


def run_ema(n):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    averages = None
    for _ in range(n):
        opt.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        opt.step()
        with torch.no_grad():
            now = [p.clone() for p in model.parameters()]
            averages = now if averages is None else [a + (p - a) * 0.1 for a, p in zip(averages, now)]
    return averages


def run_accumulation(n):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(n):
        opt.zero_grad()
        for part in (0, 1):
            rows = slice(part * 8, part * 8 + 8)
            (F.cross_entropy(model(X[rows]), Y[rows]) / 2).backward()
        opt.step()
    return list(model.parameters())


def run_batch_norm(n):
    model = fill(nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)), 0)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=20, gamma=0.5)
    for _ in range(n):
        opt.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        opt.step()
        schedule.step()
    return [*model.parameters(), *[b for b in model.buffers() if b.dtype == torch.float32]]


LOOPS = {
    "mlp": run_mlp,
    "rnn": run_rnn,
    "gan": run_gan,
    "ema": run_ema,
    "accumulation": run_accumulation,
    "scaled": run_mlp,
    "batchNorm": run_batch_norm,
}
result = {
    name: {str(n): [round(x, 6) for t in run(n) for x in t.detach().flatten().tolist()] for n in (60, 250, 1000)}
    for name, run in LOOPS.items()
}
print(json.dumps(result))
