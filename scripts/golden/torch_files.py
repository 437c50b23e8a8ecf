"""Writes torch files of every kind that torch.load(weights_only=True) reads, and zip archives of Python's other ways, to
test/golden/io; and what they hold to test/golden/io/torch.json.

    python scripts/golden/torch_files.py                    (needs torch 2.13, numpy)
    python scripts/golden/torch_files.py check FILE.pt      (a file of writeTorch: prints what torch finds in it, as JSON)
"""
import collections
import io
import json
import os
import pickle
import sys
import warnings
import zipfile

import numpy as np
import torch

warnings.simplefilter("ignore")
OUT = os.path.join(os.path.dirname(__file__), "../../test/golden/io")
NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
}


def path(name):
    return os.path.join(OUT, name)


def raw(x):
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    return x.reshape(-1).view(torch.uint8).numpy().tobytes().hex() if x.numel() else ""


def told(x):
    """A tensor as [dtype, shape, bytes in hex, row-major and little endian]."""
    return [NAMES[str(x.dtype).removeprefix("torch.")], list(x.shape), raw(x)]


def check(file):
    found = torch.load(file, weights_only=True)
    tensors = {}

    def visit(x, name):
        if isinstance(x, torch.Tensor):
            tensors[name] = {"told": told(x), "storage": x.untyped_storage().data_ptr(), "at": x.data_ptr(), "bytes": x.untyped_storage().nbytes()}
        elif isinstance(x, dict):
            for k, v in x.items():
                visit(v, f"{name}.{k}" if name else str(k))
        elif isinstance(x, list):
            for i, v in enumerate(x):
                visit(v, f"{name}.{i}" if name else str(i))

    visit(found, "")
    print(json.dumps(tensors))


if sys.argv[1:2] == ["check"]:
    check(sys.argv[2])
    sys.exit()

expected = {}

# What torch.load(weights_only=True) allows beside plain tensors.
c64 = torch.tensor([[1 + 2j, 3 - 4j], [5j, -6]], dtype=torch.complex64)
attribute = torch.arange(3.0)
attribute.note = "kept in torch"
parameter = torch.nn.Parameter(torch.arange(2.0))
parameter.note = 1
dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
values = {
    "device": torch.device("cuda", 1), "cpu": torch.device("cpu"), "complex": 1 - 2j, "counter": collections.Counter("abca"), "layout": torch.sparse_coo,
    "strided": torch.strided, "size": torch.Size([2, 3]), "dtype": torch.complex64, "odd dtype": torch.float8_e8m0fnu, "qscheme": torch.per_tensor_affine,
    "plain": torch.arange(4, dtype=torch.int16), "attribute": attribute, "parameter": parameter,
    "c64": c64, "c128": c64.to(torch.complex128), "c32": c64.to(torch.complex32), "transposed": c64.T, "conjugate": c64.conj(), "negative": c64.clone().conj().imag,
    "sparse": dense.to_sparse(), "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(),
    "bsr": torch.eye(4).to_sparse_bsr((2, 2)), "complex sparse": c64.to_sparse(),
    "quantized": torch.quantize_per_tensor(torch.tensor([1.0, 2.5, -1.0]), 0.5, 3, torch.qint8),
    "channels": torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([1, 2]), 1, torch.quint8),
    "nested": torch.nested.nested_tensor([torch.ones(2), torch.arange(3.0)]), "meta": torch.empty(2, 3, device="meta", dtype=torch.bfloat16),
    "e8m0": torch.tensor([1.0, 2.0, 4.0]).to(torch.float8_e8m0fnu),
}
torch.save(values, path("weights-only.pt"))
torch.load(path("weights-only.pt"), weights_only=True)
expected["weights-only.pt"] = {
    "plain": told(values["plain"]), "attribute": told(attribute), "parameter": told(parameter.data), "negative": told(values["negative"]),
    **{name: raw(values[name]) for name in ("c64", "c128", "c32", "transposed", "conjugate", "e8m0")},
    "sparse": [told(values["sparse"].indices()), told(values["sparse"].values())],
    **{name: [told(f(values[name])) for f in parts] for name, parts in {
        "csr": (torch.Tensor.crow_indices, torch.Tensor.col_indices, torch.Tensor.values),
        "csc": (torch.Tensor.ccol_indices, torch.Tensor.row_indices, torch.Tensor.values),
        "bsr": (torch.Tensor.crow_indices, torch.Tensor.col_indices, torch.Tensor.values)}.items()},
    "complex sparse": [told(values["complex sparse"].indices()), raw(values["complex sparse"].values())],
    "quantized": told(values["quantized"].int_repr()), "channels": told(values["channels"].int_repr()),
    "nested": told(torch.cat([torch.ones(2), torch.arange(3.0)])),
}
# Python's other dict; torch.load takes it once collections.defaultdict and list are declared safe.
torch.save({"lists": collections.defaultdict(list, {"a": [1]}), "w": torch.ones(2)}, path("defaultdict.pt"))
# A tensor that has no form here, beside one that has.
packed = torch.quantize_per_channel(torch.ones(2, 4), torch.ones(2), torch.zeros(2), 0, torch.quint4x2)
torch.save({"packed": packed, "plain": torch.arange(2.0), "inner": {"packed": packed}}, path("packed.pt"))

