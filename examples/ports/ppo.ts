// Proximal policy optimization (Schulman et al., 2017) on CartPole, after vwxyzjn/cleanrl/cleanrl/ppo.py.
// npx tsx examples/ports/ppo.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

/** Sources of random numbers between 0 and 1, and of permutations of 0 to n - 1. */
export interface Random {
  uniform(n: number): number[];
  permutation(n: number): number[];
}

/** Several of Gymnasium's CartPole-v1, each reset when it is over. */
class CartPoles {
  #states: number[][];
  readonly #steps: number[];
  constructor(
    readonly numEnvs: number,
    readonly random: Random,
  ) {
    this.#states = Array.from({ length: numEnvs }, () => this.#begin());
    this.#steps = Array(numEnvs).fill(0);
  }
  #begin = () => this.random.uniform(4).map((u) => u * 0.1 - 0.05);
  get obs(): number[][] {
    return this.#states.map((s) => [...s]);
  }
  step(actions: readonly number[]): { done: number[]; lengths: number[] } {
    const [done, lengths]: [number[], number[]] = [[], []];
    this.#states = this.#states.map(([x, xDot, theta, thetaDot], i) => {
      const force = actions[i] === 1 ? 10 : -10;
      const [cos, sin] = [Math.cos(theta!), Math.sin(theta!)];
      const temp = (force + 0.05 * thetaDot! ** 2 * sin) / 1.1;
      const thetaAcc = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - (0.1 * cos ** 2) / 1.1));
      const xAcc = temp - (0.05 * thetaAcc * cos) / 1.1;
      const next = [x! + 0.02 * xDot!, xDot! + 0.02 * xAcc, theta! + 0.02 * thetaDot!, thetaDot! + 0.02 * thetaAcc];
      this.#steps[i]!++;
      const isOver = Math.abs(next[0]!) > 2.4 || Math.abs(next[2]!) > (12 * Math.PI) / 180 || this.#steps[i]! >= 500;
      done.push(Number(isOver));
      if (!isOver) return next;
      lengths.push(this.#steps[i]!);
      this.#steps[i] = 0;
      return this.#begin();
    });
    return { done, lengths };
  }
}

function layerInit(layer: nn.Linear, std = Math.SQRT2): nn.Linear {
  nn.init.orthogonal_(layer.weight, std);
  nn.init.zeros_(layer.bias!);
  return layer;
}

export class Agent extends nn.Module {
  critic;
  actor;
  constructor(obsSize: number, numActions: number, hidden = 64) {
    super();
    const mlp = (out: number, std: number) =>
      new nn.Sequential(
        layerInit(new nn.Linear(obsSize, hidden)),
        new nn.Tanh(),
        layerInit(new nn.Linear(hidden, hidden)),
        new nn.Tanh(),
        layerInit(new nn.Linear(hidden, out), std),
      );
    this.critic = mlp(1, 1);
    this.actor = mlp(numActions, 0.01);
  }
  getValue(x: Tensor): Tensor {
    return this.critic.forward(x).flatten();
  }
  /** Draws the action with a number between 0 and 1, unless it is given. */
  getActionAndValue(x: Tensor, { action, u }: { action?: Tensor; u?: Tensor }) {
    const logProbs = this.actor.forward(x).logSoftmax({ dim: 1 });
    const probs = logProbs.exp();
    const taken =
      action ??
      probs
        .cumsum(1)
        .lt(u!.unsqueeze(1))
        .sum(1)
        .clamp({ max: probs.shape[1]! - 1 });
    const logprob = logProbs.gather(1, taken.unsqueeze(1)).squeeze(1);
    const entropy = probs.mul(logProbs).sum(1).neg();
    return { action: taken, logprob, entropy, value: this.getValue(x) };
  }
}

