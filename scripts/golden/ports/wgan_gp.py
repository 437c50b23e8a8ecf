# PyTorch-GAN's wgan_gp.py with noise by a formula.
import math
from itertools import cycle

import torch
from torch import autograd, nn

from common import data, fill, golden, number


class Generator(nn.Module):
    def __init__(self, latent_dim, img_shape, widths):
        super().__init__()
        self.img_shape = img_shape

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2))
            return layers

        a, b, c, d = widths
        self.model = nn.Sequential(
            *block(latent_dim, a, normalize=False), *block(a, b), *block(b, c), *block(c, d), nn.Linear(d, math.prod(img_shape)), nn.Tanh()
        )

    def forward(self, z):
        img = self.model(z)
        return img.view(img.shape[0], *self.img_shape)


class Discriminator(nn.Module):
    def __init__(self, img_shape, widths):
        super().__init__()
        a, b = widths
        self.model = nn.Sequential(
            nn.Linear(math.prod(img_shape), a), nn.LeakyReLU(0.2), nn.Linear(a, b), nn.LeakyReLU(0.2), nn.Linear(b, 1)
        )

    def forward(self, img):
        return self.model(img.view(img.shape[0], -1))


def gradient_penalty(D, real, fake, alpha):
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    d = D(interpolates)
    (g,) = autograd.grad(d, interpolates, torch.ones_like(d), create_graph=True)
    return ((g.view(g.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()


def make(s, wrap):
    img_shape, B = (1, s["image"], s["image"]), s["batch"]
    generator, discriminator = fill(Generator(s["latent"], img_shape, s["generator"])), fill(Discriminator(img_shape, s["discriminator"]))
    opt_g = torch.optim.Adam(generator.parameters(), lr=s["lr"], betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=s["lr"], betas=(0.5, 0.999))
    G, D = wrap(generator), wrap(discriminator)

    def batch(n):
        return data([B, *img_shape], n), data([B, s["latent"]], 100 + n), (number(B, 200 + n) + 0.5).reshape(B, 1, 1, 1)

    batches = cycle(enumerate(batch(n) for n in range(s["batches"])))

    def step():
        i, (real, z, alpha) = next(batches)
        opt_d.zero_grad()
        fake = G(z)
        loss = -torch.mean(D(real)) + torch.mean(D(fake)) + 10 * gradient_penalty(D, real.data, fake.data, alpha)
        loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        if i % 5 == 0:
            g_loss = -torch.mean(D(G(z)))
            g_loss.backward()
            opt_g.step()
            g_loss.item()
        return loss.item()

    return step


if __name__ == "__main__":
    golden("wgan-gp", make)
