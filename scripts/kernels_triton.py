"""Compiles Triton IR for an H100 (sm_90) with Triton's own compiler, as far as machine code: no GPU is needed.

    python scripts/kernels_triton.py FOLDER

FOLDER holds NAME.WARPS.STAGES.ttir files. Prints a line of JSON for each: what it needs, or what is wrong with it.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402

TARGET = GPUTarget("cuda", 90, 32)
RESOURCES = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def resources_of(cubin: bytes, file: pathlib.Path) -> dict[str, int]:
    """Registers of a thread, and bytes of its stack: what did not fit into registers lies there."""
    file.write_bytes(cubin)
    text = subprocess.run([RESOURCES, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    found = {name: int(n) for name, n in re.findall(r"(REG|STACK|SHARED):(\d+)", text)}
    return {"registers": found.get("REG", 0), "stack": found.get("STACK", 0)}


def main(folder: pathlib.Path) -> None:
    print(json.dumps({"triton": triton.__version__}))
    for file in sorted(folder.glob("*.ttir")):
        name, warps, stages, _ = file.name.rsplit(".", 3)
        try:
            options = {"num_warps": int(warps), "num_stages": int(stages)}
            made = triton.compile(str(file), target=TARGET, options=options)
        except Exception as error:  # of the compiler, of any kind: the line says which
            print(json.dumps({"name": name, "error": f"{type(error).__name__}: {error}"[:500]}))
            continue
        facts = resources_of(made.asm["cubin"], file.with_suffix(".cubin"))
        print(json.dumps({"name": name, "shared": made.metadata.shared, **facts}), flush=True)


os.environ.setdefault("TRITON_CACHE_DIR", str(pathlib.Path(sys.argv[1]) / "cache"))
main(pathlib.Path(sys.argv[1]))
