# labml.ai's DDPM with a small U-Net, noise by a formula.
import math
from itertools import cycle

import torch
import torch.nn.functional as F
from torch import nn

from common import data, fill, golden, tokens


class TimeEmbedding(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n, self.lin1, self.lin2 = n, nn.Linear(n // 4, n), nn.Linear(n, n)

    def forward(self, t):
        half = self.n // 8
        emb = t[:, None] * torch.exp(torch.arange(half) * -(math.log(10_000) / (half - 1)))[None, :]
        return self.lin2(F.silu(self.lin1(torch.cat((emb.sin(), emb.cos()), dim=1))))


class ResidualBlock(nn.Module):
    def __init__(self, i, o, time, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, i), nn.Conv2d(i, o, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(groups, o), nn.Conv2d(o, o, 3, padding=1)
        self.shortcut = nn.Identity() if i == o else nn.Conv2d(i, o, 1)
        self.time_emb = nn.Linear(time, o)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time_emb(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.shortcut(x)


class AttentionBlock(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.projection, self.output = nn.Linear(n, 3 * n), nn.Linear(n, n)

    def forward(self, x):
        B, C, H, W = x.shape
        x = x.view(B, C, -1).permute(0, 2, 1)
        q, k, v = torch.chunk(self.projection(x), 3, dim=-1)
        attn = (torch.einsum("bid,bjd->bij", q, k) * C**-0.5).softmax(dim=2)
        return (self.output(attn @ v) + x).permute(0, 2, 1).reshape(B, C, H, W)


class UNet(nn.Module):
    def __init__(self, channels, n, groups):
        super().__init__()
        block = lambda i, o: ResidualBlock(i, o, 4 * n, groups)
        self.image_proj, self.time_emb = nn.Conv2d(channels, n, 3, padding=1), TimeEmbedding(4 * n)
        self.down1, self.downsample, self.down2 = block(n, n), nn.Conv2d(n, n, 3, 2, 1), block(n, 2 * n)
        self.middle1, self.attention, self.middle2 = block(2 * n, 2 * n), AttentionBlock(2 * n), block(2 * n, 2 * n)
        self.up2, self.upsample, self.up1 = block(4 * n, n), nn.ConvTranspose2d(n, n, 4, 2, 1), block(2 * n, n)
        self.norm, self.final = nn.GroupNorm(groups, n), nn.Conv2d(n, channels, 3, padding=1)

    def forward(self, x, t):
        t = self.time_emb(t)
        h1 = self.down1(self.image_proj(x), t)
        h2 = self.down2(self.downsample(h1), t)
        h = self.middle2(self.attention(self.middle1(h2, t)), t)
        h = self.up2(torch.cat((h, h2), dim=1), t)
        h = self.up1(torch.cat((self.upsample(h), h1), dim=1), t)
        return self.final(F.silu(self.norm(h)))


def make(s, wrap):
    B, I, noises = s["batch"], s["image"], s["noises"]
    model = fill(UNet(1, s["channels"], s["groups"]))
    forward, alpha_bar = wrap(model), torch.cumprod(1 - torch.linspace(0.0001, 0.02, noises), dim=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=s["lr"])
    batches = cycle(
        [(data([B, 1, I, I], n), tokens([B], 100 + n, noises), data([B, 1, I, I], 200 + n)) for n in range(s["batches"])]
    )

    def step():
        x0, t, noise = next(batches)
        a = alpha_bar.gather(-1, t).reshape(-1, 1, 1, 1)
        optimizer.zero_grad()
        loss = F.mse_loss(noise, forward(a**0.5 * x0 + (1 - a) ** 0.5 * noise, t))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    golden("ddpm", make)
