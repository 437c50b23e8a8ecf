# The tutorial's Seq2SeqTransformer with torch's encoder and decoder, without dropout.
import math
from itertools import cycle

import torch
from torch import nn

from common import fill, golden, tokens


class TokenEmbedding(nn.Module):
    def __init__(self, V, D):
        super().__init__()
        self.embedding, self.scale = nn.Embedding(V, D), math.sqrt(D)

    def forward(self, x):
        return self.embedding(x) * self.scale


class Seq2SeqTransformer(nn.Module):
    def __init__(self, V, D, heads, hidden, layers):
        super().__init__()
        layer = dict(dim_feedforward=hidden, dropout=0.0)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, heads, **layer), layers, nn.LayerNorm(D), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, heads, **layer), layers, nn.LayerNorm(D))
        self.generator = nn.Linear(D, V)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(V, D), TokenEmbedding(V, D)
        den = torch.exp(-torch.arange(0, D, 2) * math.log(10000) / D)
        pos = torch.arange(0, 64).reshape(64, 1)
        self.pos = torch.stack([torch.sin(pos * den), torch.cos(pos * den)], dim=2).reshape(64, 1, D)

    def forward(self, src, tgt):
        mask = torch.ones(len(tgt), len(tgt)).triu(1).bool()
        memory = self.encoder(self.src_tok_emb(src) + self.pos[: len(src)], src_key_padding_mask=(src == 0).T)
        outs = self.decoder(
            self.tgt_tok_emb(tgt) + self.pos[: len(tgt)],
            memory,
            tgt_mask=mask,
            tgt_key_padding_mask=(tgt == 0).T,
            memory_key_padding_mask=(src == 0).T,
        )
        return self.generator(outs)


def make(s, wrap):
    B, V = s["batch"], s["words"]
    model = fill(Seq2SeqTransformer(V, s["dim"], s["heads"], s["hidden"], s["layers"]))
    forward, loss_fn = wrap(model), nn.CrossEntropyLoss(ignore_index=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=s["lr"], betas=(0.9, 0.98), eps=1e-9)

    def batch(n):
        src, tgt = tokens([s["source"], B], n, V - 1) + 1, tokens([s["target"], B], 100 + n, V - 1) + 1
        src[-2:, :2], tgt[-2:, 1:3] = 0, 0
        return src, tgt

    batches = cycle([batch(n) for n in range(s["batches"])])

    def step():
        src, tgt = next(batches)
        logits = forward(src, tgt[:-1])
        optimizer.zero_grad()
        loss = loss_fn(logits.reshape(-1, V), tgt[1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    golden("seq2seq", make)
