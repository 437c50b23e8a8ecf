// The step of the main job at full size: a quantized Qwen3-0.6B with adapters learns from a teacher's cached logits.
// Micro-batches are a loop, and the layers one inside it; nothing is computed here, and no weight is made.
//   A micro-batches of B sequences of L tokens, K + R candidates of each position
import * as tx from 'tsxla';
import { type AheadOfTime, compileAhead } from 'tsxla/plan';

const { ATTENTION, FactoredLinear, MLP, PackedLinear, PRESETS } = tx.quant;

/**
 * What the base weights are. materialized: bf16, computed once from codes and scales. packed: 2 and 4 bits, unpacked in every
 * pass. trained: codes, with scales that are learned beside the adapters.
 */
export type Base = 'materialized' | 'packed' | 'trained';
export interface Row {
  readonly rank: number;
  readonly batch: number;
  readonly accumulation: number;
  readonly base?: Base;
  readonly compute?: 'gather' | 'dense';
  readonly dropout?: number;
}
/** Spec 000's memory guide for a v6e, whose figures were 22, 24 and 28 GB. */
export const ROWS: readonly Row[] = [
  { rank: 8, batch: 4, accumulation: 8 },
  { rank: 16, batch: 4, accumulation: 8 },
  { rank: 8, batch: 8, accumulation: 4 },
];

function quantize(model: tx.nn.Module, base: Base): void {
  const { mlp, attention } = PRESETS.q2a4;
  for (const [name, linear] of [...model.namedModules()]) {
    const preset = MLP.test(name) ? mlp : ATTENTION.test(name) ? attention : undefined;
    if (!preset) continue;
    const layer = new FactoredLinear(linear as tx.nn.Linear, { lutSize: preset[0], scaleRank: preset[1] });
    model.setSubmodule(name, base === 'packed' ? PackedLinear.of(layer, 'f16') : layer);
    if (base === 'materialized') layer.materialize().to('bf16');
  }
}

export function recoveryProgram(row: Row, platform: 'cpu' | 'cuda' | 'tpu'): string {
  const { rank, batch: B, accumulation: A, base = 'materialized', compute = 'gather', dropout = 0 } = row;
  const [L, K, R] = [1024, 128, 64];
  const model = new tx.models.Qwen3ForCausalLM(tx.models.QWEN3['0.6B'], { scanLayers: true, checkpoint: true });
  model.to('bf16');
  quantize(model, base);
  tx.lora.addLora(model, { rank, dropout });
  if (base === 'trained')
    for (const [name, p] of model.namedParameters()) p.requiresGrad_(p.requiresGrad || name.includes('scale_'));
  const trained = model.parameters().filter((p) => p.requiresGrad);
  const optimizer = new tx.optim.AdamW(trained, { lr: 8e-5 });

  const counted = (mask: tx.Tensor) => mask.narrow(-1, 1, L - 1); // a token is foreseen from those before it
  const train = tx.compile(function train(ids: tx.Tensor, mask: tx.Tensor, candidates: tx.distill.KdCandidates) {
    const total = counted(mask).float().sum();
    const loss = tx.accumulate(
      { ids, mask, candidates },
      (b) => {
        const hidden = model.model.forward(b.ids).narrow(1, 0, L - 1);
        const mask = counted(b.mask);
        const { loss } = tx.distill.kdLoss(hidden, model.lmHead.weight, b.candidates, {
          mask,
          compute,
          hardTop1: 0.02,
        });
        return loss.mul(mask.float().sum()).div(total);
      },
      { reduction: 'sum' },
    );
    const norm = tx.optim.clipGradNorm(trained, 1);
    optimizer.step();
    optimizer.zeroGrad();
    return { loss, norm };
  });
  const ids = (k: number) => tx.zeros([A, B, L - 1, k], { dtype: 'i32' });
  const logits = (k: number) => tx.zeros([A, B, L - 1, k], { dtype: 'f16' });
  const candidates = { topkIdx: ids(K), topkLogits: logits(K), randIdx: ids(R), randLogits: logits(R) };
  const tokens = tx.zeros([A, B, L], { dtype: 'i32' });
  return train.stablehlo([tokens, tx.zeros([A, B, L], { dtype: 'u8' }), candidates], { platform });
}

export const planRecovery = (row: Row): Promise<AheadOfTime> =>
  compileAhead(recoveryProgram(row, 'tpu'), { topology: 'v6e:1x1', timeoutSeconds: 900 });
