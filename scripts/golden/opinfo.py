"""Golden cases of PyTorch's operator database (OpInfo): python scripts/golden/opinfo.py OUT_FILE [--few] [--entry NAME ...]

Each public entry of op_db is run on its own sample inputs (f32, i64, bool): values, gradients of first and second order (f32),
and the inputs that must raise. --few takes a small selection, which is committed.

OUT_FILE is gzip of: u32 length of the JSON, the JSON, the bytes of all tensors (each one once)."""
import argparse
import contextlib
import gzip
import hashlib
import inspect
import io
import json
import math
import re
import struct
import warnings

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128"}
# Entries with random results set the seed themselves; without that they are known by their results.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
TESTED = (torch.float32, torch.int64, torch.bool)
# torch.testing.assert_close's defaults.
TOLERANCE = {"f32": (1.3e-6, 1e-5), "f64": (1e-7, 1e-7), "f16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5)}
# Results that are unique only up to signs: their absolute values are compared.
UP_TO_SIGN = {"linalg.eigh": [1], "linalg.svd": [0, 2], "svd": [0, 2], "linalg.qr": [0, 1], "qr": [0, 1]}
MOST_SAMPLES, MOST_ELEMENTS = 25, 20_000
# Of the selection: samples of each entry.
FEW = {torch.float32: 2, torch.int64: 1, torch.bool: 1}


class Skip(Exception):
    """A sample that no golden file can hold, or that needs what is out of scope: its reason."""


class Tensors:
    """All tensors of a file, each one once."""

    def __init__(self):
        self.rows, self.blob, self.known = [], bytearray(), {}

    def add(self, t):
        if t.layout != torch.strided:
            raise Skip("sparse")
        if t.device.type != "cpu":
            raise Skip("device")
        if t.is_quantized or t.dtype not in DTYPES:
            raise Skip("dtype")
        if t.numel() > MOST_ELEMENTS:
            raise Skip("size")
        shape = tuple(t.shape)
        t = t.detach().resolve_conj().resolve_neg()
        t = torch.zeros(t.shape, dtype=t.dtype) if t._is_zerotensor() else t.clone(memory_format=torch.contiguous_format)
        t = t.flatten()
        data = (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()
        key = (DTYPES[t.dtype], shape, hashlib.sha1(data).digest())
        if key not in self.known:
            self.known[key] = len(self.rows)
            self.blob += bytes(-len(self.blob) % 8)
            self.rows.append([key[0], list(shape), len(self.blob)])
            self.blob += data
        return self.known[key]


def encode(x, tensors, leaves):
    """An argument as JSON; tensors that want gradients are put into leaves, in this order."""
    if isinstance(x, torch.Tensor):
        node = {"t": tensors.add(x)}
        if x.requires_grad:
            node["g"] = 1
            leaves.append(x)
        return node
    if x is None or isinstance(x, (bool, str)):
        return x
    if isinstance(x, int):
        return x if abs(x) < 2**53 else {"i": str(x)}
    if isinstance(x, float):
        if not math.isfinite(x):
            return {"f": str(x)}
        return {"w": x} if x == int(x) else x  # a float that JavaScript cannot tell from an integer
    if isinstance(x, complex):
        return {"c": [x.real, x.imag]}
    if isinstance(x, torch.dtype):
        if x not in DTYPES:
            raise Skip("dtype")
        return {"dtype": DTYPES[x]}
    if isinstance(x, (list, tuple)):
        return [encode(e, tensors, leaves) for e in x]
    if isinstance(x, dict):
        return {"d": {k: encode(v, tensors, leaves) for k, v in x.items()}}
    if isinstance(x, slice):
        return {"s": [encode(e, tensors, leaves) for e in (x.start, x.stop, x.step)]}
    if x is Ellipsis:
        return {"e": 1}
    if isinstance(x, (torch.device, torch.memory_format)):
        return {"x": str(x)}
    if isinstance(x, torch.layout):
        if x != torch.strided:
            raise Skip("sparse")
        return {"x": str(x)}
    raise Skip(f"an argument of type {type(x).__name__}")


def map_tensors(f, x):
    if isinstance(x, torch.Tensor):
        return f(x)
    if isinstance(x, (list, tuple)):
        mapped = [map_tensors(f, e) for e in x]
        return type(x)(*mapped) if hasattr(x, "_fields") else type(x)(mapped)
    if isinstance(x, dict):
        return {k: map_tensors(f, v) for k, v in x.items()}
    return x


def copied(sample, dtype=None):
    """The sample with tensors of its own, f32 ones in another dtype if one is given; the leaves among them."""
    leaves = []

    def copy(t):
        c = t.detach().clone()
        if dtype and c.dtype == torch.float32:
            c = c.to(dtype)
        if t.requires_grad:
            c.requires_grad_()
            leaves.append(c)
        return c

    def arg(x):
        return dtype if dtype and x == torch.float32 and isinstance(x, torch.dtype) else x

    args = [map_tensors(copy, a) for a in (sample.input, *sample.args)]
    kwargs = {k: map_tensors(copy, v) for k, v in sample.kwargs.items()}
    return [arg(a) for a in args], {k: arg(v) for k, v in kwargs.items()}, leaves


def flat(y):
    if isinstance(y, (list, tuple)) and not isinstance(y, torch.Size):
        return [e for x in y for e in flat(x)]
    return [y]


def seed_like(t, salt):
    """Factors of a result in the sum whose gradient is taken: whole eighths, the same in TypeScript."""
    n = torch.arange(t.numel(), dtype=torch.int64)
    return (((n * 37 + salt * 11) % 13 - 6).to(t.dtype) / 8).reshape(t.shape)


def run(op, sample, dtype=None, order=0):
    """Results, gradients, second gradients (by sums of products with fixed factors)."""
    args, kwargs, leaves = copied(sample, dtype)
    torch.manual_seed(0)
    # In-place entries change their input: a leaf that wants a gradient must not be one.
    kept = [t.detach().clone() for t in leaves]
    results = flat(op(*args, **kwargs))
    for i in UP_TO_SIGN.get(op.name, []):
        if i < len(results):
            results[i] = results[i].abs()
    first = second = None
    wanted = [(i, y) for i, y in enumerate(results) if isinstance(y, torch.Tensor) and y.requires_grad and not y.is_complex()]
    if order and wanted and leaves:
        total = sum((y * seed_like(y, i)).sum() for i, y in wanted)
        first = list(torch.autograd.grad(total, leaves, create_graph=order > 1, allow_unused=True))
        further = [(i, g) for i, g in enumerate(first) if g is not None and g.requires_grad]
        if order > 1 and further:
            total = sum((g * seed_like(g, i + 5)).sum() for i, g in further)
            second = list(torch.autograd.grad(total, leaves, allow_unused=True))
    del kept
    detached = [y.detach() if isinstance(y, torch.Tensor) else y for y in results]
    return detached, first, second


def noise(a, b):
    """How far f32 results are from those in f64, relative to max(1, |value|): at most 1e-2, else 0 (not comparable)."""
    if a is None or b is None or a.shape != b.shape or not a.is_floating_point() or not a.numel():
        return 0
    a, b = a.double(), b.double()
    good = torch.isfinite(a) & torch.isfinite(b)
    worst = ((a - b).abs() / b.abs().clamp(min=1))[good]
    worst = worst.max().item() if worst.numel() else 0
    return worst if 2e-7 < worst < 1e-2 else 0


def golden(y, tensors, exact):
    if not isinstance(y, torch.Tensor):
        return None if y is None else {"v": encode(y, tensors, [])}
    node = {"t": tensors.add(y)}
    n = noise(y, exact if isinstance(exact, torch.Tensor) else None)
    if n:
        node["n"] = float(f"{n:.1e}")
    return node


def same(a, b):
    return len(a) == len(b) and all(
        torch.equal(x.nan_to_num() if x.is_floating_point() else x, y.nan_to_num() if y.is_floating_point() else y)
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.shape == y.shape and x.dtype == y.dtype
        else type(x) is type(y) and not isinstance(x, torch.Tensor) and x == y
        for x, y in zip(a, b))


def is_random(op, sample):
    args, kwargs, _ = copied(sample)
    torch.manual_seed(7)
    with torch.no_grad():
        a = [y.detach().clone() if isinstance(y, torch.Tensor) else y for y in flat(op(*args, **kwargs))]
    args, kwargs, _ = copied(sample)
    torch.manual_seed(8)
    with torch.no_grad():
        b = flat(op(*args, **kwargs))
    return not same(a, b)


RANDOM = re.compile(r"dropout|^rand|^normal|bernoulli|multinomial|rrelu|cauchy|exponential$|geometric|log_normal|uniform|lowrank|fractional|scaled_dot|attention")


UNWRITTEN = re.compile(r"^(new_)?empty|^resize_")  # memory as it was


def case_of(op, sample, dtype, tensors):
    leaves = []
    args = [encode(a, tensors, leaves) for a in (sample.input, *sample.args)]
    kwargs = {k: encode(v, tensors, leaves) for k, v in sample.kwargs.items()}
    order = (2 if op.supports_gradgrad else 1) if leaves else 0
    if UNWRITTEN.search(op.name) or (RANDOM.search(op.name) and is_random(op, sample)):
        results, _, _ = run(op, sample)
        shapes = [[DTYPES[y.dtype], list(y.shape)] for y in results]
        return {"a": args, **({"k": kwargs} if kwargs else {}), "random": shapes}
    while True:
        try:
            results, first, second = run(op, sample, order=order)
            break
        except Skip:
            raise
        except Exception:
            if not order:
                raise
            order -= 1
    exact = ([], None, None)
    if dtype == torch.float32:
        with contextlib.suppress(Exception):
            exact = run(op, sample, torch.float64, order)
    pair = lambda ys, es: [golden(y, tensors, es[i] if es and i < len(es) else None) for i, y in enumerate(ys)]
    case = {"a": args, **({"k": kwargs} if kwargs else {}), "out": pair(results, exact[0])}
    if first is not None:
        case["grad"] = pair(first, exact[1])
    if second is not None:
        case["grad2"] = pair(second, exact[2])
    return case


def public_name(op):
    """Where the function is in torch's documented API; nothing if it is not."""
    name = op.name
    if re.match(r"__r\w+__$|__getitem__$", name):
        return f"torch.Tensor.{name}"
    if re.match(r"torch\.|jiterator", name) or any(part.startswith("_") for part in name.split(".")):
        return None
    for path in (f"torch.{name}", f"torch.Tensor.{name}", f"torch.Tensor.{name}_"):
        found = torch
        for part in path.split(".")[1:]:
            found = getattr(found, part, None)
        if found is not None and (inspect.getdoc(found) or "").strip() and (callable(found) or name in ("T", "H", "mT", "mH")):
            return path
    return None


def tolerance(op, dtype):
    """The default, or the largest of the database's own for this dtype on the CPU."""
    rtol, atol = TOLERANCE[DTYPES[dtype]] if dtype in (torch.float32,) else (0, 0)
    for info in op.decorators:
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for d in getattr(info, "decorators", []):
            found = d.d.get(dtype) if isinstance(d, toleranceOverride) else None
            if found:
                rtol, atol = max(rtol, found.rtol), max(atol, found.atol)
    return [rtol, atol]


def spread(items, count):
    if len(items) <= count:
        return items
    if count == 1:
        return items[len(items) // 2 :][:1]
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def signature_of(case):
    """What a sample is about, without its values: samples of the selection differ in this."""
    return json.dumps([case["a"], case.get("k")], default=str)


def samples_of(op, dtype, tensors, few):
    torch.manual_seed(0)
    grad = dtype == torch.float32 and op.supports_autograd
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    cases, skipped = [], {}
    for sample in spread(samples, few or MOST_SAMPLES):
        try:
            cases.append(case_of(op, sample, dtype, tensors))
        except Skip as e:
            skipped[str(e)] = skipped.get(str(e), 0) + 1
        except Exception as e:
            skipped["torch raises"] = skipped.get("torch raises", 0) + 1
            print(f"{op.name} {dtype}: {str(e)[:150]}")
    return {"samples": len(samples), "cases": cases, "skipped": skipped, "tolerance": tolerance(op, dtype)}


def errors_of(op, tensors, few):
    if not op.error_inputs_func:
        return [], {}
    torch.manual_seed(0)
    cases, skipped = [], {}
    for error in spread(list(op.error_inputs("cpu")), few or 1000):
        sample = error.sample_input
        try:
            case = {"a": [encode(a, tensors, []) for a in (sample.input, *sample.args)]}
            if sample.kwargs:
                case["k"] = {k: encode(v, tensors, []) for k, v in sample.kwargs.items()}
        except Skip as e:
            skipped[str(e)] = skipped.get(str(e), 0) + 1
            continue
        try:
            op(sample.input, *sample.args, **sample.kwargs)
        except Exception as e:
            cases.append({**case, "message": str(e).split("\n")[0][:160]})
        else:
            skipped["torch does not raise"] = skipped.get("torch does not raise", 0) + 1
    return cases, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--entry", nargs="*")
    options = parser.parse_args()
    global MOST_ELEMENTS
    if options.few:
        MOST_ELEMENTS = 150
    tensors, entries, private = Tensors(), [], []
    for op in op_db:
        title = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if options.entry and op.name not in options.entry and title not in options.entry:
            continue
        public = public_name(op)
        if not public:
            private.append(title)
            continue
        entry = {"name": op.name, "variant": op.variant_test_name, "torch": public, "dtypes": {}}
        for dtype in TESTED:
            if dtype in op.supported_dtypes("cpu"):
                entry["dtypes"][DTYPES[dtype]] = samples_of(op, dtype, tensors, FEW[dtype] if options.few else None)
        entry["errors"], entry["errorsSkipped"] = errors_of(op, tensors, 3 if options.few else None)
        if op.name in UP_TO_SIGN:
            entry["upToSign"] = UP_TO_SIGN[op.name]
        entries.append(entry)
    text = json.dumps({"version": torch.__version__.split("+")[0], "private": private, "tensors": tensors.rows, "entries": entries},
                      separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    with open(options.out, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
        z.write(struct.pack("<I", len(text)) + text + bytes(tensors.blob))
    count = lambda d: sum(len(e["dtypes"][d]["cases"]) for e in entries if d in e["dtypes"])
    print(f"{len(entries)} entries; cases: f32 {count('f32')}, i64 {count('i64')}, bool {count('bool')}; errors {sum(len(e['errors']) for e in entries)}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with contextlib.redirect_stderr(io.StringIO()):
        main()
