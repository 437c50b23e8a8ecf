"""The dtypes of results under torch.autocast, by the lists for CUDA: npx tsx scripts/golden/ops.ts | python scripts/golden/autocast.py > test/golden/autocast.json

Every row of the table of operations is run on tensors without data that say they are on a GPU, so none is needed: with its
f32 inputs as they are, all in bf16, and the first or the last in bf16. What torch cannot run in such a mix is left empty."""
import json
import logging
import sys
import warnings

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
LOW = torch.bfloat16
DTYPES = dict(
    bool=torch.bool, u8=torch.uint8, u16=torch.uint16, u32=torch.uint32, u64=torch.uint64, i8=torch.int8, i16=torch.int16,
    i32=torch.int32, i64=torch.int64, f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32, f64=torch.float64,
    f8e4m3fn=torch.float8_e4m3fn, f8e5m2=torch.float8_e5m2)
NAMES = {v: k for k, v in DTYPES.items()}
MIXES = dict(
    f32=lambda i, n: False,
    low=lambda i, n: True,
    first=lambda i, n: i == 0,
    last=lambda i, n: i == n - 1,
)


def dtypes(row, mix):
    count = len(row["inputs"])
    inputs = [
        torch.empty(s["shape"], device="cuda", dtype=LOW if s["dtype"] == "f32" and MIXES[mix](i, count) else DTYPES[s["dtype"]])
        for i, s in enumerate(row["inputs"])
    ]
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", LOW)
    torch.autocast_increment_nesting()
    try:
        results = eval(row["torch"], dict(torch=torch, F=F), dict(zip("abcdefgh", inputs)))
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        return [NAMES[y.dtype] for y in results]
    except Exception as e:
        return None
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", False)


golden, seen = {}, set()
with FakeTensorMode(allow_non_fake_inputs=True):
    for family in json.load(sys.stdin):
        for row in family["rows"]:
            kind = (row["op"], *((s["dtype"], len(s["shape"])) for s in row["inputs"]))
            if kind in seen or not any(s["dtype"] == "f32" for s in row["inputs"]):
                continue
            found = {mix: dtypes(row, mix) for mix in MIXES}
            if any(found.values()):
                seen.add(kind)
                golden[f"{family['family']}/{row['name']}"] = " | ".join(",".join(f or []) for f in found.values())
json.dump(dict(mixes=list(MIXES), rows=golden), sys.stdout, indent=2)
