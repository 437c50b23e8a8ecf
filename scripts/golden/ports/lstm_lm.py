# The LSTM of pytorch/examples/word_language_model, without dropout, 20 steps. Run from the repository's root.
import torch
from torch import nn

from common import fill, tokens, write


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        return nn.functional.log_softmax(self.decoder(output).view(-1, self.ntoken), dim=1), hidden


bsz, bptt, lr = 4, 6, 5.0
data = tokens([bsz * (20 * bptt + 1)], 5, 12)
source = data.view(bsz, -1).t().contiguous()
model = fill(RNNModel(12, 8, 10, 2))
criterion = nn.NLLLoss()
hidden = (torch.zeros(2, bsz, 10), torch.zeros(2, bsz, 10))
losses = []
for i in range(0, source.size(0) - 1, bptt):
    inputs, targets = source[i : i + bptt], source[i + 1 : i + 1 + bptt].reshape(-1)
    model.zero_grad()
    hidden = tuple(h.detach() for h in hidden)
    output, hidden = model(inputs, hidden)
    loss = criterion(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)
    losses.append(loss.item())
assert len(losses) == 20
write("lstm-lm", losses)