const DEFAULTS = {
  ...{ numEnvs: 4, numSteps: 128, numIterations: 20, numMinibatches: 4, updateEpochs: 4, learningRate: 2.5e-4 },
  ...{ gamma: 0.99, gaeLambda: 0.95, clipCoef: 0.2, entCoef: 0.01, vfCoef: 0.5, maxGradNorm: 0.5 },
};
export async function train(
  agent: Agent,
  random: Random,
  options: Partial<typeof DEFAULTS> = {},
  report = (_iteration: number, _loss: number, _lengths: readonly number[]) => {},
): Promise<number[]> {
  const args = { ...DEFAULTS, ...options };
  const { numEnvs, numSteps, numIterations, gamma, gaeLambda, clipCoef } = args;
  const { dtype } = agent.parameters()[0]!;
  const tensor = (x: number[] | number[][]) => tx.tensor(x, { dtype });
  const optimizer = new optim.Adam(agent.parameters(), { lr: args.learningRate, eps: 1e-5 });
  const envs = new CartPoles(numEnvs, random);

  const act = tx.compile((obs: Tensor, u: Tensor) => {
    const { action, logprob, value } = tx.noGrad(() => agent.getActionAndValue(obs, { u }));
    return [action, logprob, value] as const;
  });
  type Minibatch = Record<'obs' | 'action' | 'logprobs' | 'adv' | 'returns' | 'values', Tensor>;
  const update = tx.compile(({ obs, action, logprobs, adv, returns, values }: Minibatch) => {
    const { logprob, entropy, value } = agent.getActionAndValue(obs, { action });
    const ratio = logprob.sub(logprobs).exp();
    const advantages = adv.sub(adv.mean()).div(adv.std().add(1e-8));
    // Policy loss
    const pgLoss1 = advantages.neg().mul(ratio);
    const pgLoss2 = advantages.neg().mul(ratio.clamp({ min: 1 - clipCoef, max: 1 + clipCoef }));
    const pgLoss = tx.maximum(pgLoss1, pgLoss2).mean();
    // Value loss
    const vLossUnclipped = value.sub(returns).square();
    const vClipped = values.add(value.sub(values).clamp({ min: -clipCoef, max: clipCoef }));
    const vLoss = tx.maximum(vLossUnclipped, vClipped.sub(returns).square()).mean().mul(0.5);
    const loss = pgLoss.sub(entropy.mean().mul(args.entCoef)).add(vLoss.mul(args.vfCoef));
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(agent.parameters(), args.maxGradNorm);
    optimizer.step();
    return loss;
  });

  const losses: number[] = [];
  const read = (xs: readonly Tensor[]) => Promise.all(xs.map(async (t) => Array.from(await t.data(), Number)));
  let nextDone: number[] = Array(numEnvs).fill(0);
  for (let iteration = 0; iteration < numIterations; iteration++) {
    // Annealing the rate
    optimizer.paramGroups[0]!.lr = (1 - iteration / numIterations) * args.learningRate;

    // The batch, flat: sample t * numEnvs + e is step t of environment e
    const batch: { obs: number[]; action: number; logprob: number; value: number; done: number; adv: number }[] = [];
    const lengths: number[] = [];
    for (let step = 0; step < numSteps; step++) {
      const { obs } = envs;
      const results = await act(tensor(obs), tensor(random.uniform(numEnvs)));
      const [action, logprob, value] = (await read(results)) as [number[], number[], number[]];
      obs.forEach((o, e) => {
        batch.push({ obs: o, action: action[e]!, logprob: logprob[e]!, value: value[e]!, done: nextDone[e]!, adv: 0 });
      });
      const next = envs.step(action); // the reward of each step is 1
      nextDone = next.done;
      lengths.push(...next.lengths);
    }

    // Bootstrap value if not done
    const [, , nextValue] = await read(await act(tensor(envs.obs), tensor(Array(numEnvs).fill(0))));
    for (let i = batch.length - 1; i >= 0; i--) {
      const following = batch[i + numEnvs] ?? { done: nextDone[i % numEnvs]!, value: nextValue![i % numEnvs]!, adv: 0 };
      const nextnonterminal = 1 - following.done;
      const delta = 1 + gamma * following.value * nextnonterminal - batch[i]!.value;
      batch[i]!.adv = delta + gamma * gaeLambda * nextnonterminal * following.adv;
    }

    // Optimizing the policy and value network
    const minibatchSize = batch.length / args.numMinibatches;
    for (let epoch = 0; epoch < args.updateEpochs; epoch++) {
      const inds = random.permutation(batch.length);
      for (let start = 0; start < batch.length; start += minibatchSize) {
        const mb = inds.slice(start, start + minibatchSize).map((i) => batch[i]!);
        const of = (get: (x: (typeof mb)[0]) => number) => tensor(mb.map(get));
        const loss = await update({
          ...{ obs: tensor(mb.map((x) => x.obs)), action: tx.tensor(mb.map((x) => x.action)) },
          ...{ logprobs: of((x) => x.logprob), adv: of((x) => x.adv), values: of((x) => x.value) },
          returns: of((x) => x.adv + x.value),
        });
        // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
        losses.push(await loss.item());
      }
    }
    report(iteration, losses.at(-1)!, lengths);
  }
  return losses;
}

async function main() {
  tx.manualSeed(1);
  let seed = 1; // Lehmer's generator
  const uniform = (n: number) => Array.from({ length: n }, () => (seed = (seed * 48271) % 2147483647) / 2147483647);
  const permutation = (n: number) => {
    const keys = uniform(n);
    return keys.map((_, i) => i).sort((a, b) => keys[a]! - keys[b]!);
  };
  await train(new Agent(4, 2), { uniform, permutation }, { learningRate: 2.5e-3 }, (iteration, loss, lengths) => {
    const reward = lengths.reduce((a, b) => a + b, 0) / Math.max(1, lengths.length);
    if (iteration % 4 === 3)
      console.log(`iteration ${iteration + 1}: loss ${loss.toFixed(3)}, reward ${reward.toFixed(1)}`);
  });
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
