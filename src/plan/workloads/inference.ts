// Inference with greedy decoding: a program for the prompt (prefill) and one for each further token (decode), which attends to the
// cached keys and values.
import { createModel, type DecoderConfig } from '../../models/index.js';
import { batchFor, markSharding } from '../../spmd/index.js';
import { compile, type Lowered } from '../../step/step.js';
import { noGrad } from '../../tensor/autograd.js';
import { zeros } from '../../tensor/create.js';
import type { Tensor } from '../../tensor/tensor.js';
import { sharesOf, spread } from './parallel.js';
import { namesOf, type WorkloadSettings } from './workload.js';

export function inferencePrograms(
  config: DecoderConfig,
  settings: WorkloadSettings,
): { readonly prefill: Lowered; readonly decode: Lowered } {
  const { seq: L, newTokens, dtype, mesh: sizes } = settings;
  const B = settings.batch * sharesOf(sizes);
  const model = createModel(config, { scanLayers: true });
  model.to(dtype).requiresGrad_(false).eval();
  const mesh = spread(model, sizes);
  const cache = model.makeCache(B, L + newTokens);
  if (mesh) for (const t of [...cache.keys, ...cache.values]) markSharding(t, mesh, [null, mesh.axisNames]); // [L, B G, S, d]
  const next = (ids: Tensor) => model.next(ids, cache).argmax(-1).int();
  const prefill = compile(
    (ids: Tensor) =>
      noGrad(() => {
        cache.reset();
        return next(ids);
      }),
    { name: 'prefill' },
  );
  const decode = compile((ids: Tensor) => noGrad(() => next(ids)), { name: 'decode' });
  const names = [...namesOf(model), ['keys', cache.keys[0]!] as const, ['values', cache.values[0]!] as const];
  const lower = (program: typeof prefill, T: number) =>
    program.lower([batchFor(model, zeros([B, T], { dtype: 'i32' }))], { platform: 'tpu', locations: true, names });
  return { prefill: lower(prefill, L), decode: lower(decode, 1) };
}
