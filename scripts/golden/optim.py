# What torch's optimizers, clipping, scaler and schedules do with the same gradients: test/golden/optim.json.
# Needs torch; run from the repository's root.
import json
import re
import torch

torch.manual_seed(0)
SHAPES = [[3, 2], [4], [], [2, 2, 3]]
STEPS = 25
snake = lambda name: re.sub(r"(?<=[a-z0-9])[A-Z]", lambda m: "_" + m.group().lower(), name)
camel = lambda name: re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), name)
listed = lambda t: [float(f"{x:.9g}") for x in t.detach().double().flatten().tolist()]


class Lion(torch.optim.Optimizer):
    """The algorithm of Chen et al. 2023, as its table says; torch has none."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (b1, b2) = group["lr"], group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"]).add_((b1 * m + (1 - b1) * g).sign(), alpha=-lr)
                m.mul_(b2).add_(g, alpha=1 - b2)


CASES = [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.05, weightDecay=0.1)),
    ("SGD", dict(lr=0.05, momentum=0.9)),
    ("SGD", dict(lr=0.05, momentum=0.9, dampening=0.3, weightDecay=0.01)),
    ("SGD", dict(lr=0.05, momentum=0.9, nesterov=True, weightDecay=0.01, maximize=True)),
    ("Adam", dict(lr=0.01)),
    ("Adam", dict(lr=0.01, betas=[0.8, 0.9], eps=1e-3, weightDecay=0.1)),
    ("Adam", dict(lr=0.01, betas=[0.0, 0.99], amsgrad=True)),
    ("Adam", dict(lr=0.01, maximize=True)),
    ("AdamW", dict(lr=0.01)),
    ("AdamW", dict(lr=0.02, weightDecay=0.3, betas=[0.9, 0.95], amsgrad=True)),
    ("RMSprop", dict(lr=0.01)),
    ("RMSprop", dict(lr=0.01, alpha=0.9, momentum=0.9, weightDecay=0.1)),
    ("RMSprop", dict(lr=0.01, centered=True)),
    ("RMSprop", dict(lr=0.01, centered=True, momentum=0.5, eps=1e-4, maximize=True)),
    ("Adafactor", dict()),
    ("Adafactor", dict(lr=0.1, beta2Decay=-0.5, eps=[1e-4, 1e-2], d=1.5, weightDecay=0.1)),
    ("Lion", dict(lr=0.01)),
    ("Lion", dict(lr=0.01, betas=[0.95, 0.98], weightDecay=0.2, maximize=True)),
]
start = [torch.randn(s) for s in SHAPES]
gradients = [[torch.randn(s) * (0.1 if k % 7 == 3 else 1) for s in SHAPES] for k in range(STEPS)]


def make(name, params, options):
    kind = Lion if name == "Lion" else getattr(torch.optim, name)
    return kind(params, **{snake(k): tuple(v) if isinstance(v, list) else v for k, v in options.items()})


def run(name, options, low=None):
    """low: parameters in bf16, as f32 numbers: rounded after each step, or kept in f32 beside ('master')."""
    rounded = (lambda t: t.bfloat16().float()) if low else (lambda t: t.clone())
    params = [torch.nn.Parameter(rounded(t)) for t in start]
    if low == "rounded" and name == "Adafactor":
        options = {"eps": [torch.finfo(torch.bfloat16).eps, 1e-3], **options}
    opt = make(name, params, options)
    seen, sizes = [], [{} for _ in params]  # the largest numbers on the way: what roundings are measured by
    for k in range(STEPS):
        if k == 10:
            opt.param_groups[0]["lr"] *= 0.5
        for p, g in zip(params, gradients[k]):
            p.grad = rounded(g)
        opt.step()
        if low == "rounded":
            for p in params:
                p.data = rounded(p.data)
        for p, size in zip(params, sizes):
            for key, t in {"p": p, **opt.state[p]}.items():
                if torch.is_tensor(t):
                    size[camel(key)] = max(size.get(camel(key), 0.0), float(t.detach().abs().max()))
        if k + 1 in (1, 2, STEPS):
            seen.append([listed(rounded(p)) for p in params])
    state = [{camel(k): listed(v) for k, v in opt.state[p].items() if torch.is_tensor(v)} for p in params]
    return dict(name=name, options=options if low is None else {**options, "low": low}, seen=seen, state=state, sizes=sizes)


def clipped(norm_type, max_norm):
    params = [torch.nn.Parameter(t.clone()) for t in start]
    for p, g in zip(params, gradients[0]):
        p.grad = g.clone()
    total = torch.nn.utils.clip_grad_norm_(params, max_norm, norm_type)
    return dict(normType=str(norm_type), maxNorm=max_norm, total=float(total), grads=[listed(p.grad) for p in params])


def scaled():
    """Gradients that overflow in some steps: which updates happen, and what the scale becomes."""
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    opt = torch.optim.AdamW([p], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=3)
    bad = {2: float("inf"), 3: float("nan"), 9: float("-inf")}
    seen = []
    for k in range(14):
        opt.zero_grad()
        loss = (p * p).sum() * bad.get(k, 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_([p], 1.0)
        scaler.step(opt)
        scaler.update()
        seen.append(dict(p=listed(p), scale=scaler.get_scale(), tracker=scaler.state_dict()["_growth_tracker"]))
    return dict(bad={k: str(v) for k, v in bad.items()}, seen=seen)


def schedule(kind, options, count=100, base=(0.1, 0.02)):
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in base]
    opt = torch.optim.SGD([dict(params=[p], lr=lr) for p, lr in zip(params, base)], momentum=0.9)
    s = torch.optim.lr_scheduler
    made = {
        "ConstantLR": lambda: s.ConstantLR(opt, factor=options.get("factor", 1 / 3), total_iters=options.get("totalIters", 5)),
        "LinearLR": lambda: s.LinearLR(opt, **{snake(k): v for k, v in options.items()}),
        "StepLR": lambda: s.StepLR(opt, options["stepSize"], options.get("gamma", 0.1)),
        "CosineLR": lambda: s.CosineAnnealingLR(opt, options["totalSteps"], options.get("floor", 0.0)),
        "OneCycleLR": lambda: s.OneCycleLR(opt, **{snake(k): v for k, v in options.items()}),
        "LambdaLR": lambda: s.LambdaLR(opt, lambda n: 0.95**n),
    }[kind]()
    seen = []
    for _ in range(count):
        seen.append([[g["lr"], g["momentum"]] for g in opt.param_groups])
        opt.step()
        made.step()
    return dict(kind=kind, options=options, seen=seen)


def warmed_cosine(options):
    """The usual warm-up: torch's linear schedule from 1/warmup, then its cosine."""
    params = [torch.nn.Parameter(torch.zeros(1))]
    opt = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    s, w = torch.optim.lr_scheduler, options["warmup"]
    up = s.LambdaLR(opt, lambda n: n / w)
    down = s.CosineAnnealingLR(opt, options["totalSteps"] - w, options["floor"])
    made = s.SequentialLR(opt, [up, down], [w])
    seen = []
    for _ in range(options["totalSteps"] + 1):
        seen.append([[opt.param_groups[0]["lr"], 0.9]])
        opt.step()
        made.step()
    return dict(kind="CosineLR", options=options, seen=seen, one=True)


