// Losses of distillation are torch's, with their gradients, in chunks of any size.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { goldenPath } from '../support.js';

const { distill } = tx;
const golden = await tx.io.readSafetensors(goldenPath('distill.safetensors'));
const given = (name: string, requiresGrad = false): tx.Tensor => {
  const { dtype, shape, data } = golden.get(name)!;
  return tx.tensor(data, { dtype, shape, requiresGrad });
};
const topk = { topkIdx: given('topk_idx'), topkLogits: given('topk_logits') };
const candidates = { ...topk, randIdx: given('rand_idx'), randLogits: given('rand_logits') };
const teacher = { hidden: given('teacher_hidden'), head: given('teacher_head') };
const mask = given('mask');
type Losses = { readonly loss: tx.Tensor } & Readonly<Record<string, tx.Tensor | undefined>>;

const kd =
  (options: tx.distill.KdOptions, from: tx.distill.KdCandidates = candidates) =>
  (h: tx.Tensor, w: tx.Tensor) =>
    ({ ...distill.kdLoss(h, w, from, { mask, ...options }) }) satisfies Losses;
const CASES: readonly (readonly [what: string, name: string, (h: tx.Tensor, w: tx.Tensor) => Losses])[] = [
  [
    'kdSoftCe, as in the original',
    'softCe',
    (h, w) => ({ loss: distill.kdSoftCe(h.matmul(w.T), teacher.hidden.matmul(teacher.head.T), 2) }),
  ],
  ['the top k, gathered, one position at a time', 'topk', kd({ temperature: 1.05, mask: null, chunk: 1 }, topk)],
  ['the top k, dense', 'topk', kd({ temperature: 1.05, mask: null, compute: 'dense', chunk: 64 }, topk)],
  ['random negatives, masked, gathered', 'candidates', kd({})],
  ['random negatives, masked, dense', 'candidates', kd({ compute: 'dense', chunk: 5 })],
  [
    'hardTop1, gathered, in chunks that do not divide',
    'hardTop1',
    kd({ hardTop1: tx.tensor(0.02, { dtype: 'f64' }), chunk: 3 }),
  ],
  ['hardTop1, dense, in chunks that do not divide', 'hardTop1', kd({ hardTop1: 0.02, compute: 'dense', chunk: 3 })],
  ['hardFull', 'hardFull', kd({ hardTop1: 0.02, hardFull: 0.3, chunk: 4 })],
  [
    'a live teacher and labels',
    'live',
    (h, w) => ({ ...distill.liveKdLoss(h, w, teacher, given('labels'), { alpha: 0.7, chunk: 4 }) }),
  ],
  [
    'the student without adapters as an anchor',
    'anchor',
    (h, w) => ({
      loss: distill.anchorLoss(
        h,
        w,
        { hidden: given('hidden').mul(0.9).add(0.1), head: given('head') },
        { mask, chunk: 3 },
      ),
    }),
  ],
];

test('every loss and its gradients are those of torch', async () => {
  const all = await tx.step(() =>
    CASES.map(([, , losses]) => {
      const [hidden, head] = [given('hidden', true), given('head', true)];
      const results = losses(hidden, head);
      const [gh, gw] = tx.grad(results.loss, [hidden, head]) as tx.Tensor[];
      return { ...results, 'grad.hidden': gh!, 'grad.head': gw! } as Record<string, tx.Tensor>;
    }),
  );
  for (const [i, [what, name]] of CASES.entries())
    for (const [key, got] of Object.entries(all[i]!)) {
      const want = golden.get(`${name}/${key}`)!.data as Float64Array;
      const numbers = (await got.data()) as Float64Array;
      expect(numbers.length).toBe(want.length);
      const worst = numbers.reduce((worst, x, k) => Math.max(worst, Math.abs(x - want[k]!)), 0);
      expect(worst, `${what}: ${key}`).toBeLessThan(1e-10);
    }
});

test('hardTop1 is annealed from step to step, in one program', async () => {
  expect([0, 5, 10, 20].map((step) => distill.annealed(0.02, 0, step, 11))).toEqual([0.02, 0.01, 0, 0]);
  const weight = tx.tensor(0, { dtype: 'f64' });
  const [h, w] = [given('hidden'), given('head')];
  const loss = tx.compile(() => distill.kdLoss(h, w, candidates, { hardTop1: weight }));
  const seen: number[] = [];
  for (const step of [0, 5, 10]) {
    weight.copy_(distill.annealed(0.02, 0, step, 11));
    const { loss: sum, kl, hardTop1 } = await loss();
    seen.push(Number(await sum.sub(kl).div(hardTop1!).item()));
  }
  expect(loss.programs).toBe(1);
  seen.forEach((x, i) => void expect(x).toBeCloseTo([0.02, 0.01, 0][i]!, 12));
});

test('padding does not count: what a masked position holds changes nothing', async () => {
  const far = where(mask, given('hidden'), given('hidden').add(9));
  const [a, b] = await tx.step(() => [given('hidden'), far].map((h) => kd({})(h, given('head')).loss));
  expect(await a!.item()).toBe(await b!.item());
});
const where = (mask: tx.Tensor, a: tx.Tensor, b: tx.Tensor) => tx.where(mask.ne(0).unsqueeze(-1), a, b);

test('an anchor is 0 where nothing has moved', async () => {
  const h = given('hidden');
  expect(Math.abs(Number(await distill.anchorLoss(h, given('head'), { hidden: h }).item()))).toBeLessThan(1e-12);
});

test('mistakes are told', () => {
  const [h, w] = [given('hidden'), given('head')];
  const wrong =
    (options: tx.distill.KdOptions, from: tx.distill.KdCandidates = candidates) =>
    () =>
      distill.kdLoss(h, w, from, options);
  expect(wrong({ temperature: 0 })).toThrow('kdLoss: temperature is 0: it must be above 0');
  expect(wrong({ chunk: 0 })).toThrow('kdLoss: chunk is 0: it must be a whole number of positions, at least 1');
  expect(wrong({ compute: 'gather', hardFull: 1 })).toThrow('kdLoss: hardFull needs the whole vocabulary');
  expect(wrong({}, { ...topk, randIdx: candidates.randIdx })).toThrow('kdLoss: randLogits is missing');
  expect(wrong({}, { ...topk, topkIdx: topk.topkLogits })).toThrow(
    'kdLoss: topkIdx is f64[2, 5, 4]: tokens must be integers',
  );
  expect(wrong({ mask: tx.ones([2, 6]) })).toThrow(
    'take hidden.narrow(1, 0, L - 1), and of masks and labels all but the first',
  );
  expect(() => distill.kdLoss(h, w.T, topk)).toThrow(
    'kdLoss: expected hidden states [..., D] and a head [V, D], got f64[2, 5, 6]',
  );
  expect(() =>
    distill.liveKdLoss(h, w, { ...teacher, head: tx.ones([8, 12], { dtype: 'f64' }) }, given('labels')),
  ).toThrow('the student has a vocabulary of 30 tokens, the teacher of 8: they must be equal');
});
