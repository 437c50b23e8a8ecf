// Full fine-tuning on text: all weights are trained. Weights in bf16 have copies in f32, so that small updates are not lost.
import { nextTokenLoss } from '../../distill/index.js';
import { CHECKPOINT, createModel, type DecoderConfig } from '../../models/index.js';
import { AdamW, clipGradNorm } from '../../optim/index.js';
import { batchFor } from '../../spmd/index.js';
import { microBatches } from '../../spmd/sharding.js';
import { accumulate } from '../../step/accumulate.js';
import { compile, type Lowered } from '../../step/step.js';
import { zeros } from '../../tensor/create.js';
import type { Tensor } from '../../tensor/tensor.js';
import { sharesOf, spread } from './parallel.js';
import { namesOf, type WorkloadSettings } from './workload.js';

export function fullProgram(config: DecoderConfig, settings: WorkloadSettings): Lowered {
  const { seq: L, accumulation: A, remat, dtype } = settings;
  const B = settings.batch * sharesOf(settings.mesh);
  const model = createModel(config, { scanLayers: true, checkpoint: CHECKPOINT[remat] });
  model.to(dtype);
  spread(model, settings.mesh);
  const optimizer = new AdamW(model.namedParameters(), { lr: 1e-5, masterWeights: true });
  const lossOf = (ids: Tensor) => {
    const hidden = model.model.forward(ids).narrow(1, 0, L - 1);
    return nextTokenLoss(hidden, model.lmHead.weight, ids.narrow(1, 1, L - 1), { softcap: model.logitsSoftcap }); // logits in chunks, to save memory
  };
  const train = compile(function train(ids: Tensor) {
    const loss = A === 1 ? lossOf(ids) : accumulate(microBatches(ids, A), lossOf);
    if (A === 1) loss.backward();
    clipGradNorm(model.parameters(), 1);
    optimizer.step();
    optimizer.zeroGrad();
    return loss.detach();
  });
  const ids = batchFor(model, zeros([A * B, L], { dtype: 'i32' }));
  return train.lower([ids], { platform: 'tpu', locations: true, names: namesOf(model, optimizer) });
}
