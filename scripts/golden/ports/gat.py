# pyGAT's layers on a small graph, without dropout.
import torch
import torch.nn.functional as F
from torch import nn

from common import data, fill, golden, tokens


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, alpha, concat=True):
        super().__init__()
        self.out_features, self.concat = out_features, concat
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        self.a = nn.Parameter(torch.empty(2 * out_features, 1))
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = h @ self.W
        e = self.leakyrelu(Wh @ self.a[: self.out_features] + (Wh @ self.a[self.out_features :]).T)
        attention = F.softmax(torch.where(adj > 0, e, -9e15 * torch.ones_like(e)), dim=1)
        h_prime = attention @ Wh
        return F.elu(h_prime) if self.concat else h_prime


class GAT(nn.Module):
    def __init__(self, nfeat, nhid, nclass, alpha, nheads):
        super().__init__()
        self.attentions = nn.ModuleList([GraphAttentionLayer(nfeat, nhid, alpha) for _ in range(nheads)])
        self.out_att = GraphAttentionLayer(nhid * nheads, nclass, alpha, concat=False)

    def forward(self, x, adj):
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        return F.log_softmax(F.elu(self.out_att(x, adj)), dim=1)


def make(s, wrap):
    N, train = s["nodes"], s["train"]
    features, labels = data([N, s["features"]], 1), tokens([N], 2, s["classes"])
    edges = (data([N, N], 3) > 1 - 2 * s["edges"]).to(features.dtype).triu(1)
    adj = edges + edges.T + torch.eye(N)
    model = fill(GAT(s["features"], s["hidden"], s["classes"], 0.2, s["heads"]))
    forward = wrap(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=s["lr"], weight_decay=5e-4)

    def step():
        optimizer.zero_grad()
        output = forward(features, adj)
        loss = F.nll_loss(output[:train], labels[:train])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    golden("gat", make)
