"""Writes PyTorch's ModuleInfo database (torch.testing._internal.common_modules.module_db) as golden cases.

    OMP_NUM_THREADS=1 python scripts/golden/moduleinfo.py OUT [--dtypes f32,f64]
    OMP_NUM_THREADS=1 python scripts/golden/moduleinfo.py test/golden/moduleinfo --selection

Each module input is run through torch: OUT/cases.json has the constructor's and forward's arguments, in the spelling of
tsxla (options as one object, camelCase); OUT/tensors.safetensors the state dict, the inputs, the results, the gradients of
inputs and parameters, and the buffers after the call. `--selection` keeps one or two small f32 inputs of each module: what is
committed. Gradients are those of sum(result * seed), with the seed of `seed_of`, which the tests compute, too.
"""

import argparse
import inspect
import json
import random
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence
from torch.testing._internal.common_modules import module_db

DTYPES = {"f32": torch.float32, "f64": torch.float64}
NOT_HERE = {"device", "dtype"}  # a tensor here is on the process's device; module.to(dtype) converts


def camel(name: str) -> str:
    head, *rest = name.lstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)


def seed_of(y: torch.Tensor) -> torch.Tensor:
    k = torch.arange(y.numel(), dtype=torch.float64)
    return (((k * 5 + 3) % 17 - 8) / 8).to(y.dtype).reshape(y.shape)


def record_arguments(cls) -> None:
    """Instances remember what they were made with: some modules take others."""
    init = cls.__init__

    def remember(self, *args, **kwargs):
        init(self, *args, **kwargs)
        object.__setattr__(self, "made_with", (args, kwargs))

    remember.__signature__ = inspect.signature(init)
    cls.__init__ = remember


for layer in (torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer):
    record_arguments(layer)


class Case:
    """One call of one module, and the tensors that belong to it."""

    def __init__(self, key: str):
        self.key, self.tensors, self.inputs = key, {}, []

    def put(self, name: str, t: torch.Tensor) -> None:
        self.tensors[f"{self.key}/{name}"] = t.detach().clone().contiguous()

    def plain(self, x):
        """An argument as JSON; tensors by their number."""
        if isinstance(x, PackedSequence):
            data, lengths = pad_packed_sequence(x, batch_first=True)
            return {"packed": self.plain(data), "lengths": lengths.tolist()}
        if isinstance(x, torch.Tensor):
            self.inputs.append(x)
            self.put(f"in{len(self.inputs) - 1}", x)
            return {"tensor": len(self.inputs) - 1, "grad": x.requires_grad}
        if isinstance(x, torch.nn.Module):
            args, kwargs = x.made_with
            return {"module": type(x).__name__, "args": self.arguments(type(x).__init__, args, kwargs)}
        if isinstance(x, torch.nn.LinearCrossEntropyOptions):
            names = [name for name in inspect.signature(type(x)).parameters if getattr(x, name, None) is not None]
            return {camel(name): self.plain(getattr(x, name)) for name in names}
        if isinstance(x, (tuple, list)):
            return [self.plain(e) for e in x]
        if isinstance(x, float) and not np.isfinite(x):
            return {"number": str(x)}
        if callable(x):
            return {"function": x.__name__}
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        raise TypeError(f"{self.key}: {type(x)}")

    def arguments(self, f, args, kwargs):
        """By place what has no default or was given so; the rest as options."""
        parameters = list(inspect.signature(f).parameters.values())[1:]
        required = [p.name for p in parameters if p.default is inspect.Parameter.empty]
        if parameters and parameters[0].kind == inspect.Parameter.VAR_POSITIONAL:
            required = ["input_size", "hidden_size"]  # RNN, LSTM and GRU, whose signature does not say so
        named, by_place = dict(kwargs), [self.plain(a) for a in args]
        for name in required[len(args) :]:
            if name in named:
                by_place.append(self.plain(named.pop(name)))
        options = {camel(k): self.plain(v) for k, v in named.items() if k not in NOT_HERE}
        return by_place + ([options] if options else [])


