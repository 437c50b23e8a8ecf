# cleanrl's ppo.py on a CartPole, random numbers by a formula, 20 updates. Run from the repository's root.
import math

import torch
from torch import nn

from common import fill, number, write

calls = 0


def uniform(n):
    global calls
    calls += 1
    return (number(n, calls) + 0.5).tolist()


def permutation(n):
    return torch.argsort(torch.tensor(uniform(n)), stable=True).tolist()


class CartPoles:
    def __init__(self, n):
        self.states = [self.begin() for _ in range(n)]
        self.steps = [0] * n

    def begin(self):
        return [u * 0.1 - 0.05 for u in uniform(4)]

    def step(self, actions):
        done = []
        for i, (x, x_dot, theta, theta_dot) in enumerate(self.states):
            force = 10.0 if actions[i] == 1 else -10.0
            cos, sin = math.cos(theta), math.sin(theta)
            temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
            theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
            x_acc = temp - 0.05 * theta_acc * cos / 1.1
            state = [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc]
            self.steps[i] += 1
            over = abs(state[0]) > 2.4 or abs(state[2]) > 12 * math.pi / 180 or self.steps[i] >= 500
            done.append(float(over))
            if over:
                self.steps[i] = 0
                state = self.begin()
            self.states[i] = state
        return done


class Agent(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        mlp = lambda out: nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, out))
        self.critic, self.actor = mlp(1), mlp(2)

    def act(self, x, u=None, action=None):
        probs = torch.distributions.Categorical(logits=self.actor(x))
        if action is None:
            action = (probs.probs.cumsum(1) < u[:, None]).sum(1).clamp(max=1)
        return action, probs.log_prob(action), probs.entropy(), self.critic(x).flatten()


E, T, ITERATIONS, LR = 4, 16, 5, 2.5e-3
agent = fill(Agent(8))
optimizer = torch.optim.Adam(agent.parameters(), lr=LR, eps=1e-5)
envs = CartPoles(E)
losses, next_done = [], torch.zeros(E)
for iteration in range(ITERATIONS):
    optimizer.param_groups[0]["lr"] = (1.0 - iteration / ITERATIONS) * LR
    obs, actions, logprobs, values, dones = [], [], [], [], []
    for _ in range(T):
        state = torch.tensor(envs.states)
        with torch.no_grad():
            action, logprob, _, value = agent.act(state, torch.tensor(uniform(E)))
        obs.append(state), actions.append(action), logprobs.append(logprob), values.append(value), dones.append(next_done)
        next_done = torch.tensor(envs.step(action.tolist()))
    obs, actions, logprobs, values, dones = (torch.stack(x) for x in (obs, actions, logprobs, values, dones))
    with torch.no_grad():
        next_value = agent.critic(torch.tensor(envs.states)).flatten()
        advantages, lastgaelam = torch.zeros(T, E), 0
        for t in reversed(range(T)):
            nonterminal = 1.0 - (next_done if t == T - 1 else dones[t + 1])
            following = next_value if t == T - 1 else values[t + 1]
            delta = 1.0 + 0.99 * following * nonterminal - values[t]
            advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nonterminal * lastgaelam
    b_obs, b_actions, b_logprobs, b_values, b_adv = obs.reshape(-1, 4), actions.flatten(), logprobs.flatten(), values.flatten(), advantages.flatten()
    b_returns = b_adv + b_values
    inds = permutation(E * T)
    for start in range(0, E * T, 16):
        mb = inds[start : start + 16]
        _, logprob, entropy, value = agent.act(b_obs[mb], action=b_actions[mb])
        ratio = (logprob - b_logprobs[mb]).exp()
        adv = b_adv[mb]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        v_clipped = b_values[mb] + torch.clamp(value - b_values[mb], -0.2, 0.2)
        v_loss = 0.5 * torch.max((value - b_returns[mb]) ** 2, (v_clipped - b_returns[mb]) ** 2).mean()
        loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
assert len(losses) == 20
write("ppo", losses)
