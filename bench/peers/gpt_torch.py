"""Peer: the same training step in PyTorch. python gpt_torch.py small|large cpu|cuda eager|compile"""
import sys, time, torch, torch.nn.functional as Fn

SIZES = {"tiny": (2, 256, 4, 1024, 2048, 4, 128), "small": (4, 512, 8, 2048, 8192, 8, 256), "large": (12, 1024, 16, 4096, 32768, 8, 1024)}
L, D, H, F, V, B, T = SIZES[sys.argv[1]]; dev, mode = sys.argv[2], sys.argv[3]
torch.manual_seed(0); torch.set_default_device(dev); torch.backends.cuda.matmul.allow_tf32 = True
P = torch.nn.Parameter; n = lambda *s: P(torch.randn(*s) * 0.02)
layer = lambda: dict(q=n(D, D), k=n(D, D), v=n(D, D), o=n(D, D), g=n(D, F), u=n(D, F), d=n(F, D), n1=P(torch.ones(D)), n2=P(torch.ones(D)))
emb, layers, nf = n(V, D), [layer() for _ in range(L)], P(torch.ones(D))
rms = lambda x, w: Fn.rms_norm(x, (D,), w, 1e-6)

def loss_fn(ids, y):
    with torch.autocast(dev, torch.bfloat16, enabled=sys.argv[1] == "large"):
        x = emb[ids]
        for l in layers:
            h = rms(x, l["n1"]); q, k, v = ((h @ l[c]).view(B, T, H, D // H).transpose(1, 2) for c in "qkv")
            x = x + Fn.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D) @ l["o"]
            h = rms(x, l["n2"]); x = x + (Fn.silu(h @ l["g"]) * (h @ l["u"])) @ l["d"]
        logits = rms(x, nf) @ emb.T
    return Fn.cross_entropy(logits.view(-1, V).float(), y.reshape(-1))

opt = torch.optim.Adam([emb, nf] + [w for l in layers for w in l.values()], lr=1e-3, fused=True)
ids = torch.randint(0, V, (B, T)); y = ids.roll(-1, 1); f = loss_fn if mode == "eager" else torch.compile(loss_fn)
sync = torch.cuda.synchronize if dev == "cuda" else (lambda: None)

def step():
    opt.zero_grad(); l = f(ids, y); l.backward(); opt.step(); sync(); return l

t0 = time.time(); [step() for _ in range(3)]; warm = time.time() - t0; ts = []
for _ in range(12):
    t0 = time.time(); l = step(); ts.append(time.time() - t0)
t0 = time.time(); sync_, sync = sync, lambda: None; [step() for _ in range(12)]; sync_(); stream = (time.time() - t0) / 12
print(f"torch {torch.__version__} {dev} {mode} {sys.argv[1]}: {sorted(ts)[6] * 1e3:.1f} ms/step, {stream * 1e3:.1f} without waiting, first 3 {warm:.1f} s, loss {l.item():.4f}")
