// Writes the metrics of a run as TensorBoard curves, for --tensorboard.
import { SummaryWriter } from '../board/tensorboard.js';
import type { EvalMetrics, Metrics } from './metrics.js';
import type { Settings } from './options.js';

const TAGS: Readonly<Record<string, string>> = {
  loss: 'train/loss',
  lr: 'train/lr',
  gradNorm: 'train/gradNorm',
  tokensPerSecond: 'train/tokensPerSecond',
  memory: 'train/memory',
  evalLoss: 'eval/loss',
  perplexity: 'eval/perplexity',
};

export class Curves implements AsyncDisposable {
  readonly #settings: Settings;
  #writer: SummaryWriter | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
  }
  /** Begins after a step, or at the start. `again`: the folder has events of an earlier attempt, whose later steps are purged. */
  begin(step: number | undefined, again: boolean): void {
    const { tensorboard } = this.#settings;
    if (tensorboard === undefined) return;
    this.#writer = new SummaryWriter(tensorboard, again ? { purgeStep: (step ?? -1) + 1 } : {});
    if (step !== undefined) return;
    const plain = Object.entries(this.#settings).filter(([, value]) => typeof value !== 'object');
    const hparams = Object.fromEntries(plain) as Record<string, string | number | boolean>;
    this.#writer.addHparams(hparams, {}, { runName: '.' });
  }
  add({ step, ...values }: Metrics | EvalMetrics): void {
    for (const [name, value] of Object.entries(values))
      if (TAGS[name]) this.#writer?.addScalar(TAGS[name], value, step);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer?.close();
  }
}
