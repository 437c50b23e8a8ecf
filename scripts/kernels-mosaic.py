"""How JAX lowers kernels for TPUs: the kernels of test/kernels/mosaic-cases.ts written in Pallas, lowered without a TPU, as
fingerprints into test/golden/mosaic/. Run it when a kernel is added:

    pip install jax==0.10.2 jaxlib==0.10.2 && python scripts/kernels-mosaic.py

A fingerprint is the module's text with values numbered anew (test/kernels/mosaic-fingerprint.ts, which npx tsx runs). With a
folder as the argument, the modules themselves stay there.
"""
import base64, json, os, re, subprocess, sys, tempfile
import jax, jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax._src.lib import tpu
from jax._src.lib.mlir import ir

F32, BF16, I32, I8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8
CASES = {}
PARALLEL, IN_ORDER = 'parallel', 'arbitrary'


def case(operands, out, grid=(1,), specs=None, outs=None, scratch=(), semantics=None):
  """Operands and results are ((sizes), dtype); without specs every program has whole arrays."""
  def whole(t):
    return pl.BlockSpec(t[0], lambda *ids: (0,) * len(t[0]))

  def add(run):
    results = out if isinstance(out, list) else [out]
    call = pl.pallas_call(
        run, grid=grid, name=run.__name__,
        in_specs=[s or whole(t) for s, t in zip(specs or [None] * len(operands), operands)],
        out_specs=[s or whole(t) for s, t in zip(outs or [None] * len(results), results)],
        out_shape=[jax.ShapeDtypeStruct(*t) for t in results],
        scratch_shapes=[pltpu.VMEM(*t) for t in scratch],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics or (PARALLEL,) * len(grid)))
    CASES[run.__name__] = (call, [jax.ShapeDtypeStruct(*t) for t in operands])
    return run
  return add


X = ((8, 128), F32)
N = ((8, 128), I32)
const = lambda v, dtype=F32: jnp.asarray(v, dtype)
dot = lambda a, b, ca, cb, out=F32, precision=None: lax.dot_general(
    a, b, (((ca,), (cb,)), ((), ())), preferred_element_type=out, precision=precision)


@case([X, X], X)
def arithmetic(x, y, o):
  a, b = x[...], y[...]
  o[...] = jnp.minimum(jnp.maximum(((a + b) * a - b) / a, b), jnp.abs(-a))


@case([N, N], N)
def integers(x, y, o):
  a, b = x[...], y[...]
  c = lax.rem(lax.div(a * b + a - b, const(3, I32)), const(7, I32))
  o[...] = jnp.minimum(jnp.maximum(c, a), b)


@case([N, N], N)
def bits(x, y, o):
  a, b = x[...], y[...]
  o[...] = lax.shift_right_arithmetic(lax.shift_left((a & b) | (a ^ b), const(4, I32)), const(2, I32))


@case([X], X)
def functions(x, o):
  a = x[...]
  b = lax.rsqrt(lax.sqrt(lax.log(lax.exp(a))))
  o[...] = lax.tanh(lax.cos(lax.sin(b)))


@case([X], X)
def error_function(x, o):
  o[...] = lax.erf(x[...])


@case([X], X)
def rounding(x, o):
  o[...] = lax.floor(x[...]) + lax.ceil(x[...])


@case([X], X)
def sigmoid(x, o):
  o[...] = 1.0 / (lax.exp(-x[...]) + 1.0)


@case([X, X], X)
def comparisons(x, y, o):
  a, b = x[...], y[...]
  low, high = (a < b) & (a <= 0.0), (a > b) | (a >= 1.0)
  o[...] = jnp.where(low, a, jnp.where(high, b, jnp.where((a == b) ^ (a != 2.0), a, 7.0)))


@case([N, N], N)
def integer_comparisons(x, y, o):
  a, b = x[...], y[...]
  o[...] = jnp.where((a < b) & (a >= 0), a, jnp.where((a == b) | (a != 3), b, jnp.where((a > 5) ^ (b <= 2), a, b)))


@case([((16, 128), BF16), ((16, 128), I32)], [((16, 128), BF16), ((16, 128), I32)])
def conversions(x, n, y, m):
  wide = x[...].astype(F32)
  y[...] = (wide + n[...].astype(F32)).astype(BF16)
  m[...] = wide.astype(I32) + (wide > 0.0).astype(I32)


