# What torch's optimizers do on the samples of its own database (optim_db), and its schedules step by step:
# test/golden/optiminfo.json. Needs torch and expecttest; run from the repository's root.
import json
import math
import os
import re
import sys

os.environ["OMP_NUM_THREADS"] = "1"
import torch
from torch.optim import lr_scheduler, swa_utils
from torch.testing._internal.common_optimizers import optim_db

STEPS = 8
camel = lambda name: re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), name)


def listed(t, digits):
    return [float(f"{x:.{digits}g}") if math.isfinite(x) else str(x) for x in t.detach().double().flatten().tolist()]


# ---- the problem: both sides compute it from these formulas
SHAPES = [[3, 3], [3], [2, 3], [2]]
wave = lambda shape, at, size: (torch.arange(math.prod(shape), dtype=torch.float64) * 0.7 + at).sin().mul(size).reshape(shape)


def problem(dtype, only_matrices):
    params = [torch.nn.Parameter(wave(s, 3.0 * k + 1, 0.5).to(dtype)) for k, s in enumerate(SHAPES)]
    x, y = wave([6, 3], 0.3, 1.0).to(dtype), wave([6, 2], 2.0, 1.0).to(dtype)
    w1, b1, w2, b2 = params

    def loss():
        out = torch.tanh(x @ w1.T + b1) @ w2.T + b2
        return ((out - y) ** 2).mean()

    return ([w1, w2] if only_matrices else params), params, loss


def encoded(value):
    """Options as JSON has them."""
    if isinstance(value, torch.Tensor):
        return {"tensor": value.tolist()}
    if isinstance(value, (list, tuple)):
        return [encoded(v) for v in value]
    return value


SKIPPED = ("anneal_func", "_scale_fn_ref", "_get_lr_called_within_step", "_is_initial", "_schedule_phases")


def plain(state):
    """A state dict as JSON has it."""
    if isinstance(state, dict):
        return {str(k): plain(v) for k, v in state.items() if not callable(v) and k not in SKIPPED}
    if isinstance(state, (list, tuple)):
        return [plain(v) for v in state]
    if isinstance(state, torch.Tensor):
        return dict(shape=list(state.shape), data=listed(state, 9))
    return str(state) if isinstance(state, float) and not math.isfinite(state) else state


