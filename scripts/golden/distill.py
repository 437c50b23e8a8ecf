"""Losses of distillation in torch, f64, with the gradients of hidden states and heads: python scripts/golden/distill.py

Writes test/golden/distill.safetensors: the inputs, and CASE/NAME for each result, CASE/grad.NAME for each gradient. The definitions
are those of the original of recovery LoRA, over logits that are all there."""
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(0)
B, S, D, V, K, R = 2, 5, 6, 30, 4, 3
f64 = dict(dtype=torch.float64)
given = dict(
    hidden=torch.randn(B, S, D, **f64), head=torch.randn(V, D, **f64) * 0.7,
    teacher_hidden=torch.randn(B, S, 2 * D, **f64), teacher_head=torch.randn(V, 2 * D, **f64) * 0.4,
    mask=torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=torch.uint8),
    labels=torch.tensor([[3, 7, -100, 1, 29], [-100, 0, 5, 5, 2]]),
)
teacher_logits = given["teacher_hidden"] @ given["teacher_head"].T
given["topk_logits"], given["topk_idx"] = teacher_logits.topk(K)
given["topk_idx"] = given["topk_idx"].int()
given["rand_idx"] = torch.randint(0, V, (B, S, R)).int()
given["rand_logits"] = teacher_logits.gather(-1, given["rand_idx"].long())
golden = {name: t.contiguous() for name, t in given.items()}


def kd_soft_ce(student_logits, teacher_logits, temperature=1.0):
    """The original, word for word."""
    T = float(temperature)
    logp_student = F.log_softmax(student_logits / T, dim=-1)
    with torch.no_grad():
        p_teacher = F.softmax(teacher_logits / T, dim=-1)
    loss = -(p_teacher * logp_student).sum(dim=-1)
    return loss.mean() * (T * T)


def candidates(logits, T, rand, mask):
    """KL over candidates (a mean over what the mask keeps, times T squared), and the losses of the teacher's first."""
    idx, t = (torch.cat([given[f"topk_{x}"], given[f"rand_{x}"]], -1) if rand else given[f"topk_{x}"] for x in ("idx", "logits"))
    s = logits.gather(-1, idx.long())
    p = F.log_softmax(t / T, -1)
    kl = (p.exp() * (p - F.log_softmax(s / T, -1))).sum(-1)
    top1 = -F.log_softmax(s, -1)[..., 0]
    full = F.cross_entropy(logits.flatten(0, 1), idx[..., 0].long().flatten(), reduction="none").view(B, S)
    m = mask.double()
    mean = lambda x: (x * m).sum() / m.sum()
    return mean(kl) * T * T, mean(top1), mean(full)


def case(name, compute):
    h, w = (given[x].clone().requires_grad_() for x in ("hidden", "head"))
    results = compute(h, w)
    results["loss"].backward()
    golden.update({f"{name}/{key}": t.detach() for key, t in results.items()})
    golden.update({f"{name}/grad.hidden": h.grad, f"{name}/grad.head": w.grad})


def mixed(h, w, hard_top1=0.0, hard_full=0.0, T=2.0, rand=True, mask=given["mask"]):
    kl, top1, full = candidates(h @ w.T, T, rand, mask)
    return dict(loss=kl + hard_top1 * top1 + hard_full * full, kl=kl, hardTop1=top1, hardFull=full)


def live(h, w, T=2.0, alpha=0.7):
    logits = h @ w.T
    kd, ce = kd_soft_ce(logits, teacher_logits, T), F.cross_entropy(logits.flatten(0, 1), given["labels"].flatten())
    return dict(loss=alpha * kd + (1 - alpha) * ce, kd=kd, ce=ce)


def anchor(h, w):
    was = F.log_softmax((given["hidden"] * 0.9 + 0.1) @ given["head"].T, -1)
    m = given["mask"].double()
    kl = (was.exp() * (was - F.log_softmax(h @ w.T, -1))).sum(-1)
    return dict(loss=(kl * m).sum() / m.sum())


case("softCe", lambda h, w: dict(loss=kd_soft_ce(h @ w.T, teacher_logits, 2.0)))
case("topk", lambda h, w: mixed(h, w, T=1.05, rand=False, mask=torch.ones(B, S)))
case("candidates", mixed)
case("hardTop1", lambda h, w: mixed(h, w, hard_top1=0.02))
case("hardFull", lambda h, w: mixed(h, w, hard_top1=0.02, hard_full=0.3))
case("live", live)
case("anchor", anchor)
save_file({k: v.contiguous() for k, v in golden.items()}, Path(__file__).resolve().parents[2] / "test/golden/distill.safetensors")
