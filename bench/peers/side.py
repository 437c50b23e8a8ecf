"""What the Python sides share: the model of the folder they are given, and the turns that bench/cpu.ts calls."""
import json
import sys
import time
import types


def read_model(folder=sys.argv[-1]):
    """The model's numbers, its weights by name, and the ids and targets [B, T]."""
    import numpy as np

    model = types.SimpleNamespace(**json.load(open(f"{folder}/model.json")))
    values, at = np.fromfile(f"{folder}/weights.f32", "f4"), 0
    model.weights = {}
    for name, shape in model.shapes:
        size = int(np.prod(shape))
        model.weights[name] = values[at : at + size].reshape(shape)
        at += size
    tokens = np.fromfile(f"{folder}/tokens.i32", "i4").reshape(model.B, model.T + 1)
    model.ids, model.targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    return model


def take_turns(name, step):
    """Prints its name, if there is one, then reads lines {steps, seconds} and answers each with the losses and milliseconds of that many steps,
    or of fewer when the seconds are over, and with the processor seconds they took. `step` gives the loss as a number: the
    step is done then."""
    if name:
        print(json.dumps({"name": name}), flush=True)
    for line in sys.stdin:
        turn = json.loads(line)
        losses, ms = [], []
        start, cpu = time.perf_counter(), time.process_time()
        while len(ms) < turn["steps"] and time.perf_counter() - start < turn["seconds"]:
            before = time.perf_counter()
            losses.append(step())
            ms.append((time.perf_counter() - before) * 1e3)
        print(json.dumps({"losses": losses, "ms": ms, "cpu": time.process_time() - cpu}), flush=True)
