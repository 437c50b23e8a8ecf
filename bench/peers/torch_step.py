"""PyTorch's side of bench/cpu.ts, eager: python torch_step.py FOLDER"""
import torch
import torch.nn.functional as F
from side import read_model, take_turns

m = read_model()
L, D, H, V, B, T = m.L, m.D, m.H, m.V, m.B, m.T
w = {name: torch.tensor(value).requires_grad_() for name, value in m.weights.items()}
x, y = torch.tensor(m.ids).long(), torch.tensor(m.targets).long()
optimizer = torch.optim.AdamW(w.values(), lr=m.lr, betas=tuple(m.betas), eps=m.eps, weight_decay=m.weightDecay, fused=True)


def norm(h, weight):
    return F.rms_norm(h, (D,), weight, 1e-5)


def logits():
    h = w["emb"][x]
    for i in range(L):
        a = norm(h, w[f"l{i}.n1"])
        q, k, v = ((a @ w[f"l{i}.{name}"]).view(B, T, H, D // H).transpose(1, 2) for name in ("wq", "wk", "wv"))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + mixed.transpose(1, 2).reshape(B, T, D) @ w[f"l{i}.wo"]
        a = norm(h, w[f"l{i}.n2"])
        h = h + (F.silu(a @ w[f"l{i}.w1"]) * (a @ w[f"l{i}.w3"])) @ w[f"l{i}.w2"]
    return norm(h, w["nf"]) @ w["head"]


def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(logits().view(-1, V), y.view(-1))
    loss.backward()
    optimizer.step()
    return loss.item()


take_turns(f"torch {torch.__version__} eager", step)
