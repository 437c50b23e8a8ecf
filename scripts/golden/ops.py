"""Answers of torch for the table of operations: npx tsx scripts/golden/ops.ts [FAMILY ...] | python ops.py OUT_DIR

For each row of a family, OUT_DIR/FAMILY.safetensors holds ROW/in0.. (the inputs), ROW/out0.. (the results), and, where
the row has gradients, ROW/seed0.. (of the results) and ROW/grad0.. (of the inputs, by torch's autograd)."""
import json
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

DTYPES = dict(
    bool=torch.bool, u8=torch.uint8, u16=torch.uint16, u32=torch.uint32, u64=torch.uint64, i8=torch.int8, i16=torch.int16,
    i32=torch.int32, i64=torch.int64, f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32, f64=torch.float64,
    f8e4m3fn=torch.float8_e4m3fn, f8e5m2=torch.float8_e5m2)


def fill(spec, rng):
    """An input, as a torch tensor."""
    shape, kind = spec["shape"], spec["fill"]
    if isinstance(kind, list):
        data = np.array([float(x) if isinstance(x, str) else x for x in kind])
    elif isinstance(kind, dict):
        data = rng.integers(kind["from"], kind["to"], shape)
    elif kind == "distinct":  # no two alike, in random order: for sorting and extremes
        data = (rng.permutation(int(np.prod(shape))) - 0.3) / 4
    else:
        data = dict(normal=lambda: rng.standard_normal(shape), positive=lambda: rng.uniform(0.5, 2, shape),
                    unit=lambda: rng.uniform(-0.9, 0.9, shape))[kind]()
    return torch.from_numpy(np.asarray(data).reshape(shape)).to(DTYPES[spec["dtype"]])


def answer(row):
    """All arrays of one row."""
    rng = np.random.default_rng(zlib.crc32(row["name"].encode()))
    inputs = [fill(spec, rng) for spec in row["inputs"]]
    arrays = {f"in{i}": x for i, x in enumerate(inputs)}
    leaves = [x.clone().requires_grad_(row.get("grad", True)) if x.is_floating_point() else x for x in inputs]
    try:
        results = eval(row["torch"], dict(zip("abcdefgh", leaves), torch=torch, F=F, np=np))
    except Exception as e:
        raise RuntimeError(f"{row['name']}: {e}") from e
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    arrays |= {f"out{i}": y.detach() for i, y in enumerate(results)}
    wanted = [(i, y) for i, y in enumerate(results) if y.requires_grad]
    if wanted:
        seeds = {i: torch.from_numpy(rng.standard_normal(tuple(y.shape))).to(y.dtype) for i, y in wanted}
        variables = [(i, x) for i, x in enumerate(leaves) if x.requires_grad]
        grads = torch.autograd.grad([y for _, y in wanted], [x for _, x in variables], list(seeds.values()), allow_unused=True)
        arrays |= {f"seed{i}": s for i, s in seeds.items()}
        arrays |= {f"grad{i}": g for (i, _), g in zip(variables, grads) if g is not None}
    return {name: x.contiguous().clone() for name, x in arrays.items()}


if __name__ == "__main__":
    for family in json.load(sys.stdin):
        golden = {}
        for i, row in enumerate(family["rows"]):
            golden |= {f"{row['name']}/{key}": x for key, x in answer(row).items()}
        save_file(golden, f"{sys.argv[1]}/{family['family']}.safetensors")
        print(f"{family['family']}: {len(family['rows'])} rows", file=sys.stderr)