@case([X], X)
def counting(x, o):
  rows, columns = lax.broadcasted_iota(I32, (8, 128), 0), lax.broadcasted_iota(I32, (8, 128), 1)
  o[...] = x[...] + (rows * 128 + columns).astype(F32) + jnp.full((8, 128), 2.0, F32)


@case([((16, 256), F32)], ((16, 256), F32), grid=(2,), specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
      outs=[pl.BlockSpec((8, 256), lambda i: (i, 0))])
def softmax(x, y):
  rows = x[...]
  e = lax.exp(rows - lax.expand_dims(jnp.max(rows, axis=1), [1]))
  y[...] = e / lax.expand_dims(jnp.sum(e, axis=1), [1])


@case([((16, 128), F32)], [((1, 128), F32), ((16, 1), F32)])
def reductions(x, across, along):
  a = x[...]
  across[...] = lax.expand_dims(jnp.max(a, axis=0), [0]) + lax.expand_dims(jnp.sum(a, axis=0), [0])
  along[...] = lax.expand_dims(jnp.min(a, axis=1), [1])


@case([((128, 128), F32)], ((128, 128), F32))
def transposed(x, o):
  o[...] = x[...].T


@case([((32, 128), BF16), ((64, 128), BF16)], ((32, 64), F32))
def product(x, y, o):
  o[...] = dot(x[...], y[...], 1, 1)


@case([((128, 32), F32), ((128, 64), F32)], ((32, 64), F32))
def product_of_f32(x, y, o):
  o[...] = dot(x[...], y[...], 0, 0, precision=lax.Precision.HIGHEST)


@case([((32, 128), I8), ((128, 128), I8)], ((32, 128), I32))
def product_of_i8(x, y, o):
  o[...] = dot(x[...], y[...], 1, 0, I32)


@case([((64, 256), BF16), ((256, 256), BF16)], ((64, 256), BF16), grid=(2, 2, 2),
      specs=[pl.BlockSpec((32, 128), lambda i, j, l: (i, l)), pl.BlockSpec((128, 128), lambda i, j, l: (j, l))],
      outs=[pl.BlockSpec((32, 128), lambda i, j, l: (i, j))], scratch=[((32, 128), F32)],
      semantics=(PARALLEL, PARALLEL, IN_ORDER))
def linear(x, w, y, total):
  @pl.when(pl.program_id(2) == 0)
  def _():
    total[...] = jnp.zeros((32, 128), F32)
  total[...] = total[...] + dot(x[...], w[...], 1, 1)
  @pl.when(pl.program_id(2) == 1)
  def _():
    y[...] = jnp.maximum(total[...], 0.0).astype(BF16)


@case([((8, 512), F32)], ((8, 128), F32))
def looped(x, o):
  def body(i, total):
    return total + x[:, pl.ds(i * 128, 128)]
  o[...] = lax.fori_loop(0, 4, body, jnp.zeros((8, 128), F32))


@case([((16, 256), F32)], ((16, 256), F32))
def parts(x, o):
  o[0:8, 128:256] = x[8:16, 0:128]
  o[8:16, 128:256] = x[8:16, 128:256]
  o[:, 0:128] = x[:, 128:256]


@case([X], X)
def masked(x, o):
  columns = lax.broadcasted_iota(I32, (8, 128), 1)
  o[...] = jnp.zeros((8, 128), F32)
  pltpu.store(o, jnp.where(columns < 100, x[...], 1.0), mask=columns > 3)


@case([((4, 16, 256), F32)], ((4, 8, 256), F32), grid=(4, 2),
      specs=[pl.BlockSpec((None, 8, 128), lambda i, j: (i, 1, j))],
      outs=[pl.BlockSpec((None, 8, 128), lambda i, j: (lax.rem(i + 1, 4), 0, j))])
def unseen(x, o):
  o[...] = x[...] * (pl.program_id(0) + 1).astype(F32)


# ---- one whole attention, forward and backward: causal, two heads to a key, a last block of keys that is not full