def saved():
    """A file of torch's, after three steps; what the parameter is after three more."""
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    opt = torch.optim.AdamW([p], lr=0.1, amsgrad=True)

    def go():
        for _ in range(3):
            opt.zero_grad()
            (p * p).sum().backward()
            opt.step()
        return listed(p)

    then = go()
    torch.save(opt.state_dict(), "test/golden/optim.pt")
    return dict(then=then, later=go())


golden = dict(
    saved=saved(),
    shapes=SHAPES,
    start=[listed(t) for t in start],
    gradients=[[listed(g) for g in gs] for gs in gradients],
    runs=[run(n, o) for n, o in CASES]
    + [run(n, o, low) for n, o in (CASES[2], CASES[9], CASES[11], CASES[15], CASES[17]) for low in ("rounded", "master")],
    clipped=[clipped(n, m) for n, m in ((2.0, 1.0), (2.0, 100.0), (float("inf"), 0.5), (1.0, 2.0), (3.0, 1.0))],
    scaled=scaled(),
    schedules=[
        schedule("ConstantLR", dict()),
        schedule("ConstantLR", dict(factor=0.5, totalIters=40)),
        schedule("LinearLR", dict()),
        schedule("LinearLR", dict(startFactor=0.25, endFactor=0.75, totalIters=60)),
        schedule("StepLR", dict(stepSize=30)),
        schedule("StepLR", dict(stepSize=7, gamma=0.9)),
        schedule("CosineLR", dict(totalSteps=99)),
        schedule("CosineLR", dict(totalSteps=120, floor=0.01)),
        warmed_cosine(dict(totalSteps=99, warmup=10, floor=0.001)),
        schedule("OneCycleLR", dict(maxLr=0.5, totalSteps=100)),
        schedule("OneCycleLR", dict(maxLr=[0.5, 0.2], totalSteps=100, pctStart=0.2, annealStrategy="linear", divFactor=10.0, finalDivFactor=100.0)),
        schedule("OneCycleLR", dict(maxLr=0.5, totalSteps=110, threePhase=True, cycleMomentum=False)),
        schedule("LambdaLR", dict()),
    ],
)
with open("test/golden/optim.json", "w") as f:
    json.dump(golden, f, separators=(",", ":"))
