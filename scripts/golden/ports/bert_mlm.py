# BertForMaskedLM with torch's modules (transformers' modeling_bert.py, without dropout).
import math
from itertools import cycle

import torch
import torch.nn.functional as F
from torch import nn

from common import fill, golden, number, tokens


class Embeddings(nn.Module):
    def __init__(self, V, D, T):
        super().__init__()
        self.word_embeddings, self.position_embeddings, self.token_type_embeddings = nn.Embedding(V, D), nn.Embedding(T, D), nn.Embedding(2, D)
        self.layer_norm = nn.LayerNorm(D, eps=1e-12)

    def forward(self, ids, types):
        return self.layer_norm(self.word_embeddings(ids) + self.token_type_embeddings(types) + self.position_embeddings(torch.arange(ids.size(1))))


class SelfAttention(nn.Module):
    def __init__(self, D, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, mask):
        B, T, D = x.shape
        q, k, v = (f(x).view(B, T, self.heads, D // self.heads).permute(0, 2, 1, 3) for f in (self.query, self.key, self.value))
        probs = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(D // self.heads) + mask, dim=-1)
        return (probs @ v).permute(0, 2, 1, 3).reshape(B, T, D)


class Layer(nn.Module):
    def __init__(self, D, heads, FF):
        super().__init__()
        self.attention = SelfAttention(D, heads)
        self.attention_output, self.attention_norm = nn.Linear(D, D), nn.LayerNorm(D, eps=1e-12)
        self.intermediate, self.output, self.output_norm = nn.Linear(D, FF), nn.Linear(FF, D), nn.LayerNorm(D, eps=1e-12)

    def forward(self, x, mask):
        x = self.attention_norm(self.attention_output(self.attention(x, mask)) + x)
        return self.output_norm(self.output(F.gelu(self.intermediate(x))) + x)


class BertForMaskedLM(nn.Module):
    def __init__(self, V, D, T, heads, FF, layers):
        super().__init__()
        self.embeddings = Embeddings(V, D, T)
        self.layer = nn.ModuleList([Layer(D, heads, FF) for _ in range(layers)])
        self.transform, self.transform_norm = nn.Linear(D, D), nn.LayerNorm(D, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(V))

    def forward(self, ids, attention_mask, types):
        x = self.embeddings(ids, types)
        mask = ((1 - attention_mask.to(x.dtype)) * -1e9)[:, None, None, :]
        for layer in self.layer:
            x = layer(x, mask)
        x = self.transform_norm(F.gelu(self.transform(x)))
        return F.linear(x, self.embeddings.word_embeddings.weight, self.bias)


def make(s, wrap):
    B, T, V = s["batch"], s["length"], s["words"]
    model = fill(BertForMaskedLM(V, s["dim"], T, s["heads"], s["hidden"], s["layers"]))
    forward, warmup, total = wrap(model), s["warmup"], s["total"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=s["lr"], weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: n / warmup if n < warmup else max(0, (total - n) / (total - warmup))
    )

    def batch(n):
        ids = tokens([B, T], n, V)
        attention_mask = torch.ones_like(ids)
        attention_mask[:2, T - 2 :] = 0
        masked = number(B * T, 100 + n).reshape(B, T) < -0.2
        return torch.where(masked, 1, ids), attention_mask, torch.where(masked, ids, -100)

    batches = cycle([batch(n) for n in range(s["batches"])])

    def step():
        ids, attention_mask, labels = next(batches)
        logits = forward(ids, attention_mask, torch.zeros_like(ids))
        loss = F.cross_entropy(logits.view(-1, V), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item()

    return step


if __name__ == "__main__":
    golden("bert-mlm", make)
