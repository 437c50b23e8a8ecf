"""Writes small files of torch, numpy and safetensors to test/golden/io, and what they hold to test/golden/io/expected.json.

    python scripts/golden/io.py        (needs torch, numpy, safetensors)
"""
import collections
import io
import json
import os
import zipfile

import numpy as np
import torch
from safetensors.torch import save_file

OUT = os.path.join(os.path.dirname(__file__), "../../test/golden/io")
NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
}
expected = {}


def path(name):
    return os.path.join(OUT, name)


def told(x):
    """A tensor as [dtype, shape, bytes in hex, row-major and little endian]."""
    if isinstance(x, torch.Tensor):
        x = x.detach().contiguous()
        raw = x.reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
        return [NAMES[str(x.dtype).removeprefix("torch.")], list(x.shape), raw.hex()]
    x = np.ascontiguousarray(x) if x.ndim else x
    return [NAMES[x.dtype.newbyteorder("=").name], list(x.shape), x.astype(x.dtype.newbyteorder("<")).tobytes().hex()]


def tensor(dtype, *shape):
    n = int(np.prod(shape))
    values = torch.arange(n) % 2 if dtype == torch.bool else torch.arange(n) + 1
    return values.to(dtype).reshape(shape)


os.makedirs(OUT, exist_ok=True)
torch.manual_seed(0)
every = {n: tensor(getattr(torch, name), *[(3, 2), (), (0, 4)][i % 3]) for i, (name, n) in enumerate(NAMES.items())}

save_file(every, path("every.safetensors"), metadata={"format": "pt", "note": "ä 語"})
expected["every.safetensors"] = {k: told(v) for k, v in every.items()}

torch.save(every, path("every.pt"))
expected["every.pt"] = expected["every.safetensors"]

# A model and an optimizer after a step, as people save them.
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model(torch.randn(5, 3)).square().sum().backward()
optimizer.step()
checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.25, "name": "größe"}
torch.save(checkpoint, path("checkpoint.pt"))
expected["checkpoint.pt"] = {
    "model": {k: told(v) for k, v in model.state_dict().items()},
    "exp_avg": told(optimizer.state_dict()["state"][0]["exp_avg"]),
    "param_groups": [{k: v for k, v in g.items()} for g in optimizer.state_dict()["param_groups"]],
}

# How tensors can lie in a storage.
base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
tied = torch.arange(6, dtype=torch.int64).reshape(2, 3)
views = {
    "transposed": torch.arange(6.0).reshape(2, 3).T, "permuted": base.clone().permute(2, 0, 1), "sliced": base.clone()[:, 1:, ::2],
    "part": base[1], "row": base[0, 2], "column": base[:, :, 1], "base": base, "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 5),
    "tied1": tied, "tied2": tied, "channels": torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last),
    "windows": torch.arange(8.0).unfold(0, 4, 2), "diagonal": torch.arange(9.0).reshape(3, 3).diagonal(), "scalar": torch.tensor(7.0),
}
torch.save(views, path("views.pt"))
expected["views.pt"] = {k: told(v) for k, v in views.items()}

# Python's own values; in every pickle protocol.
values = collections.OrderedDict(
    none=None, yes=True, no=False, ints=[0, 255, 256, 65536, -1, 2**31, 2**53, -(2**70)], floats=[1.5, -0.0, 1e300],
    text="a\nb 語 \U0001f600", bytes=b"\x00\xff\n", empty=b"", tuple=(1, (2, 3), ()), list=[], dict={1: "a", (1, 2): "b"},
    set={1, 2}, frozenset=frozenset("a"), bytearray=bytearray(b"ab"), size=torch.Size([2, 3]), dtype=torch.bfloat16,
    parameter=torch.nn.Parameter(torch.ones(2)), storage=torch.arange(3, dtype=torch.uint8).untyped_storage(),
)
for protocol in (2, 3, 4, 5):
    torch.save(values, path(f"values{protocol}.pt"), pickle_protocol=protocol)

# Big endian: the same file, its members swapped, as torch on such a machine writes them.
# (torch.load forgets to swap the dtypes that have no storage class of their own, as uint16.)
plain = io.BytesIO()
swapped = {"f32": tensor(torch.float32, 2, 2), "i64": tensor(torch.int64, 3).flip(0), "u16": tensor(torch.uint16, 2)}
torch.save(swapped, plain)
widths = [4, 8, 2]
with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path("big.pt"), "w") as target:
    for info in source.infolist():
        content = source.read(info)
        if "/data/" in info.filename and not info.filename.startswith("archive/."):
            content = np.frombuffer(content, f"<u{widths[int(info.filename.split('/')[-1])]}").byteswap().tobytes()
        target.writestr(info.filename, b"big" if info.filename.endswith("/byteorder") else content)
expected["big.pt"] = {k: told(v) for k, v in swapped.items()}
assert all(torch.equal(v, swapped[k]) for k, v in torch.load(path("big.pt")).items() if k != "u16")


class Danger:
    def __reduce__(self):
        return os.system, ("echo this was run",)


torch.save({"w": torch.ones(2), "danger": Danger()}, path("danger.pt"))
torch.save(torch.nn.Linear(2, 2), path("module.pt"))
torch.save({"w": torch.ones(2, dtype=torch.complex64)}, path("complex.pt"))
torch.save({"w": torch.ones(2)}, path("old.pt"), _use_new_zipfile_serialization=False)

# numpy: every dtype, both orders, both byte orders, all versions of the header.
arrays = {n: (np.arange(6).reshape(2, 3) % 2 if n == "bool" else np.arange(6).reshape(2, 3) + 1).astype(np.dtype(name))
          for name, n in NAMES.items() if n not in ("bf16", "f8e4m3fn", "f8e5m2")}
arrays |= {"scalar": np.float32(3), "empty": np.zeros((0, 4), "i4"), "vector": np.arange(3.0)}
cube = np.arange(24, dtype="i4").reshape(2, 3, 4)
arrays |= {"fortran": np.asfortranarray(cube), "big": cube.astype(">i4"), "bigfortran": np.asfortranarray(cube.astype(">f8"))}
np.savez(path("every.npz"), **arrays)
np.savez_compressed(path("compressed.npz"), **arrays, zeros=np.zeros(5000))
expected["every.npz"] = {k: told(np.asarray(v)) for k, v in arrays.items()}
for version in (1, 2, 3):
    with open(path(f"version{version}.npy"), "wb") as f:
        np.lib.format.write_array(f, np.asfortranarray(cube), version=(version, 0))
np.save(path("object.npy"), np.array([{}], dtype=object), allow_pickle=True)
np.save(path("records.npy"), np.zeros(2, dtype=[("a", "<f4"), ("b", "<i8")]))
np.save(path("complex.npy"), np.ones(2, "c8"))

for name in os.listdir(OUT):
    os.chmod(path(name), 0o644)
with open(path("expected.json"), "w") as f:
    json.dump(expected, f, indent=1, ensure_ascii=False)
    f.write("\n")
