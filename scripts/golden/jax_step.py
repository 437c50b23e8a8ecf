"""A training step (forward, backward, Adam) of a decoder-only transformer, lowered by JAX, with its inputs and outputs.

    python jax_step.py OUT_DIR [--size test|tiny|small]

writes gpt-step.mlir (StableHLO text), gpt-step.inputs.safetensors (arg0..arg116) and gpt-step.outputs.safetensors
(out0..out115, computed by JAX on the CPU). test/golden/ holds the result of `--size test`.

Order of the arguments; jax.tree flattens a dict by sorted key, so a tree of parameters is 38 arrays:
emb, then for each of 4 layers d g k n1 n2 o q u v, then nf.

    arg0..37 parameters   arg38..75 first moments   arg76..113 second moments   arg114 step (i32)
    arg115 ids (i32)      arg116 targets (i32)
    out0..114: the new value of arg0..114, in the memory of that argument (donated)      out115 loss (f32)

So the next step takes out0..114 and the same ids and targets. The safetensors metadata has one entry,
"about": JSON that maps each name to its path in the tree, and "jax" to its version.
"""
import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

# layers, width, heads, hidden width of the MLP, vocabulary, batch, sequence length
SIZES = {
    "test": (4, 16, 2, 32, 64, 2, 8),
    "tiny": (4, 256, 4, 1024, 2048, 4, 128),
    "small": (4, 512, 8, 2048, 8192, 8, 256),
}
STATE = (0, 1, 2, 3)  # donated: parameters, both moments, the step counter


def init(size):
    """Arguments of the step. Moments are those of a run under way: with zeros the first Adam update is sign(gradient),
    which turns a rounding error near zero into a full step."""
    L, D, H, F, V, B, T = SIZES[size]
    rng = np.random.default_rng(0)
    n = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)
    layer = lambda: dict(q=n(D, D), k=n(D, D), v=n(D, D), o=n(D, D), g=n(D, F), u=n(D, F), d=n(F, D),
                         n1=np.ones(D, np.float32), n2=np.ones(D, np.float32))
    emb = n(D, V).T.copy()  # scaled by the width: it is the output head too
    params = dict(emb=emb, layers=[layer() for _ in range(L)], nf=np.ones(D, np.float32))
    first = jax.tree.map(lambda a: (1e-2 * rng.standard_normal(a.shape)).astype(np.float32), params)
    second = jax.tree.map(lambda a: rng.uniform(1e-4, 2e-4, a.shape).astype(np.float32), params)
    ids = rng.integers(0, V, (B, T), dtype=np.int32)
    return params, first, second, np.int32(1000), ids, np.roll(ids, -1, 1)


def make_step(size):
    L, D, H, F, V, B, T = SIZES[size]

    def norm(x, w):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w

    def loss(p, ids, targets):
        x = p["emb"][ids.reshape(-1)]                                    # [B*T, D]: XLA on the CPU likes 2-D matmuls
        causal = jnp.tril(jnp.ones((T, T), bool))
        for l in p["layers"]:
            h = norm(x, l["n1"])
            q, k, v = ((h @ l[name]).reshape(B, T, H, D // H) for name in "qkv")
            s = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(D // H)    # [B, H, T, T]
            a = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(causal, s, -1e9)), v)
            x = x + a.reshape(B * T, D) @ l["o"]
            h = norm(x, l["n2"])
            x = x + (jax.nn.silu(h @ l["g"]) * (h @ l["u"])) @ l["d"]
        logits = norm(x, p["nf"]) @ p["emb"].T                           # [B*T, V]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets.reshape(-1, 1), 1))

    def step(p, m, v, t, ids, targets):
        value, g = jax.value_and_grad(loss)(p, ids, targets)
        t = t + 1
        c1, c2 = 1 - 0.9 ** t.astype(jnp.float32), 1 - 0.999 ** t.astype(jnp.float32)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        p = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), p, m, v)
        return p, m, v, t, value

    step.__name__ = f"gpt_step_{size}"  # names the module @jit_gpt_step_SIZE, by which bench/jax_hlo.py knows the size
    return jax.jit(step, donate_argnums=STATE, keep_unused=True)


def save(path, prefix, tree, names):
    """Leaves in order as prefix0..prefixN. One metadata entry, since safetensors writes several in random order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = {f"{prefix}{i}": np.array(x, order="C") for i, (_, x) in enumerate(leaves)}
    paths = {f"{prefix}{i}": names[at[0].idx] + jax.tree_util.keystr(at[1:]) for i, (at, _) in enumerate(leaves)}
    save_file(arrays, path, metadata={"about": json.dumps({"jax": jax.__version__, **paths})})
    return len(arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--size", choices=SIZES, default="test")
    args = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    args.out_dir.mkdir(parents=True, exist_ok=True)

    step, inputs = make_step(args.size), init(args.size)
    (args.out_dir / "gpt-step.mlir").write_text(step.lower(*inputs).as_text())
    outputs = step(*jax.tree.map(jnp.array, inputs))
    n = save(args.out_dir / "gpt-step.inputs.safetensors", "arg", inputs, ["p", "m", "v", "step", "ids", "targets"])
    r = save(args.out_dir / "gpt-step.outputs.safetensors", "out", outputs, ["p", "m", "v", "step", "loss"])
    print(f"{n} inputs, {r} outputs, loss {float(outputs[-1]):.6f}")


if __name__ == "__main__":
    main()