# The form before torch 1.6.
base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
tied = torch.arange(6, dtype=torch.int64).reshape(2, 3)
every = {n: (torch.arange(4).reshape(2, 2) + 1).to(getattr(torch, name)) for name, n in NAMES.items()}
every["bool"] = torch.tensor([[True, False], [False, True]])
legacy = collections.OrderedDict(
    **every, transposed=torch.arange(6.0).reshape(2, 3).T, part=base[1], base=base, tied1=tied, tied2=tied, scalar=torch.tensor(7.0), empty=torch.zeros(0, 3),
)
torch.save(legacy, path("legacy.pt"), _use_new_zipfile_serialization=False)
expected["legacy.pt"] = {k: told(v) for k, v in legacy.items()}
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
torch.save({"model": model.state_dict(), "step": 3, "device": torch.device("cpu"), "c": c64}, path("legacy-model.pt"), _use_new_zipfile_serialization=False)
expected["legacy-model.pt"] = {k: told(v) for k, v in model.state_dict().items()}
torch.save({"w": torch.ones(2)}, path("legacy4.pt"), _use_new_zipfile_serialization=False, pickle_protocol=4)


# Old files also had parts of storages, and tensors in the forms of torch 0.1 and 0.3; today's torch writes neither, and reads both.
class Stored:
    def __init__(self, key, count, part=None):
        self.id = ("storage", torch.FloatStorage, key, "cpu", count, part)


class Made:
    def __init__(self, function, *args):
        self.made = (function, args)

    def __reduce__(self):
        return self.made


class Pickler(pickle._Pickler):
    def persistent_id(self, x):
        return x.id if isinstance(x, Stored) else None


numbers = np.arange(8, dtype="<f4")
with open(path("legacy-parts.pt"), "wb") as f:
    for x in (torch.serialization.MAGIC_NUMBER, 1001, {"little_endian": True}):
        pickle.dump(x, f, protocol=2)
    part = ("20", 2, 5)
    Pickler(f, protocol=2).dump({
        "whole": Made(torch._utils._rebuild_tensor, Stored("10", 8), 0, (2, 4), (4, 1)),
        "part": Made(torch._utils._rebuild_tensor_v2, Stored("10", 8, part), 1, (2, 2), (2, 1), False, collections.OrderedDict()),
    })
    pickle.dump(["10"], f, protocol=2)
    f.write((8).to_bytes(8, "little") + numbers.tobytes())
read = torch.load(path("legacy-parts.pt"), weights_only=True)
assert read["part"].tolist() == [[3, 4], [5, 6]] and read["whole"].flatten().tolist() == numbers.tolist()
expected["legacy-parts.pt"] = {k: told(v) for k, v in read.items()}

# No checksums; a place left for the elements.
torch.serialization.set_crc32_options(False)
torch.save({"w": torch.arange(3.0)}, path("no-checksums.pt"))
torch.serialization.set_crc32_options(True)
with torch.serialization.skip_data():
    torch.save({"w": torch.arange(3.0)}, path("skipped.pt"))

# Archives of Python's zipfile: to a pipe (sizes follow the bytes), with a comment, with names that look like paths.
class Pipe(io.RawIOBase):
    def __init__(self):
        self.bytes = b""

    def writable(self):
        return True

    def write(self, b):
        self.bytes += bytes(b)
        return len(b)


arrays = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.arange(300) % 7}
for name, compression in (("pipe.npz", zipfile.ZIP_STORED), ("pipe-deflated.npz", zipfile.ZIP_DEFLATED)):
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", compression) as z:
        for key, array in arrays.items():
            with z.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array)
    with open(path(name), "wb") as f:
        f.write(pipe.bytes)
np.savez(path("comment.npz"), **arrays)
with zipfile.ZipFile(path("comment.npz"), "a") as z:
    z.comment = b"a comment, with PK in it"
np.savez(path("paths.npz"), **{"/absolute": arrays["a"], "../up": arrays["b"], "größe": arrays["a"]})
for name in ("pipe.npz", "pipe-deflated.npz", "comment.npz"):
    assert sorted(np.load(path(name))) == ["a", "b"]
expected["npz"] = {k: told(torch.from_numpy(v)) for k, v in arrays.items()}

expected["globals"] = sorted(torch._weights_only_unpickler._get_allowed_globals())

with open(path("torch.json"), "w") as f:
    json.dump(expected, f, indent=1, ensure_ascii=False)
    f.write("\n")
for name in os.listdir(OUT):
    os.chmod(path(name), 0o644)
