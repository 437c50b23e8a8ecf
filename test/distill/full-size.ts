// The KD loss of the main job, with the gradient of hidden states: Qwen3-0.6B's head, B4, L1024, K128 and 64 random negatives.
import * as tx from 'tsxla';

export function fullSize(compute: 'gather' | 'dense', dtype: 'f32' | 'bf16', platform: 'cpu' | 'tpu'): string {
  const [B, S, D, V] = [4, 1023, 1024, 151936];
  const head = tx.zeros([V, D], { dtype });
  const loss = tx.compile((h: tx.Tensor, candidates: tx.distill.KdCandidates, mask: tx.Tensor) => {
    const hidden = h.detach().requiresGrad_();
    const options = { mask, compute, hardTop1: 0.02, ...(compute === 'dense' && { hardFull: 0.1 }) };
    const { loss } = tx.distill.kdLoss(hidden, head, candidates, options);
    return [loss, tx.grad(loss, hidden)];
  });
  const ids = (k: number) => tx.zeros([B, S, k], { dtype: 'i32' });
  const logits = (k: number) => tx.zeros([B, S, k], { dtype: 'f16' });
  const candidates = { topkIdx: ids(128), topkLogits: logits(128), randIdx: ids(64), randLogits: logits(64) };
  const mask = tx.zeros([B, S], { dtype: 'u8' });
  return loss.stablehlo([tx.zeros([B, S, D], { dtype }), candidates, mask], { platform });
}
