"""Peer of bench/small.ts: an actor-critic's act and update in torch, eager, on the CPU.

    python torch_small.py

Reads lines "ACT|UPDATE CALLS" and answers each with the milliseconds of CALLS calls as a list of JSON.
"""
import json
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
policy, value = nn.Linear(64, 2), nn.Linear(64, 1)
parameters = [*body.parameters(), *policy.parameters(), *value.parameters()]
optimizer = torch.optim.Adam(parameters, lr=3e-4)
observation = [0.1, 0.2, 0.3, 0.4]
x = torch.randn(64, 4)
actions = torch.randint(0, 2, (64, 1))
old, advantages, returns = torch.randn(64, 1) * 0.1 - 0.7, torch.randn(64, 1), torch.randn(64, 1)


def act():
    with torch.no_grad():
        h = body(torch.tensor(observation))
        probabilities = torch.softmax(policy(h), -1).tolist()
        return probabilities, value(h).item()


def act_once():
    with torch.no_grad():
        h = body(torch.tensor(observation))
        return torch.softmax(policy(h), -1).tolist()


def update():
    optimizer.zero_grad()
    h = body(x)
    ratio = torch.exp(F.log_softmax(policy(h), -1).gather(1, actions) - old)
    gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    loss = F.mse_loss(value(h), returns) * 0.5 - gain
    loss.backward()
    optimizer.step()
    return loss.item()


CASES = {"act, one read": act_once, "act, two reads": act, "update": update}
for line in sys.stdin:
    name, calls = line.strip().rsplit(" ", 1)
    times = []
    for _ in range(int(calls)):
        start = time.perf_counter()
        CASES[name]()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps(times), flush=True)
