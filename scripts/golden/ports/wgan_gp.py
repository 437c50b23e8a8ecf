# PyTorch-GAN's wgan_gp.py with noise by a formula, 20 batches. Run from the repository's root.
import math

import torch
from torch import autograd, nn

from common import data, fill, number, write

img_shape = (1, 4, 4)


class Generator(nn.Module):
    def __init__(self, latent_dim, widths):
        super().__init__()

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
        return img.view(img.shape[0], *img_shape)


class Discriminator(nn.Module):
    def __init__(self, widths):
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


generator, discriminator = fill(Generator(6, (8, 8, 10, 10))), fill(Discriminator((12, 8)))
opt_g = torch.optim.Adam(generator.parameters(), lr=0.002, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=0.002, betas=(0.5, 0.999))
losses = []
for i in range(20):
    real, z = data([8, 1, 4, 4], i), data([8, 6], 100 + i)
    alpha = (number(8, 200 + i) + 0.5).reshape(8, 1, 1, 1)
    opt_d.zero_grad()
    fake = generator(z)
    loss = -torch.mean(discriminator(real)) + torch.mean(discriminator(fake)) + 10 * gradient_penalty(discriminator, real.data, fake.data, alpha)
    loss.backward()
    opt_d.step()
    opt_g.zero_grad()
    losses.append(loss.item())
    if i % 5 == 0:
        g_loss = -torch.mean(discriminator(generator(z)))
        g_loss.backward()
        opt_g.step()
write("wgan-gp", losses)
