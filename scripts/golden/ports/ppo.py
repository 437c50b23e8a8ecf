# cleanrl's ppo.py on a CartPole, random numbers by a formula.
import math

import torch
from torch import nn

from common import fill, golden


class Random:
    def __init__(self):
        self.calls = 0

    def uniform(self, n):
        """In f64, as JavaScript's numbers."""
        self.calls += 1
        return [((i * i * 31 + i * 7919 + self.calls * 104729 + 17) % 65537) / 65537 for i in range(n)]

    def permutation(self, n):
        keys = self.uniform(n)
        return sorted(range(n), key=lambda i: keys[i])


class CartPoles:
    def __init__(self, n, uniform):
        self.uniform = uniform
        self.states = [self.begin() for _ in range(n)]
        self.steps = [0] * n

    def begin(self):
        return [u * 0.1 - 0.05 for u in self.uniform(4)]

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


def make(s, wrap):
    """A step is an iteration: it plays, then learns."""
    E, T, iterations = s["envs"], s["steps"], s["iterations"]
    agent, random = fill(Agent(s["hidden"])), Random()
    act, critic = wrap(agent.act), wrap(agent.critic)
    optimizer = torch.optim.Adam(agent.parameters(), lr=s["lr"], eps=1e-5)
    envs = CartPoles(E, random.uniform)

    def learn(obs, actions, logprobs, values, advantages, returns):
        _, logprob, entropy, value = act(obs, action=actions)
        ratio = (logprob - logprobs).exp()
        adv = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        v_clipped = values + torch.clamp(value - values, -0.2, 0.2)
        v_loss = 0.5 * torch.max((value - returns) ** 2, (v_clipped - returns) ** 2).mean()
        loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        return loss.item()

    def steps():
        next_done = torch.zeros(E)
        for iteration in range(iterations):
            optimizer.param_groups[0]["lr"] = (1.0 - iteration / iterations) * s["lr"]
            obs, actions, logprobs, values, dones = [], [], [], [], []
            for _ in range(T):
                state = torch.tensor(envs.states)
                with torch.no_grad():
                    action, logprob, _, value = act(state, torch.tensor(random.uniform(E)))
                obs.append(state), actions.append(action), logprobs.append(logprob), values.append(value), dones.append(next_done)
                next_done = torch.tensor(envs.step(action.tolist()))
            obs, actions, logprobs, values, dones = (torch.stack(x) for x in (obs, actions, logprobs, values, dones))
            with torch.no_grad():
                next_value = critic(torch.tensor(envs.states)).flatten()
                advantages, lastgaelam = torch.zeros(T, E), 0
                for t in reversed(range(T)):
                    nonterminal = 1.0 - (next_done if t == T - 1 else dones[t + 1])
                    following = next_value if t == T - 1 else values[t + 1]
                    delta = 1.0 + 0.99 * following * nonterminal - values[t]
                    advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nonterminal * lastgaelam
            b_adv = advantages.flatten()
            flat = (obs.reshape(-1, 4), actions.flatten(), logprobs.flatten(), values.flatten(), b_adv, b_adv + values.flatten())
            losses, size = [], E * T // s["minibatches"]
            for _ in range(s["epochs"]):
                inds = random.permutation(E * T)
                for start in range(0, E * T, size):
                    mb = inds[start : start + size]
                    losses.append(learn(*(x[mb] for x in flat)))
            yield losses

    return steps().__next__


if __name__ == "__main__":
    golden("ppo", make)
