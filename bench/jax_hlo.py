"""Peer of `tsxla hlo run`: the same training step in JAX, its state fed back and donated.

    python jax_hlo.py STEP_DIR [--plugin PATH.so] [--option NAME=VALUE ...] [--repeat N]

STEP_DIR is what scripts/golden/jax_step.py wrote. Without --plugin JAX runs on the CPU client built into jaxlib; with
it, on that PJRT plugin, so that the compiler and the kernels are those that tsxla uses. Prints one line of JSON:

    ms_median, ms_min   a step, from the call until its loss is ready (N steps after 3 of warm-up)
    compile_s           XLA's compile alone, without tracing and lowering
    dispatch_us         median call of a program with 120 inputs and 120 outputs (f32[8], plus one) until it returns
    jax, platform       versions: "cpu" is the built-in client, "PJRT C API ..." a plugin
"""
import argparse
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "scripts" / "golden"))


def option(text):
    name, value = text.split("=", 1)
    return name, {"true": True, "false": False}.get(value, int(value) if re.fullmatch(r"-?\d+", value) else value)


def choose_client(plugin, options):
    """JAX on a PJRT plugin, or on the CPU client built into jaxlib."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # read at `import jax`
    os.environ["JAX_PLATFORMS"] = "plugin" if plugin else "cpu"
    if plugin:
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"plugin:{plugin}"
    import jax
    if plugin:
        jax.config.update("jax_pjrt_client_create_options", dict(options))


def time_step(step_dir, repeat):
    import jax
    import jax_step
    from safetensors.numpy import load_file

    text = (step_dir / "gpt-step.mlir").read_text()
    size = re.search(r"@jit_gpt_step_(\w+)", text)[1]
    step, shape = jax_step.make_step(size), jax.tree.structure(jax_step.init(size))
    arrays = load_file(step_dir / "gpt-step.inputs.safetensors")
    *state, ids, targets = jax.device_put(jax.tree.unflatten(shape, [arrays[f"arg{i}"] for i in range(len(arrays))]))

    lowered = step.lower(*state, ids, targets)
    if lowered.as_text() != text:
        print("warning: this JAX lowers the step otherwise than the one that wrote gpt-step.mlir", file=sys.stderr)
    start = time.perf_counter()
    lowered.compile()
    compile_s = time.perf_counter() - start

    times = []
    for i in range(3 + repeat):
        start = time.perf_counter()
        *state, loss = step(*state, ids, targets)
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
    times = times[3:]
    return dict(ms_median=statistics.median(times) * 1e3, ms_min=min(times) * 1e3, compile_s=compile_s)


def time_dispatch(inputs=120, calls=1000):
    import jax
    import numpy as np

    plus_one = jax.jit(lambda *xs: [x + 1 for x in xs])
    xs = jax.device_put([np.zeros(8, np.float32)] * inputs)
    times = []
    for i in range(20 + calls):
        start = time.perf_counter()
        ys = plus_one(*xs)
        times.append(time.perf_counter() - start)
        xs = jax.block_until_ready(ys)
    return statistics.median(times[20:]) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step_dir", type=Path)
    parser.add_argument("--plugin", help="library that exports GetPjrtApi")
    parser.add_argument("--option", type=option, action="append", default=[], help="create option of the plugin")
    parser.add_argument("--repeat", type=int, default=20)
    args = parser.parse_args()
    choose_client(args.plugin, args.option)
    import jax
    platform = jax.devices()[0].client.platform_version.replace("\n", " ")
    result = dict(time_step(args.step_dir, args.repeat), dispatch_us=time_dispatch())
    print(json.dumps({**{k: round(v, 3) for k, v in result.items()}, "jax": jax.__version__, "platform": platform}))


if __name__ == "__main__":
    main()
