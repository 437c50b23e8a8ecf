# The LSTM of pytorch/examples/word_language_model, without dropout.
import torch
from torch import nn

from common import fill, golden, tokens


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


def make(s, wrap):
    bsz, bptt, layers = s["batch"], s["bptt"], s["layers"]
    source = tokens([bsz * (s["batches"] * bptt + 1)], 5, s["words"]).view(bsz, -1).t().contiguous()
    model = fill(RNNModel(s["words"], s["dim"], s["hidden"], layers))
    forward, criterion = wrap(model), nn.NLLLoss()

    def steps():
        while True:
            hidden = (torch.zeros(layers, bsz, s["hidden"]), torch.zeros(layers, bsz, s["hidden"]))
            for i in range(0, source.size(0) - 1, bptt):
                inputs, targets = source[i : i + bptt], source[i + 1 : i + 1 + bptt].reshape(-1)
                model.zero_grad()
                hidden = tuple(h.detach() for h in hidden)
                output, hidden = forward(inputs, hidden)
                loss = criterion(output, targets)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
                for p in model.parameters():
                    p.data.add_(p.grad, alpha=-s["lr"])
                yield loss.item()

    return steps().__next__


if __name__ == "__main__":
    golden("lstm-lm", make)
