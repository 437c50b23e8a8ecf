# The tutorial's Seq2SeqTransformer with torch's encoder and decoder, without dropout, 20 steps. Run from the root.
import math

import torch
from torch import nn

from common import fill, tokens, write

D, V = 16, 14


class TokenEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, D)

    def forward(self, x):
        return self.embedding(x) * math.sqrt(D)


class Seq2SeqTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = dict(dim_feedforward=24, dropout=0.0)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 4, **layer), 2, nn.LayerNorm(D), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, 4, **layer), 2, nn.LayerNorm(D))
        self.generator = nn.Linear(D, V)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(), TokenEmbedding()
        den = torch.exp(-torch.arange(0, D, 2) * math.log(10000) / D)
        pos = torch.arange(0, 64).reshape(64, 1)
        self.pos = torch.zeros((64, D))
        self.pos[:, 0::2], self.pos[:, 1::2] = torch.sin(pos * den), torch.cos(pos * den)
        self.pos = self.pos.unsqueeze(-2)

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


model = fill(Seq2SeqTransformer())
loss_fn = nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003, betas=(0.9, 0.98), eps=1e-9)
losses = []
for n in range(20):
    src, tgt = tokens([7, 5], n, V - 1) + 1, tokens([8, 5], 100 + n, V - 1) + 1
    src[5:, :2], tgt[6:, 1:3] = 0, 0
    logits = model(src, tgt[:-1])
    optimizer.zero_grad()
    loss = loss_fn(logits.reshape(-1, V), tgt[1:].reshape(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
write("seq2seq", losses)