def tensors_in(x):
    if isinstance(x, PackedSequence):
        return [pad_packed_sequence(x, batch_first=True)[0]]
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for e in x for t in tensors_in(e)] if isinstance(x, (tuple, list)) else []


def run(key: str, info, sample, dtype, training: bool):
    case = Case(key)
    make, call = sample.constructor_input, sample.forward_input
    module = info.module_cls(*make.args, **make.kwargs).to(dtype).train(training)
    is_lazy = info.module_cls.__name__.startswith("Lazy")
    if is_lazy:
        with torch.no_grad():
            module(*call.args, **call.kwargs)
    record = {
        "key": key,
        "module": info.module_cls.__name__,
        "dtype": [k for k, v in DTYPES.items() if v == dtype][0],
        "training": training,
        "desc": sample.desc,
        "make": case.arguments(info.module_cls.__init__, make.args, make.kwargs),
        "call": case.arguments(info.module_cls.forward, call.args, call.kwargs),
    }
    for name, t in module.state_dict().items():
        case.put(f"state/{name}", t)
    for t in case.inputs:
        t.grad = None
    ys = tensors_in(module(*call.args, **call.kwargs))
    for i, y in enumerate(ys):
        case.put(f"out{i}", y)
    reached = [y for y in ys if y.requires_grad]
    record["outputs"] = len(ys)
    if reached:
        sum((y * seed_of(y)).sum() for y in reached).backward()
    record["backward"] = [i for i, y in enumerate(ys) if y.requires_grad]
    for i, t in enumerate(case.inputs):
        if t.is_leaf and t.grad is not None:
            case.put(f"grad{i}", t.grad)
    for name, p in module.named_parameters():
        if p.grad is not None:
            case.put(f"param/{name}", p.grad)
    for name, b in module.named_buffers():
        case.put(f"buffer/{name}", b)
    return record, case.tensors


def inputs_of(info, dtype, training: bool):
    more = {"with_packed_sequence": True} if info.module_cls in (torch.nn.RNN, torch.nn.GRU) else {}
    return info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training, **more)


MOST_BYTES = 9000  # of the tensors of a case that is committed


def selected(cases):
    """The middle one of the small cases, and the last one where there are many."""
    size = lambda case: sum(t.numel() * t.element_size() for t in case[1].values())
    small = [c for c in cases if size(c) <= MOST_BYTES] or [min(cases, key=size)]
    return [small[len(small) // 2]] + small[-1:] * (len(small) > 15)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--selection", action="store_true")
    parser.add_argument("--dtypes", default="f32,f64")
    options = parser.parse_args()
    records, tensors, failed = [], {}, []
    for info in module_db:
        for name in ["f32"] if options.selection else options.dtypes.split(","):
            for training in (True, False) if info.train_and_eval_differ else (True,):
                torch.manual_seed(0), random.seed(0), np.random.seed(0)
                samples = inputs_of(info, DTYPES[name], training)
                cases = []
                for i, sample in enumerate(samples):
                    key = f"{info.module_cls.__name__}/{i}/{name}{'' if training else '/eval'}"
                    try:
                        cases.append(run(key, info, sample, DTYPES[name], training))
                    except Exception as error:
                        failed.append({"key": key, "error": f"{type(error).__name__}: {error}"[:300]})
                for record, own in selected(cases) if options.selection else cases:
                    records.append(record)
                    tensors.update(own)
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, options.out / "tensors.safetensors")
    rows = ",\n".join(json.dumps(r, separators=(",", ":")) for r in records)
    (options.out / "cases.json").write_text(f'{{"torch":"{torch.__version__}","cases":[\n{rows}\n]}}\n')
    print(f"{len(records)} cases of {len(module_db)} modules, {len(failed)} that torch itself refuses")
    for f in failed[:20]:
        print("  ", f["key"], f["error"])


main()
