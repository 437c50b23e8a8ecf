"""A small vision transformer in torch, its weights, and what it gives: python scripts/golden/vit.py test/golden/vit.safetensors
examples/vit.ts is the port; test/vit.test.ts compares logits, loss and every gradient."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file


class ViT(nn.Module):
    def __init__(self, image=16, patch=4, dim=32, depth=2, heads=4, mlp=64, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.position = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim) * 0.02)
        layer = lambda: nn.TransformerEncoderLayer(dim, heads, mlp, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.ModuleList([layer() for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)                       # [B, patches, dim]
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


torch.manual_seed(0)
model = ViT()
images, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 3, 1, 4])
logits = model(images)
loss = F.cross_entropy(logits, labels)
loss.backward()
out = {f"weight.{k}": v.detach() for k, v in model.named_parameters()} | {f"grad.{k}": v.grad for k, v in model.named_parameters()}
save_file({k: v.contiguous().clone() for k, v in (out | dict(images=images, labels=labels, logits=logits.detach(), loss=loss.detach())).items()}, sys.argv[1])
