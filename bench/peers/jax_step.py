"""JAX's side of bench/cpu.ts, the whole step in jit: python jax_step.py FOLDER"""
import jax
import jax.numpy as jnp
from side import read_model, take_turns

m = read_model()
L, D, H, V, B, T = m.L, m.D, m.H, m.V, m.B, m.T
(b1, b2), lr = m.betas, m.lr
x, y = jnp.array(m.ids), jnp.array(m.targets)
mask = jnp.tril(jnp.ones((T, T), bool))


def norm(h, weight):
    return h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-5) * weight


def loss_of(w):
    h = w["emb"][x]
    for i in range(L):
        a = norm(h, w[f"l{i}.n1"])
        q, k, v = ((a @ w[f"l{i}.{name}"]).reshape(B, T, H, D // H) for name in ("wq", "wk", "wv"))
        scores = jnp.einsum("bthd,bshd->bhts", q, k) * (D // H) ** -0.5
        mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(mask, scores, -1e9), -1), v)
        h = h + mixed.reshape(B, T, D) @ w[f"l{i}.wo"]
        a = norm(h, w[f"l{i}.n2"])
        h = h + (jax.nn.silu(a @ w[f"l{i}.w1"]) * (a @ w[f"l{i}.w3"])) @ w[f"l{i}.w2"]
    logp = jax.nn.log_softmax(norm(h, w["nf"]) @ w["head"])
    return -jnp.take_along_axis(logp, y[..., None], -1).mean()


def adamw(w, first, second, t):
    """AdamW's new weight, from the old one and its averaged gradients."""
    update = (first / (1 - b1**t)) / (jnp.sqrt(second / (1 - b2**t)) + m.eps)
    return w * (1 - lr * m.weightDecay) - lr * update


def step(w, first, second, t):
    loss, g = jax.value_and_grad(loss_of)(w)
    first = jax.tree.map(lambda a, g: b1 * a + (1 - b1) * g, first, g)
    second = jax.tree.map(lambda a, g: b2 * a + (1 - b2) * g * g, second, g)
    w = jax.tree.map(lambda w, a, b: adamw(w, a, b, t + 1), w, first, second)
    return (w, first, second, t + 1), loss


weights = {name: jnp.array(value) for name, value in m.weights.items()}
state = (weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.float32(0))
compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))


def turn():
    global state
    state, loss = compiled(*state)
    return float(loss)


take_turns(f"JAX {jax.__version__} jit", turn)