H, G, T, S, D, B = 4, 2, 512, 400, 128, 256
NQ, NK = T // B, -(-S // B)
SCALE, HIDDEN, FIRST, EMPTY, LANES = 0.125, -1e30, -1e29, 1e30, 128
Q, K = ((1, H, T, D), BF16), ((1, G, S, D), BF16)
ROW = ((1, H, 1, T), F32)
ORDER = (PARALLEL, PARALLEL, PARALLEL, IN_ORDER)


def keys_for(i, j):
  """A block of keys that block i of queries sees: j, or the last one."""
  return jnp.minimum(jnp.minimum(j, NK - 1), lax.div(i * B + (B - 1), B))


def queries_for(i, j):
  return jnp.minimum(jnp.maximum(i, lax.div(j * B, B)), NQ - 1)


def step(i, j, run):
  """Masks only where some is hidden; nothing where all is."""
  seen = i * B + (B - 1) >= j * B
  partly = (i * B < j * B + (B - 1)) | (j == NK - 1)
  pl.when(seen & (partly.astype(I32) == 0))(lambda: run(False))
  pl.when(seen & partly)(lambda: run(True))


def visible(i, j, turned):
  queries = lax.broadcasted_iota(I32, (B, B), 1 if turned else 0) + i * B
  keys = lax.broadcasted_iota(I32, (B, B), 0 if turned else 1) + j * B
  return (queries >= keys) & (keys < S)


def inside(ref, left):
  """Rows beyond the end of an array are 0: Pallas leaves them undefined. In f32, as masks are of 32 bits."""
  x = ref[...]
  is_left = lax.broadcasted_iota(I32, (B, D), 0) < left
  zero = jnp.full((B, D), 0, BF16)
  return jnp.where(is_left, x.astype(F32), zero.astype(F32)).astype(BF16)


as_row = lambda c: lax.expand_dims(jnp.max(jnp.broadcast_to(c, (B, LANES)).T, axis=0), [0])
as_column = lambda r: lax.expand_dims(jnp.max(jnp.broadcast_to(r, (LANES, B)).T, axis=1), [1])
along = lambda f, x: lax.expand_dims(f(x, axis=1), [1])


def scores_of(a, b, i, j, masked, turned=False):
  every = dot(a, b, 1, 1) * SCALE
  return jnp.where(visible(i, j, turned), every, HIDDEN) if masked else every


query_block = pl.BlockSpec((None, None, B, D), lambda b, h, i, j: (b, h, i, 0))


def key_map(b, h, i, j):
  block = keys_for(i, j)
  return b, lax.div(h, 2), block, 0


key_block = pl.BlockSpec((None, None, B, D), key_map)
row_block = pl.BlockSpec((None, None, 1, B), lambda b, h, i, j: (b, h, 0, i))


@case([Q, K, K], [Q, ROW], grid=(1, H, NQ, NK), specs=[query_block, key_block, key_block],
      outs=[query_block, row_block], scratch=[((B, 1), F32), ((B, 1), F32), ((B, D), F32)], semantics=ORDER)
def flashAttention(q, k, v, out, statistic, top, total, sum):
  i, j = pl.program_id(2), pl.program_id(3)
  left = S - keys_for(i, j) * B
  @pl.when(j == 0)
  def _():
    top[...] = jnp.full((B, 1), FIRST, F32)
    total[...] = jnp.zeros((B, 1), F32)
    sum[...] = jnp.zeros((B, D), F32)
  def run(masked):
    scores = scores_of(q[...], inside(k, left), i, j, masked)
    was = top[...]
    most = jnp.maximum(top[...], along(jnp.max, scores))
    shrink = lax.exp(was - most)
    powers = lax.exp(scores - most)
    total[...] = total[...] * shrink + along(jnp.sum, powers)
    sum[...] = sum[...] * shrink + dot(powers.astype(BF16), inside(v, left), 1, 0)
    top[...] = most
  step(i, j, run)
  @pl.when(j == NK - 1)
  def _():
    every = total[...]
    empty = every == 0.0
    divisor = jnp.where(empty, 1.0, every)
    out[...] = (sum[...] / divisor).astype(BF16)
    statistic[...] = as_row(jnp.where(empty, EMPTY, top[...] + lax.log(divisor)))


