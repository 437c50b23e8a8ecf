"""Writes test/golden/averaged.json: averages of a model, as torch.optim.swa_utils computes them.

    OMP_NUM_THREADS=1 python scripts/golden/averaged.py test/golden/averaged.json
"""

import json
import sys

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn, update_bn

x = torch.tensor([[1.0, 2], [3, -1], [0, 4], [2, 2]], dtype=torch.float64)


def model():
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).double()
    with torch.no_grad():
        for k, p in enumerate(m.parameters()):
            p.copy_((torch.arange(p.numel()).double() * 0.5 + k - 1).reshape(p.shape))
    return m


def numbers(module):
    return {k: [round(x, 12) for x in v.double().flatten().tolist()] for k, v in module.state_dict().items()}


cases = {
    "swa": {},
    "ema": {"avg_fn": get_ema_avg_fn(0.75)},
    "emaBuffers": {"multi_avg_fn": get_ema_multi_avg_fn(0.75), "use_buffers": True},
    "buffers": {"use_buffers": True},
}
golden = {}
for name, options in cases.items():
    m = model()
    averaged = AveragedModel(m, **options)
    for i in range(4):
        m(x * (i + 1))
        with torch.no_grad():
            for p in m.parameters():
                p.mul_(1.5).add_(i)
        averaged.update_parameters(m)
    golden[name] = numbers(averaged)
    if name == "swa":
        averaged.eval()
        update_bn([[x, 0], x * 2], averaged)
        golden["bn"] = numbers(averaged)

with open(sys.argv[1], "w") as f:
    json.dump(golden, f)
    f.write("\n")
