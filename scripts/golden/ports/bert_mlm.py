# BertForMaskedLM with torch's modules (transformers' modeling_bert.py, without dropout), 20 steps. Run from the root.
import math

import torch
import torch.nn.functional as F
from torch import nn

from common import fill, number, tokens, write

V, D, HEADS, FF, T = 20, 16, 4, 24, 8


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.position_embeddings, self.token_type_embeddings = nn.Embedding(V, D), nn.Embedding(T, D), nn.Embedding(2, D)
        self.layer_norm = nn.LayerNorm(D, eps=1e-12)

    def forward(self, ids, types):
        return self.layer_norm(self.word_embeddings(ids) + self.token_type_embeddings(types) + self.position_embeddings(torch.arange(ids.size(1))))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, mask):
        B = x.size(0)
        q, k, v = (f(x).view(B, T, HEADS, D // HEADS).permute(0, 2, 1, 3) for f in (self.query, self.key, self.value))
        probs = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(D // HEADS) + mask, dim=-1)
        return (probs @ v).permute(0, 2, 1, 3).reshape(B, T, D)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.attention_output, self.attention_norm = nn.Linear(D, D), nn.LayerNorm(D, eps=1e-12)
        self.intermediate, self.output, self.output_norm = nn.Linear(D, FF), nn.Linear(FF, D), nn.LayerNorm(D, eps=1e-12)

    def forward(self, x, mask):
        x = self.attention_norm(self.attention_output(self.attention(x, mask)) + x)
        return self.output_norm(self.output(F.gelu(self.intermediate(x))) + x)


class BertForMaskedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.layer = nn.ModuleList([Layer(), Layer()])
        self.transform, self.transform_norm = nn.Linear(D, D), nn.LayerNorm(D, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(V))

    def forward(self, ids, attention_mask, types):
        x = self.embeddings(ids, types)
        mask = ((1 - attention_mask.double()) * -1e9)[:, None, None, :]
        for layer in self.layer:
            x = layer(x, mask)
        x = self.transform_norm(F.gelu(self.transform(x)))
        return F.linear(x, self.embeddings.word_embeddings.weight, self.bias)


model = fill(BertForMaskedLM())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: n / 5 if n < 5 else max(0, (20 - n) / 15))
losses = []
for n in range(20):
    ids = tokens([6, T], n, V)
    attention_mask = torch.ones_like(ids)
    attention_mask[:2, 6:] = 0
    masked = number(6 * T, 100 + n).reshape(6, T) < -0.2
    labels = torch.where(masked, ids, -100)
    logits = model(torch.where(masked, 1, ids), attention_mask, torch.zeros_like(ids))
    loss = F.cross_entropy(logits.view(-1, V), labels.view(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
write("bert-mlm", losses)
