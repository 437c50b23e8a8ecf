"""Writes OUT_DIR/dispatch.mlir: 120 inputs f32[8], each plus one an output. It computes nothing worth timing, so its
time is the cost of dispatch. bench/jax_hlo.py times the same program in JAX.

    python dispatch.py OUT_DIR
"""
import sys
from pathlib import Path

N = 120
T = "tensor<8xf32>"


def text():
    arguments = ", ".join(f"%a{i}: {T}" for i in range(N))
    results = ", ".join([T] * N)
    body = "\n".join(f"    %r{i} = stablehlo.add %a{i}, %one : {T}" for i in range(N))
    returned = ", ".join(f"%r{i}" for i in range(N))
    return f"""module @dispatch {{
  func.func public @main({arguments}) -> ({results}) {{
    %one = stablehlo.constant dense<1.0> : {T}
{body}
    return {returned} : {results}
  }}
}}
"""


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    (out / "dispatch.mlir").write_text(text())