def run(info, kwargs, desc, dtype, grouped=False):
    digits = 8 if dtype == torch.float32 else 13
    # Of f64 states a weighted sum is enough: they have the same keys as f32's.
    brief = (lambda t: t) if dtype == torch.float32 else (lambda t: (t.detach().double() * wave(t.shape, 1.0, 1.0)).sum())
    given, every, loss_of = problem(dtype, info.name == "Muon")
    # Capturable kernels are CUDA's; the numbers are the same.
    own = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in kwargs.items() if k != "capturable"}
    own = {k: tuple(float(x) for x in v) if k == "betas" else v for k, v in own.items()}
    params = given
    if grouped:
        params = [{"params": given[: len(given) // 2]}, {"params": given[len(given) // 2 :], "lr": 0.004}]
    opt = info.optim_cls(params, **own)
    # A step of LBFGS is up to 20 iterations, each chosen by values: later ones differ by what roundings have become.
    steps = (1 if dtype == torch.float32 else 2) if info.name == "LBFGS" else STEPS
    # What torch's state dict is after all steps, and where two more lead: so it can be taken over in the middle.
    resumed = desc == "resumed"
    sums, losses = [], []
    for n in range(steps + 2 * resumed):
        if n == steps:
            saved = json.loads(json.dumps(plain(opt.state_dict())))
            params_then = [listed(p, 9) for p in given]

        def closure():
            opt.zero_grad()
            loss = loss_of()
            loss.backward()
            if info.only_supports_sparse_grads:
                for p in given:
                    keep = (torch.arange(p.numel()) + n) % 3 != 0
                    p.grad = (p.grad * keep.reshape(p.shape)).to_sparse()
            return loss

        if info.step_requires_closure:
            losses.append(float(opt.step(closure)))
        else:
            losses.append(float(closure()))
            opt.step()
        # Every step leaves one number of each parameter: a weighted sum of all elements.
        sums.append([listed((p.detach().double() * wave(p.shape, 1.0, 1.0)).sum(), digits)[0] for p in given])
    later, sums = sums[steps:], sums[:steps]
    if resumed:
        return dict(
            name=info.name,
            steps=steps,
            then=params_then,
            saved=saved,
            later=later,
            sparse=info.only_supports_sparse_grads,
        )
    state = [
        {camel(k): listed(brief(v), digits) for k, v in opt.state[p].items() if torch.is_tensor(v) and k != "step"} if info.name != "LBFGS" else {}
        for p in given
    ]
    saved = opt.state_dict()
    keys = dict(group=sorted(saved["param_groups"][0]), state=sorted(saved["state"].get(0, {})))
    return dict(
        name=info.name,
        desc=desc,
        dtype="f32" if dtype == torch.float32 else "f64",
        grouped=grouped,
        options={camel(k): encoded(v) for k, v in kwargs.items()},
        losses=[float(f"{x:.{digits}g}") for x in losses],
        sums=sums,
        params=[listed(p, digits) for p in given],
        state=state,
        keys=keys,
    )


def described_params(params):
    """The parameters of an error's sample: names, shapes, dtypes, and which are the same tensor."""
    seen = []

    def one(p):
        if isinstance(p, tuple):
            return dict(one(p[1]), name=p[0])
        if not any(p is s for s in seen):
            seen.append(p)
        return dict(id=[p is s for s in seen].index(True), shape=list(p.shape), dtype=str(p.dtype).split(".")[1], grad=p.grad is not None)

    def group(g):
        inner = g["params"]
        return {"params": one(inner) if isinstance(inner, torch.Tensor) else [one(p) for p in inner], **{k: v for k, v in g.items() if k != "params"}}

    if params is None:
        return None
    if isinstance(params, torch.Tensor):
        return one(params)
    return [group(p) if isinstance(p, dict) else one(p) for p in params]


def errors(info):
    if not info.optim_error_inputs_func:
        return []
    out = []
    for e in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        i = e.optimizer_error_input
        out.append(dict(name=info.name, desc=i.desc, params=described_params(i.params), options={camel(k): encoded(v) for k, v in i.kwargs.items()}))
    return out


runs, bad, taken = [], [], []
for info in optim_db:
    samples, seen = [], set()
    # The samples for CUDA are those for the CPU and capturable ones.
    for i in info.optim_inputs_func(device="cuda"):
        key = json.dumps({k: encoded(v) for k, v in i.kwargs.items()}, sort_keys=True)
        if key not in seen:
            seen.add(key)
            samples.append(i)
    for i in samples:
        for dtype in (torch.float32, torch.float64):
            runs.append(run(info, i.kwargs, i.desc, dtype))
    if info.name != "LBFGS":
        taken.append(run(info, {}, "resumed", torch.float32))
    if info.supports_param_groups:
        runs.append(run(info, {}, "parameter groups", torch.float32, grouped=True))
    bad += errors(info)

# ---- schedules
FACTORS = {"pow95": lambda n: 0.95**n, "pow9": lambda n: 0.9**n, "half7": lambda n: 0.5 if n % 7 == 3 else 1.0, "inverse": lambda n: 1 / (1 + n)}
COUNT = 36


def schedule(opt, kind, args):
    made = {}
    for k, v in args.items():
        if k in ("lr_lambda", "scale_fn"):
            v = [FACTORS[f] for f in v] if isinstance(v, list) else FACTORS[v]
        if k == "schedulers":
            v = [schedule(opt, *s) for s in v]
        made[k] = v
    if kind == "ChainedScheduler":
        return lr_scheduler.ChainedScheduler(**made)
    return getattr(swa_utils if kind == "SWALR" else lr_scheduler, kind)(opt, **made)


def rates(kind, args, optimizer="SGD", epochs=None, metrics=None):
    ps = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [dict(params=[ps[0]], lr=0.1), dict(params=[ps[1]], lr=0.02)]
    opt = torch.optim.SGD(groups, momentum=0.9) if optimizer == "SGD" else torch.optim.Adam(groups)
    made = schedule(opt, kind, args)
    seen, saved = [], None
    for n in range(COUNT):
        row = [g["lr"] for g in opt.param_groups]
        if args.get("cycle_momentum", kind in ("CyclicLR", "OneCycleLR")):
            row += [g["momentum"] if optimizer == "SGD" else g["betas"][0] for g in opt.param_groups]
        seen.append([float(f"{x:.12g}") for x in row])
        if n == 17:
            saved = plain(made.state_dict())
        opt.step()
        if metrics:
            made.step(metrics[n])
        elif epochs and epochs[n] is not None:
            made.step(epochs[n])
        else:
            made.step()
    names = {camel(k): v for k, v in args.items()}
    return dict(kind=kind, args=names, optimizer=optimizer, epochs=epochs, metrics=metrics, seen=seen, saved=saved)


jumps = [None if n % 4 else (n * 5) % 23 for n in range(COUNT)]
halves = [None if n % 3 == 0 else n * 0.5 for n in range(COUNT)]
noisy = [1 / (1 + min(n, 6)) + (0.01 if n % 2 else 0) for n in range(COUNT)]
schedules = [
    rates("LambdaLR", dict(lr_lambda="pow95")),
    rates("LambdaLR", dict(lr_lambda=["pow95", "inverse"])),
    rates("LambdaLR", dict(lr_lambda="pow95"), epochs=jumps),
    rates("MultiplicativeLR", dict(lr_lambda="half7")),
    rates("MultiplicativeLR", dict(lr_lambda=["half7", "pow9"])),
    rates("StepLR", dict(step_size=10)),
    rates("StepLR", dict(step_size=7, gamma=0.9)),
    rates("StepLR", dict(step_size=7, gamma=0.9), epochs=jumps),
    rates("MultiStepLR", dict(milestones=[5, 11, 11, 30])),
    rates("MultiStepLR", dict(milestones=[3, 20], gamma=0.5), epochs=jumps),
    rates("ConstantLR", dict()),
    rates("ConstantLR", dict(factor=0.25, total_iters=12)),
    rates("ConstantLR", dict(factor=0.25, total_iters=12), epochs=jumps),
    rates("LinearLR", dict()),
    rates("LinearLR", dict(start_factor=0.2, end_factor=0.9, total_iters=20)),
    rates("LinearLR", dict(start_factor=0.2, end_factor=0.9, total_iters=20), epochs=jumps),
    rates("ExponentialLR", dict(gamma=0.9)),
    rates("ExponentialLR", dict(gamma=0.9), epochs=jumps),
    rates("PolynomialLR", dict()),
    rates("PolynomialLR", dict(total_iters=25, power=2.0)),
    rates("PolynomialLR", dict(total_iters=25, power=0.9), epochs=jumps),
    rates("CosineAnnealingLR", dict(T_max=30)),
    rates("CosineAnnealingLR", dict(T_max=10, eta_min=0.001)),
    rates("CosineAnnealingLR", dict(T_max=10, eta_min=0.001), epochs=jumps),
    rates("CosineAnnealingWarmRestarts", dict(T_0=10)),
    rates("CosineAnnealingWarmRestarts", dict(T_0=5, T_mult=2, eta_min=0.001)),
    rates("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2), epochs=[n * 0.5 for n in range(COUNT)]),
    rates("CosineAnnealingWarmRestarts", dict(T_0=4), epochs=jumps),
    rates("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=5)),
    rates("CyclicLR", dict(base_lr=[0.01, 0.02], max_lr=[0.1, 0.3], step_size_up=4, step_size_down=9, mode="triangular2")),
    rates("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=6, mode="exp_range", gamma=0.97, cycle_momentum=False)),
    rates("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=5, scale_fn="inverse", scale_mode="iterations", base_momentum=0.7, max_momentum=0.99)),
    rates("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=5), optimizer="Adam"),
    rates("OneCycleLR", dict(max_lr=0.5, total_steps=40)),
    rates("OneCycleLR", dict(max_lr=[0.5, 0.2], epochs=8, steps_per_epoch=5, pct_start=0.2, anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0)),
    rates("OneCycleLR", dict(max_lr=0.5, total_steps=38, three_phase=True)),
    rates("OneCycleLR", dict(max_lr=0.5, total_steps=40, cycle_momentum=False), optimizer="Adam"),
    rates("OneCycleLR", dict(max_lr=0.5, total_steps=36, base_momentum=0.8), optimizer="Adam"),
    rates("ReduceLROnPlateau", dict(patience=3), metrics=noisy),
    rates("ReduceLROnPlateau", dict(mode="max", factor=0.5, patience=2, threshold=0.01, threshold_mode="abs", cooldown=3, min_lr=[0.001, 0.002]), metrics=[-x for x in noisy]),
    rates("ReduceLROnPlateau", dict(mode="max", factor=0.5, patience=2, cooldown=1), metrics=noisy),
    rates("SequentialLR", dict(schedulers=[["ConstantLR", dict(factor=0.1, total_iters=5)], ["ExponentialLR", dict(gamma=0.9)]], milestones=[8])),
    rates("SequentialLR", dict(schedulers=[["LinearLR", dict(start_factor=0.1, total_iters=6)], ["CosineAnnealingLR", dict(T_max=20)], ["StepLR", dict(step_size=3, gamma=0.5)]], milestones=[6, 26])),
    rates("SequentialLR", dict(schedulers=[["LambdaLR", dict(lr_lambda="pow95")], ["PolynomialLR", dict(total_iters=20, power=2.0)]], milestones=[12])),
    rates("ChainedScheduler", dict(schedulers=[["ConstantLR", dict(factor=0.1, total_iters=5)], ["ExponentialLR", dict(gamma=0.9)]])),
    rates("ChainedScheduler", dict(schedulers=[["LinearLR", dict(start_factor=0.2, total_iters=8)], ["CosineAnnealingLR", dict(T_max=12)], ["StepLR", dict(step_size=10)]])),
    rates("ChainedScheduler", dict(schedulers=[["MultiStepLR", dict(milestones=[4, 19])], ["MultiplicativeLR", dict(lr_lambda="half7")], ["PolynomialLR", dict(total_iters=30)]])),
    rates("SWALR", dict(swa_lr=0.05)),
    rates("SWALR", dict(swa_lr=[0.05, 0.5], anneal_epochs=5, anneal_strategy="linear")),
    rates("SWALR", dict(swa_lr=0.05, anneal_epochs=0)),
]
# Arguments that torch refuses.
refused = [
    ["LambdaLR", dict(lr_lambda=["pow95"])],
    ["LambdaLR", dict(lr_lambda=["pow95", "pow95", "pow95"])],
    ["MultiplicativeLR", dict(lr_lambda=["pow95"])],
    ["ConstantLR", dict(factor=1.5)],
    ["LinearLR", dict(start_factor=0.0)],
    ["LinearLR", dict(end_factor=1.5)],
    ["CosineAnnealingWarmRestarts", dict(T_0=0)],
    ["CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=0)],
    ["CosineAnnealingWarmRestarts", dict(T_0=2.5)],
    ["CyclicLR", dict(base_lr=[0.1], max_lr=0.2)],
    ["CyclicLR", dict(base_lr=0.1, max_lr=[0.2])],
    ["CyclicLR", dict(base_lr=0.1, max_lr=0.2, mode="circle")],
    ["OneCycleLR", dict(max_lr=0.1)],
    ["OneCycleLR", dict(max_lr=0.1, total_steps=0)],
    ["OneCycleLR", dict(max_lr=0.1, total_steps=1.5)],
    ["OneCycleLR", dict(max_lr=0.1, epochs=0, steps_per_epoch=4)],
    ["OneCycleLR", dict(max_lr=0.1, epochs=3, steps_per_epoch=-4)],
    ["OneCycleLR", dict(max_lr=0.1, total_steps=10, pct_start=1.5)],
    ["OneCycleLR", dict(max_lr=0.1, total_steps=10, anneal_strategy="circle")],
    ["OneCycleLR", dict(max_lr=[0.1], total_steps=10)],
    ["ReduceLROnPlateau", dict(factor=1.0)],
    ["ReduceLROnPlateau", dict(mode="middle")],
    ["ReduceLROnPlateau", dict(threshold_mode="middle")],
    ["ReduceLROnPlateau", dict(min_lr=[0.1])],
    ["SequentialLR", dict(schedulers=[], milestones=[])],
    ["SequentialLR", dict(schedulers=[["StepLR", dict(step_size=3)]], milestones=[4])],
    ["SequentialLR", dict(schedulers=[["ReduceLROnPlateau", dict()]], milestones=[])],
    ["ChainedScheduler", dict(schedulers=[])],
    ["ChainedScheduler", dict(schedulers=[["ReduceLROnPlateau", dict()]])],
    ["SWALR", dict(swa_lr=[0.1])],
    ["SWALR", dict(swa_lr=0.1, anneal_strategy="circle")],
    ["SWALR", dict(swa_lr=0.1, anneal_epochs=-1)],
]
for kind, args in refused:
    try:
        rates(kind, args)
    except (ValueError, TypeError):
        continue
    sys.exit(f"torch takes {kind} {args}")

golden = dict(
    torch=torch.__version__.split("+")[0],
    shapes=SHAPES,
    runs=runs,
    resumed=taken,
    errors=bad,
    schedules=schedules,
    refused=[[kind, {camel(k): v for k, v in args.items()}] for kind, args in refused],
)
with open("test/golden/optiminfo.json", "w") as f:
    json.dump(golden, f, separators=(",", ":"))
print(len(runs), "runs", len(bad), "errors", len(schedules), "schedules", os.path.getsize("test/golden/optiminfo.json"), "bytes")
