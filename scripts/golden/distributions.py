# What torch.distributions answers for test/distributions.test.ts: python scripts/golden/distributions.py test/golden/distributions.json
import json
import math
import sys

import torch
import torch.distributions as td
from torch.distributions import transforms as tt

torch.set_default_dtype(torch.float64)


def T(*x):
    """A tensor parameter, whose gradient is recorded."""
    return {"t": x[0] if len(x) == 1 else list(x)}


def D(cls, *args, **kwargs):
    return {"cls": cls, "args": list(args), "kwargs": kwargs}


UNIT = [0.1, 0.35, 0.9]
REAL = [[-1.5], [0.2], [2.3]]  # broadcasts with parameters of two
POSITIVE = [[0.05], [0.7], [3.1]]
LOC, SCALE = T([0.5, -1.0]), T([1.2, 0.4])
LOGITS = T([[0.3, -1.2, 0.8], [0.0, 0.1, 2.0]])
PROBS = T([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
TRIL = [[1.2, 0.0], [-0.3, 0.7]]
COV = [[1.5, -0.4], [-0.4, 0.8]]

CASES = [
    (D("Normal", LOC, SCALE), REAL),
    (D("Normal", T(0.5), 2.0), 0.3),
    (D("Normal", T([[0.1], [0.2]]), T([0.5, 1.0, 2.0])), [0.3, 0.1, -2.0]),
    (D("LogNormal", LOC, SCALE), POSITIVE),
    (D("HalfNormal", SCALE), POSITIVE),
    (D("HalfCauchy", SCALE), POSITIVE),
    (D("Cauchy", LOC, SCALE), REAL),
    (D("Laplace", LOC, SCALE), REAL),
    (D("Gumbel", LOC, SCALE), REAL),
    (D("Uniform", T([-2.0, -3.0]), T([2.5, 4.0])), REAL),
    (D("Exponential", T([0.5, 2.0])), POSITIVE),
    (D("StudentT", T([0.7, 1.5]), LOC, SCALE), REAL),
    (D("StudentT", T([3.0, 12.0])), REAL),
    (D("VonMises", LOC, T([0.4, 7.0])), REAL),
    (D("Gamma", T([0.3, 4.0]), T([1.5, 0.5])), POSITIVE),
    (D("Gamma", T([25.0, 1.0]), T([1.0, 3.0])), [[20.0], [31.0], [0.1]]),
    (D("Chi2", T([1.0, 5.0])), POSITIVE),
    (D("Beta", T([0.5, 3.0]), T([1.5, 2.0])), [[0.05], [0.5], [0.93]]),
    (D("Dirichlet", T([[0.5, 1.5, 3.0], [2.0, 2.0, 2.0]])), [0.2, 0.5, 0.3]),
    (D("Dirichlet", T([0.5, 0.4, 0.9])), [0.2, 0.5, 0.3]),
    (D("Bernoulli", T([0.2, 0.9])), [[0.0], [1.0]]),
    (D("Bernoulli", logits=T([-1.5, 0.4])), [[0.0], [1.0]]),
    (D("Geometric", T([0.2, 0.9])), [[0.0], [3.0]]),
    (D("Geometric", logits=T([-1.5, 0.4])), [[0.0], [3.0]]),
    (D("Binomial", 7, T([0.2, 0.9])), [[0.0], [3.0], [7.0]]),
    (D("Binomial", 7, logits=T([-1.5, 0.4])), [[0.0], [3.0], [7.0]]),
    (D("Poisson", T([0.4, 12.0])), [[0.0], [3.0], [20.0]]),
    (D("Categorical", PROBS), [0, 2]),
    (D("Categorical", logits=LOGITS), [[1], [2]]),
    (D("OneHotCategorical", logits=LOGITS), [[0.0, 1.0, 0.0]]),
    (D("OneHotCategorical", PROBS), [[0.0, 0.0, 1.0]]),
    (D("Multinomial", 5, PROBS), [[1.0, 0.0, 4.0]]),
    (D("Multinomial", 5, logits=LOGITS), [[2.0, 2.0, 1.0]]),
    (D("MultivariateNormal", T([0.5, -0.5]), scale_tril=T(TRIL)), [[[0.1, 0.2]], [[1.0, -1.0]]]),
    (D("MultivariateNormal", T([[0.5, -0.5], [1.0, 2.0]]), covariance_matrix=T(COV)), [0.1, 0.2]),
    (D("MultivariateNormal", T([0.5, -0.5]), precision_matrix=T(COV)), [[0.1, 0.2], [1.0, -1.0]]),
    (D("Independent", D("Normal", LOC, SCALE), 1), [[0.3, 0.1], [1.0, -2.0]]),
    (D("TransformedDistribution", D("Normal", LOC, SCALE), [D("TanhTransform")]), [[-0.7], [0.2]]),
    (D("TransformedDistribution", D("Normal", LOC, SCALE), [D("AffineTransform", 1.0, -2.0), D("SigmoidTransform")]), [[0.1], [0.7]]),
    (D("TransformedDistribution", D("Normal", LOC, SCALE), [D("SoftplusTransform"), D("PowerTransform", 0.5)]), POSITIVE),
    (D("TransformedDistribution", D("Normal", LOC, SCALE), [D("StickBreakingTransform")]), [[0.2, 0.5, 0.3]]),
    (D("TransformedDistribution", D("Normal", LOC, SCALE), [D("ComposeTransform", [D("ExpTransform"), D("AffineTransform", 0.5, 2.0)])]), [[0.7], [3.0]]),
    (D("MixtureSameFamily", D("Categorical", T([0.3, 0.7])), D("Normal", LOC, SCALE)), [-1.0, 0.4]),
    (D("MixtureSameFamily", D("Categorical", logits=T([0.3, 0.7])), D("Independent", D("Normal", T([[0.0, 1.0], [2.0, 3.0]]), T([[0.5, 1.0], [1.0, 0.3]])), 1)), [[-1.0, 0.4], [1.0, 2.0]]),
    (D("RelaxedBernoulli", T(0.7), T([0.2, 0.9])), [[0.1], [0.8]]),
    (D("RelaxedBernoulli", T(0.7), logits=T([-1.0, 0.4])), [[0.1], [0.8]]),
    (D("RelaxedOneHotCategorical", T(0.7), logits=LOGITS), [0.2, 0.5, 0.3]),
]

N1, N2 = D("Normal", LOC, SCALE), D("Normal", T([[0.0], [1.0]]), T([0.6, 2.0]))
U = D("Uniform", T([0.1, 0.2]), T([0.8, 0.7]))
WIDE = D("Uniform", T([-1.0, -5.0]), T([3.0, 9.0]))
G1, G2 = D("Gamma", T([0.5, 4.0]), T([1.5, 0.5])), D("Gamma", T([2.0, 3.0]), T([1.0, 2.5]))
E1, E2 = D("Exponential", T([0.5, 2.0])), D("Exponential", T([1.5, 0.3]))
B1, B2 = D("Beta", T([0.5, 3.0]), T([1.5, 2.0])), D("Beta", T([2.0, 1.0]), T([1.0, 4.0]))
L1, L2 = D("Laplace", LOC, SCALE), D("Laplace", T([0.0, 1.0]), T([0.6, 2.0]))
M1, M2 = D("Gumbel", LOC, SCALE), D("Gumbel", T([0.0, 1.0]), T([0.6, 2.0]))
P = D("Poisson", T([0.4, 12.0]))
BERN = D("Bernoulli", T([0.2, 0.9]))
KL = [
    (N1, N2), (U, WIDE), (WIDE, U), (G1, G2), (E1, E2), (B1, B2), (L1, L2), (M1, M2),
    (BERN, D("Bernoulli", logits=T([0.3, -0.2]))),
    (D("Binomial", 5, T([0.2, 0.9])), D("Binomial", 5, T([0.4, 0.5]))),
    (D("Categorical", PROBS), D("Categorical", logits=LOGITS)),
    (D("OneHotCategorical", PROBS), D("OneHotCategorical", logits=LOGITS)),
    (D("Cauchy", LOC, SCALE), D("Cauchy", T([0.0, 1.0]), T([0.6, 2.0]))),
    (D("Dirichlet", T([0.5, 1.5, 3.0])), D("Dirichlet", T([[2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]))),
    (D("Geometric", T([0.2, 0.9])), D("Geometric", T([0.5, 0.4]))),
    (D("HalfNormal", SCALE), D("HalfNormal", T([0.6, 2.0]))),
    (D("MultivariateNormal", T([0.5, -0.5]), scale_tril=T(TRIL)), D("MultivariateNormal", T([[0.0, 1.0], [1.0, 1.0]]), covariance_matrix=T(COV))),
    (P, D("Poisson", T([1.0, 9.0]))),
    (D("Independent", N1, 1), D("Independent", N2, 1)),
    (D("LogNormal", LOC, SCALE), D("LogNormal", T([0.0, 1.0]), T([0.6, 2.0]))),
    (BERN, P), (B1, E1), (B1, G1), (B1, N1), (B1, WIDE), (B1, U), (E1, B1), (E1, U), (E1, G1), (E1, M1), (E1, N1),
    (G1, B1), (G1, U), (G1, E1), (G1, M1), (G1, N1), (M1, B1), (M1, E1), (M1, G1), (M1, U), (M1, N1),
    (L1, B1), (L1, E1), (L1, G1), (L1, U), (L1, N1), (N1, B1), (N1, E1), (N1, G1), (N1, U), (N1, M1), (N1, L1),
    (P, BERN), (P, D("Binomial", 5, T([0.2, 0.9]))), (U, B1), (U, E1), (WIDE, E1), (U, G1), (U, M1), (U, N1),
]  # fmt: skip


def build(spec, leaves):
    if isinstance(spec, list):
        return [build(x, leaves) for x in spec]
    if not isinstance(spec, dict):
        return spec
    if "t" in spec:
        leaf = torch.tensor(spec["t"], requires_grad=True)
        leaves.append(leaf)
        return leaf
    cls = getattr(td, spec["cls"], None) or getattr(tt, spec["cls"])
    args = [build(x, leaves) for x in spec["args"]]
    return cls(*args, **{k: build(v, leaves) for k, v in spec["kwargs"].items()})


def text(x):
    if isinstance(x, list):
        return [text(y) for y in x]
    return x if isinstance(x, (int, bool)) or math.isfinite(x) else str(x)


def answer(f):
    try:
        y = f()
    except (NotImplementedError, AttributeError):
        return None
    return text(y.detach().tolist())


def record(spec, given):
    leaves = []
    d = build(spec, leaves)
    value = torch.tensor(given)
    continuous = value.is_floating_point() and not d.support.is_discrete
    value.requires_grad_(continuous)
    log = d.log_prob(value)
    grads = torch.autograd.grad(log.sum(), leaves + ([value] if continuous else []), allow_unused=True) if leaves else []
    p = torch.tensor(UNIT).reshape(3, *[1] * len(d.batch_shape))
    return {
        "spec": spec,
        "value": given,
        "batchShape": list(d.batch_shape),
        "eventShape": list(d.event_shape),
        "logProb": text(log.detach().tolist()),
        "grads": [text(torch.zeros_like(x).tolist() if g is None else g.tolist()) for g, x in zip(grads, leaves + [value])],
        "entropy": answer(d.entropy),
        "cdf": answer(lambda: d.cdf(value)),
        "icdf": answer(lambda: d.icdf(p)),
        "mean": answer(lambda: d.mean),
        "mode": answer(lambda: d.mode),
        "variance": answer(lambda: d.variance),
        "stddev": answer(lambda: d.stddev),
    }


def divergence(p, q):
    leaves = []
    kl = td.kl_divergence(build(p, leaves), build(q, leaves))
    grads = [None] * len(leaves)
    if kl.requires_grad:
        grads = torch.autograd.grad(kl.sum(), leaves, allow_unused=True)
    zeros = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves)]
    return {"p": p, "q": q, "kl": text(kl.detach().tolist()), "grads": [text(g.tolist()) for g in zeros]}


ALPHA = [0.1, 0.5, 1.0, 2.0, 5.0, 9.0, 30.0]
X = [1e-3, 0.1, 0.7, 0.9, 2.0, 5.0, 9.5, 25.0, 60.0]
a, x = torch.meshgrid(torch.tensor(ALPHA), torch.tensor(X), indexing="ij")
result = {
    "cases": [record(spec, given) for spec, given in CASES],
    "kl": [divergence(p, q) for p, q in KL],
    "gammaGrad": {"alpha": ALPHA, "x": X, "grad": torch._standard_gamma_grad(a, x).tolist()},
    "unit": UNIT,
}


def short(x):
    if isinstance(x, float):
        return float(f"{x:.12g}")
    if isinstance(x, list):
        return [short(y) for y in x]
    return {k: short(v) for k, v in x.items()} if isinstance(x, dict) else x


with open(sys.argv[1], "w") as f:
    json.dump(short(result), f, separators=(",", ":"))
    f.write("\n")
