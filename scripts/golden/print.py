"""How torch prints: python scripts/golden/print.py > test/golden/print.json  (values, shape, dtype, torch's text)"""
import json

import torch

rng = torch.Generator().manual_seed(0)
randn = lambda *s: torch.randn(*s, generator=rng)
tensors = [
    torch.tensor(1.5), torch.tensor(3), torch.tensor([]), torch.zeros(0, 3), torch.tensor([1.0, 2.0]), torch.tensor([1.5, -2.25]),
    torch.tensor([1e-5, 1.0]), torch.tensor([1e9, 1.0]), torch.tensor([1.0, 5000.0]), torch.tensor([0.0, float("nan"), float("inf"), -1.0]),
    torch.tensor([0.0, 0.0]), torch.tensor([-0.0, 1.5]), torch.tensor([True, False]), torch.tensor([1, -200, 3]), randn(3, 4), randn(2, 3, 4),
    randn(2, 2, 2, 2), randn(30), randn(40, 40), torch.arange(2000), randn(2000), torch.arange(12).reshape(3, 4), randn(3).double(),
    torch.arange(4, dtype=torch.int32), randn(4).to(torch.bfloat16), randn(3).to(torch.float16), torch.full((2, 2), float("nan")),
    torch.tensor([[1e-10, 1e10]]), torch.tensor([100000.0, 1.0]), torch.tensor([2**62, 1]), torch.arange(25.0), randn(5, 300), randn(1001, 2)]
names = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool", torch.bfloat16: "bf16", torch.float16: "f16"}
rows = []
for t in tensors:
    values = t.flatten().tolist() if t.dtype in (torch.int64, torch.int32, torch.bool) else t.double().flatten().tolist()
    text = str(t)
    for long, short in names.items():
        text = text.replace(f"dtype={long}", f"dtype={short}")
    rows.append(dict(dtype=names[t.dtype], shape=list(t.shape), values=[str(v) for v in values], text=text))
print(json.dumps(rows))