@case([Q, K, K, Q, Q, ROW], [Q, ROW], grid=(1, H, NQ, NK),
      specs=[query_block, key_block, key_block, query_block, query_block, row_block],
      outs=[query_block, row_block], scratch=[((B, 1), F32), ((B, 1), F32), ((B, D), F32)], semantics=ORDER)
def flashAttentionQuery(q, k, v, output, g, statistic, dq, common_row, shift, common, sum):
  i, j = pl.program_id(2), pl.program_id(3)
  left = S - keys_for(i, j) * B
  @pl.when(j == 0)
  def _():
    both = along(jnp.sum, output[...].astype(F32) * g[...].astype(F32))
    shift[...] = as_column(statistic[...])
    common[...] = both
    sum[...] = jnp.zeros((B, D), F32)
    common_row[...] = as_row(both)
  def run(masked):
    scores = scores_of(q[...], inside(k, left), i, j, masked)
    weights = lax.exp(scores - shift[...])
    of_weights = dot(g[...], inside(v, left), 1, 1)
    of_scores = weights * (of_weights - common[...]) * SCALE
    sum[...] = sum[...] + dot(of_scores.astype(BF16), inside(k, left), 1, 0)
  step(i, j, run)
  @pl.when(j == NK - 1)
  def _():
    dq[...] = sum[...].astype(BF16)


own_block = pl.BlockSpec((None, None, B, D), lambda b, g, j, n: (b, g, j, 0))
other_block = pl.BlockSpec((None, None, B, D), lambda b, g, j, n: (
    b, g * 2 + lax.div(n, NQ), queries_for(lax.rem(n, NQ), j), 0))
other_row = pl.BlockSpec((None, None, 1, B), lambda b, g, j, n: (
    b, g * 2 + lax.div(n, NQ), 0, queries_for(lax.rem(n, NQ), j)))


@case([Q, K, K, Q, ROW, ROW], [K, K], grid=(1, G, NK, 2 * NQ),
      specs=[other_block, own_block, own_block, other_block, other_row, other_row],
      outs=[own_block, own_block], scratch=[((B, D), F32), ((B, D), F32)], semantics=ORDER)
def flashAttentionKey(q, k, v, g, statistic, common, dk, dv, of_key, of_value):
  j, n = pl.program_id(2), pl.program_id(3)
  left = S - j * B
  i = lax.rem(n, NQ)
  @pl.when(n == 0)
  def _():
    of_key[...] = jnp.zeros((B, D), F32)
    of_value[...] = jnp.zeros((B, D), F32)
  def run(masked):
    scores = scores_of(inside(k, left), q[...], i, j, masked, turned=True)
    weights = lax.exp(scores - statistic[...])
    of_value[...] = of_value[...] + dot(weights.astype(BF16), g[...], 1, 0)
    of_weights = dot(inside(v, left), g[...], 1, 1)
    of_scores = weights * (of_weights - common[...]) * SCALE
    of_key[...] = of_key[...] + dot(of_scores.astype(BF16), q[...], 1, 0)
  step(i, j, run)
  @pl.when(n == 2 * NQ - 1)
  def _():
    dk[...] = of_key[...].astype(BF16)
    dv[...] = of_value[...].astype(BF16)


# ---- fingerprints

def module_of(call, operands):
  text = jax.jit(call).trace(*operands).lower(lowering_platforms=('tpu',)).as_text()
  config = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', text).group(1)
  config = json.loads(re.sub(r'\\([0-9A-Fa-f]{2})', lambda h: chr(int(h.group(1), 16)), config))
  context = ir.Context()
  tpu.register_dialect(context)
  context.allow_unregistered_dialects = True
  with context:
    return ir.Module.parse(base64.b64decode(config['custom_call_config']['body'])).operation.get_asm()


if __name__ == '__main__':
  root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
  with tempfile.TemporaryDirectory() as folder:
    folder = sys.argv[1] if len(sys.argv) > 1 else folder
    for name, (call, operands) in CASES.items():
      with open(os.path.join(folder, name + '.mlir'), 'w') as f:
        f.write(module_of(call, operands))
    subprocess.run(['npx', 'tsx', 'scripts/kernels-mosaic.ts', folder], cwd=root, check=True)
