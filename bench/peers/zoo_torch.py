"""torch's side of bench/zoo.ts: python zoo_torch.py NAME SIZE STEPS DEVICE eager|compile, from the repository's root.
First the losses of that many steps, then turns with a new model."""
import importlib
import json
import os
import sys

import torch

sys.path.append("scripts/golden/ports")
name, size, steps, device, mode = sys.argv[1:]
from common import sizes_of  # noqa: E402
from side import take_turns  # noqa: E402

torch.set_default_device(device)
torch.set_num_threads(len(os.sched_getaffinity(0)))
make = importlib.import_module(name.replace("-", "_")).make
wrap = torch.compile if mode == "compile" else lambda module: module
about = {"name": f"torch {torch.__version__.split('+')[0]} {mode}", "threads": torch.get_num_threads()}
step, losses = make(sizes_of(name, size), wrap), []
for _ in range(int(steps)):
    loss = step()
    losses += loss if isinstance(loss, list) else [loss]
print(json.dumps({**about, "losses": losses}), flush=True)
step = make(sizes_of(name, size), wrap)
take_turns(None, step)
