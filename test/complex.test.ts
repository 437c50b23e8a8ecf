// Complex numbers and Fourier transforms: values, types and gradients against torch (scripts/golden/complex.py).
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { blockOf } from '../dist/base/blocks.js';
import { promote } from '../dist/base/promote.js';

interface Row {
  readonly row: string;
  readonly shape: number[];
  readonly complex: boolean;
  readonly value: number[];
  readonly grads: Record<string, number[]>;
}
interface Golden {
  readonly given: Record<'z' | 'w' | 'x' | 'signal' | 'window', number[]>;
  readonly rows: Row[];
  readonly promote: [tx.DType, tx.DType, tx.DType][];
  readonly printed: { text: string; real: number[]; imag: number[] }[];
  readonly freq: number[][];
  readonly learned: { name: 'Adam'; options: Record<string, number | boolean>; value: number[] }[];
}
const golden: Golden = JSON.parse(readFileSync(new URL('golden/complex.json', import.meta.url), 'utf8'));
type Given = Readonly<Record<keyof Golden['given'], tx.Tensor>>;

/** Torch's expression, and ours. */
const OURS: Record<string, (g: Given) => tx.Tensor> = {
  'z + w': ({ z, w }) => z.add(w),
  'z - x': ({ z, x }) => z.sub(x),
  'torch.sub(z, w, alpha=0.5)': ({ z, w }) => z.sub(w, { alpha: 0.5 }),
  'z * w': ({ z, w }) => z.mul(w),
  'z * x': ({ z, x }) => z.mul(x),
  'z / w': ({ z, w }) => z.div(w),
  'x / z': ({ z, x }) => x.div(z),
  '2 / z': ({ z }) => tx.div(2, z),
  '-z': ({ z }) => z.neg(),
  ...Object.fromEntries(
    (
      'exp expm1 log log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid reciprocal ' +
      'square abs angle conj sgn'
    )
      .split(' ')
      .map((name) => [`z.${name}()`, ({ z }: Given) => z[name as 'exp']()]),
  ),
  'z.pow(3)': ({ z }) => z.pow(3),
  'z.pow(0.5)': ({ z }) => z.pow(0.5),
  'z.pow(w)': ({ z, w }) => z.pow(w),
  'x.abs().pow(z)': ({ z, x }) => x.abs().pow(z),
  'z.real': ({ z }) => z.real(),
  'z.imag': ({ z }) => z.imag(),
  'z.sum()': ({ z }) => z.sum(),
  'z.sum(1)': ({ z }) => z.sum(1),
  'z.mean(0)': ({ z }) => z.mean(0),
  'z.prod(1)': ({ z }) => z.prod(1),
  'z.cumsum(1)': ({ z }) => z.cumsum(1),
  'z.cumprod(1)': ({ z }) => z.cumprod(1),
  'z @ w.mT': ({ z, w }) => z.matmul(w.mT),
  'z.mH @ w': ({ z, w }) => z.mH.matmul(w),
  'z @ x.mT.to(z.dtype)': ({ z, x }) => z.matmul(x.mT.to(z.dtype)),
  'torch.dot(z[0], w[1])': ({ z, w }) => z.select(0, 0).dot(w.select(0, 1)),
  'torch.vdot(z[0], w[1])': ({ z, w }) => tx.vdot(z.select(0, 0), w.select(0, 1)),
  'torch.outer(z[0], w[1])': ({ z, w }) => tx.outer(z.select(0, 0), w.select(0, 1)),
  "torch.einsum('ij,kj->ik', z, w)": ({ z, w }) => tx.einsum('ij,kj->ik', z, w),
  'torch.where(x > 0, z, w)': ({ z, w, x }) => tx.where(x.gt(0), z, w),
  'torch.cat([z, w], 1)': ({ z, w }) => tx.cat([z, w], 1),
  'torch.stack([z, w])': ({ z, w }) => tx.stack([z, w]),
  'z[1:, ::2]': ({ z }) => z.index({ start: 1 }, { step: 2 }),
  'z[:, [0, 2, 2]]': ({ z }) => z.indexSelect(1, tx.tensor([0, 2, 2])),
  'z.flip(1).roll(1, 0).reshape(4, 3).permute(1, 0)': ({ z }) => z.flip(1).roll(1, 0).reshape(4, 3).permute(1, 0),
  'z.norm()': ({ z }) => z.norm(),
  'torch.linalg.vector_norm(z, 3, dim=1)': ({ z }) => z.vectorNorm({ p: 3, dim: 1 }),
  'torch.view_as_real(z)': ({ z }) => z.viewAsReal(),
  'torch.view_as_complex(torch.stack([x, x * 2], -1))': ({ x }) => tx.stack([x, x.mul(2)], -1).viewAsComplex(),
  'torch.polar(x.abs(), x)': ({ x }) => tx.polar(x.abs(), x),
  'torch.complex(x, x * 3)': ({ x }) => tx.complex(x, x.mul(3)),
  'torch.trace(z[:, :3])': ({ z }) => z.narrow(1, 0, 3).trace(),
  'torch.tril(z)': ({ z }) => z.tril(),
  'z.to(torch.complex64).to(torch.complex128)': ({ z }) => z.to('c64').to('c128'),
  'torch.lerp(z, w, 0.25)': ({ z, w }) => z.lerp(w, 0.25),
  'torch.addcmul(z, w, z, value=2)': ({ z, w }) => z.addcmul(w, z, { value: 2 }),
  'torch.fft.fft(z)': ({ z }) => tx.fft.fft(z),
  'torch.fft.fft(x, dim=0)': ({ x }) => tx.fft.fft(x, { dim: 0 }),
  'torch.fft.fft(z, n=6)': ({ z }) => tx.fft.fft(z, 6),
  "torch.fft.fft(z, n=3, dim=0, norm='ortho')": ({ z }) => tx.fft.fft(z, 3, 0, 'ortho'),
  'torch.fft.ifft(z)': ({ z }) => tx.fft.ifft(z),
  "torch.fft.ifft(z, norm='forward')": ({ z }) => tx.fft.ifft(z, { norm: 'forward' }),
  'torch.fft.rfft(x)': ({ x }) => tx.fft.rfft(x),
  "torch.fft.rfft(x, n=7, dim=0, norm='forward')": ({ x }) => tx.fft.rfft(x, { n: 7, dim: 0, norm: 'forward' }),
  'torch.fft.irfft(z)': ({ z }) => tx.fft.irfft(z),
  'torch.fft.irfft(z, n=7)': ({ z }) => tx.fft.irfft(z, { n: 7 }),
  "torch.fft.irfft(z, n=5, norm='ortho', dim=0)": ({ z }) => tx.fft.irfft(z, { n: 5, norm: 'ortho', dim: 0 }),
  'torch.fft.hfft(z)': ({ z }) => tx.fft.hfft(z),
  "torch.fft.hfft(z, n=5, norm='ortho')": ({ z }) => tx.fft.hfft(z, { n: 5, norm: 'ortho' }),
  'torch.fft.ihfft(x)': ({ x }) => tx.fft.ihfft(x),
  'torch.fft.fft2(z)': ({ z }) => tx.fft.fft2(z),
  "torch.fft.ifft2(z, norm='ortho')": ({ z }) => tx.fft.ifft2(z, { norm: 'ortho' }),
  'torch.fft.rfft2(x)': ({ x }) => tx.fft.rfft2(x),
  'torch.fft.irfft2(z)': ({ z }) => tx.fft.irfft2(z),
  'torch.fft.fftn(z, s=[2, 5])': ({ z }) => tx.fft.fftn(z, { s: [2, 5] }),
  'torch.fft.ifftn(z)': ({ z }) => tx.fft.ifftn(z),
  "torch.fft.rfftn(x, s=[4, 5], norm='ortho')": ({ x }) => tx.fft.rfftn(x, [4, 5], null, 'ortho'),
  'torch.fft.irfftn(z, s=[3, 5])': ({ z }) => tx.fft.irfftn(z, { s: [3, 5] }),
  'torch.fft.hfft2(z)': ({ z }) => tx.fft.hfft2(z),
  "torch.fft.hfftn(z, s=[2, 5], norm='ortho')": ({ z }) => tx.fft.hfftn(z, { s: [2, 5], norm: 'ortho' }),
  'torch.fft.ihfft2(x)': ({ x }) => tx.fft.ihfft2(x),
  "torch.fft.ihfftn(x, norm='forward')": ({ x }) => tx.fft.ihfftn(x, { norm: 'forward' }),
  'torch.fft.fftshift(z)': ({ z }) => tx.fft.fftshift(z),
  'torch.fft.ifftshift(z, dim=1)': ({ z }) => tx.fft.ifftshift(z, { dim: 1 }),
  'torch.stft(signal, 8, 2, window=window, return_complex=True)': ({ signal, window }) =>
    tx.stft(signal, 8, 2, { window }),
  'torch.stft(signal, 8, 4, 6, window=window[:6], center=False, normalized=True, onesided=False, return_complex=True)':
    ({ signal, window }) =>
      tx.stft(signal, 8, {
        hopLength: 4,
        winLength: 6,
        window: window.narrow(0, 0, 6),
        center: false,
        normalized: true,
        onesided: false,
      }),
  'torch.istft(torch.stft(signal, 8, 2, window=window, return_complex=True) * 2, 8, 2, window=window)': ({
    signal,
    window,
  }) => tx.istft(tx.stft(signal, 8, 2, { window }).mul(2), 8, 2, { window }),
  'torch.istft(torch.stft(signal, 8, 2, window=window, return_complex=True), 8, 2, window=window, length=20)': ({
    signal,
    window,
  }) => tx.istft(tx.stft(signal, 8, 2, { window }), 8, 2, { window, length: 20 }),
};

const SHAPES = { z: [3, 4], w: [3, 4], x: [3, 4], signal: [2, 24], window: [8] } as const;
const inputs = (): Given =>
  Object.fromEntries(
    Object.entries(golden.given).map(([name, values]) => {
      const dtype = name === 'z' || name === 'w' ? 'c128' : 'f64';
      const options = { dtype, shape: SHAPES[name as 'z'], requiresGrad: name !== 'window' } as const;
      return [name, tx.tensor(Float64Array.from(values), options)];
    }),
  ) as unknown as Given;
const isNear = (got: ArrayLike<number>, want: readonly number[]) =>
  got.length === want.length && want.every((w, i) => Math.abs(got[i]! - w) <= 1e-8 * (1 + Math.abs(w)));

test('values, shapes, types and gradients are those of torch', async () => {
  expect(golden.rows.map((r) => r.row).filter((row) => !OURS[row])).toEqual([]);
  for (let k = 0; k < golden.rows.length; k += 25) {
    const wanted = golden.rows.slice(k, k + 25).flatMap((row) => {
      const given = inputs();
      const y = OURS[row.row]!(given);
      expect([row.row, y.shape, y.dtype]).toEqual([row.row, row.shape, row.complex ? 'c128' : 'f64']);
      const parts = row.complex ? y.viewAsReal() : y;
      parts
        .flatten()
        .mul(tx.arange(1, parts.numel() + 1, { dtype: 'f64' }))
        .sum()
        .backward();
      const grads = Object.entries(row.grads).map(([name, g]) => {
        const { grad, dtype } = given[name as 'z'];
        expect(grad?.dtype, `${row.row}: the gradient of ${name}`).toBe(dtype);
        return [`${row.row}: the gradient of ${name}`, grad!, g] as const;
      });
      return [[row.row, y, row.value] as const, ...grads];
    });
    const values = (await Promise.all(wanted.map(([, t]) => t.data()))) as Float64Array[];
    expect(wanted.flatMap(([name, , want], i) => (isNear(values[i]!, want) ? [] : [name]))).toEqual([]);
  }
});

test('optimizers learn complex parameters as torch does: their parts as elements', async () => {
  const camel = (name: string) => name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase());
  const all = golden.learned.map(({ name, options, value }) => {
    const { z, w, x } = inputs();
    const given = Object.fromEntries(Object.entries(options).map(([k, v]) => [camel(k), v]));
    const optimizer = new tx.optim[name]([z], given);
    for (let i = 0; i < 3; i++) {
      optimizer.zeroGrad();
      z.mul(w.detach()).sub(x.detach()).abs().square().sum().backward();
      optimizer.step();
    }
    return { name, z, value };
  });
  const got = (await Promise.all(all.map(({ z }) => z.data()))) as Float64Array[];
  expect(all.flatMap(({ name, value }, i) => (isNear(got[i]!, value) ? [] : [name]))).toEqual([]);

  const z = tx.ones([2, 2], { dtype: 'c64', requiresGrad: true });
  const adam = new tx.optim.Adam([z]);
  z.abs().sum().backward();
  await adam.step();
  expect(adam.stateDict().state[0]).toMatchObject({ exp_avg: { dtype: 'c64', shape: [2, 2] } });
  expect(() => new tx.optim.Muon([z])).toThrow('Muon: parameter 0 is c64[2, 2]: Muon takes real parameters only');
});

test('dtypes meet as in torch', () => {
  for (const [a, b, meet] of golden.promote) expect([a, b, promote(a, b), promote(b, a)]).toEqual([a, b, meet, meet]);
  expect(tx.ones([2], { dtype: 'f64' }).mul(tx.tensor({ re: 1, im: 2 })).dtype).toBe('c128');
  expect(tx.tensor([{ re: 1, im: 2 }]).add(1.5).dtype).toBe('c64');
});

test('they are made, read and printed', async () => {
  const z = tx.tensor([{ re: 1.5, im: 0.5 }, 2]);
  expect([z.dtype, z.shape, await z.tolist(), await z.data()]).toEqual([
    'c64',
    [2],
    [
      { re: 1.5, im: 0.5 },
      { re: 2, im: 0 },
    ],
    Float32Array.of(1.5, 0.5, 2, 0),
  ]);
  const pairs = tx.tensor(Float64Array.of(1, 2, 3, 4), { dtype: 'c128' });
  expect([pairs.shape, await pairs.imag().tolist()]).toEqual([[2], [2, 4]]);
  expect(await tx.tensor([1, 2], { dtype: 'c64' }).real().tolist()).toEqual([1, 2]);
  expect(
    await tx
      .tensor({ re: 1, im: 2 })
      .eq(tx.tensor({ re: 1, im: 2 }))
      .item(),
  ).toBe(1);
  expect(
    await tx
      .tensor([{ re: 0, im: 2 }, 0])
      .bool()
      .tolist(),
  ).toEqual([true, false]);
  expect(
    await tx
      .tensor([{ re: 3, im: 2 }])
      .isreal()
      .tolist(),
  ).toEqual([false]);
  for (const { text, real, imag } of golden.printed) {
    const dtype = text.includes('complex128') ? 'f64' : 'f32';
    const shown = tx.complex(tx.tensor(real, { dtype }), tx.tensor(imag, { dtype }));
    await shown.data();
    expect(String(shown)).toBe(text.replace('torch.complex128', 'c128'));
  }
  expect(() => tx.tensor([{ re: 1, im: 2 }], { dtype: 'f32' })).toThrow('element 0 is complex, but the dtype is f32');
  expect(() => tx.tensor(new Float32Array(3), { dtype: 'c64' })).toThrow(/1\.5/);
});

test('random ones have the variance of torch', async () => {
  tx.manualSeed(0);
  const [z, u] = [tx.randn([4000], { dtype: 'c64' }), tx.rand([4000], { dtype: 'c128' })];
  const means = [
    z.abs().square().mean(),
    z.real().square().mean(),
    z.mul(z).mean().abs(),
    u.real().mean(),
    u.imag().mean(),
  ];
  const got = await Promise.all(means.map((m) => m.item()));
  [1, 0.5, 0, 0.5, 0.5].forEach((want, i) => expect(Math.abs(got[i]! - want)).toBeLessThan(0.05));
});

test('tx.func: products with the Jacobian and its conjugate transpose', async () => {
  const [z, v] = [tx.tensor({ re: 1, im: 2 }), tx.tensor({ re: 0.5, im: -1 })];
  const square = (x: tx.Tensor) => x.mul(x);
  const [, along] = tx.func.jvp(square, [z], [v]);
  const [, back] = tx.func.vjp(square, z);
  expect(await along.tolist()).toEqual({ re: 5, im: 0 }); // 2 z v
  expect(await (back(v) as unknown as [tx.Tensor])[0].tolist()).toEqual({ re: -3, im: -4 }); // conj(2 z) v
});

test('stft without complex results has their parts', async () => {
  const x = tx.arange(20, { dtype: 'f32' });
  const [parts, z] = [tx.stft(x, 8, { returnComplex: false }), tx.stft(x, 8).viewAsReal()];
  expect([parts.shape, await parts.data()]).toEqual([z.shape, await z.data()]);
});

test('frequencies are those of torch', async () => {
  const got = [tx.fft.fftfreq(5, 0.5), tx.fft.fftfreq(4), tx.fft.rfftfreq(5, 0.5)];
  for (const [i, t] of got.entries())
    ((await t.tolist()) as number[]).forEach((x, k) => expect(x).toBeCloseTo(golden.freq[i]![k]!, 6));
});

test('a program with them is compiled, learns, and is used inside scan', async () => {
  const target = tx.tensor([
    { re: 1, im: -2 },
    { re: 0.5, im: 0.5 },
  ]);
  const z = tx.zeros([2], { dtype: 'c64' }).requiresGrad_();
  const step = tx.compile(() => {
    const loss = z.sub(target).abs().square().sum();
    z.grad = null;
    loss.backward();
    tx.noGrad(() => z.sub_(z.grad!.mul(0.25)));
    return loss;
  });
  for (let i = 0; i < 40; i++) await step();
  const off = await z.sub(target).abs().amax().item();
  expect(off).toBeLessThan(1e-4);
  const spin = tx.tensor({ re: 0, im: 1 });
  const [last] = tx.scan(
    (c: tx.Tensor, _: tx.Tensor) => [c.mul(spin), c.abs()],
    tx.tensor({ re: 1, im: 0 }),
    tx.zeros([5]),
  );
  expect(await last.tolist()).toEqual({ re: 0, im: 1 });
});

test('what complex numbers do not have is refused with a sentence', async () => {
  const z = tx.tensor([{ re: 1.5, im: 0.5 }, 2]);
  expect(() => z.lt(z)).toThrow('lt: complex numbers have no order, got c64[2] and c64[2]: compare abs() or real()');
  expect(() => z.max()).toThrow('numbers that have an order');
  expect(() => z.sort()).toThrow('numbers that have an order');
  expect(() => z.argmax({ dim: 0 })).toThrow('numbers that have an order');
  expect(() => z.floor()).toThrow('real numbers');
  expect(() => z.sign()).toThrow('sgn()');
  expect(() => z.var()).toThrow('real numbers');
  expect(() => z.erf()).toThrow('floating point numbers');
  expect(() => z.softmax(0)).toThrow('floating point numbers');
  expect(() => z.requiresGrad_().mul(2).sum().backward()).toThrow('is complex: take a real loss');
  await expect(z.sum().item()).rejects.toThrow('is complex: use tolist()');
  expect(() => tx.complex(tx.ones([2]), tx.ones([2], { dtype: 'f64' }))).toThrow(
    'the same dtype for both parts, got f32[2] and f64[2]',
  );
  expect(() => tx.ones([2]).imag()).toThrow('imag: takes complex numbers');
  expect(() => tx.fft.rfft(z)).toThrow('rfft: takes real numbers');
  expect(() => tx.fft.fft(z, { size: 3 } as never)).toThrow('unknown option size');
});

test('files hold them, and meshes split them', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-complex-'));
  const z = tx.complex(tx.arange(6, { dtype: 'f32' }), tx.arange(6, { dtype: 'f32' }).neg()).reshape(3, 2);
  const at = (name: string) => path.join(folder, name);
  await tx.io.writeSafetensors(at('z.safetensors'), new Map([['z', z]]));
  expect(await tx.tensor((await tx.io.readSafetensors(at('z.safetensors'))).get('z')!).tolist()).toEqual(
    await z.tolist(),
  );
  await tx.io.writeNpz(at('z.npz'), new Map([['z', z.to('c128')]]));
  const read = (await tx.io.readNpz(at('z.npz'))).get('z')!;
  expect([read.dtype, await tx.tensor(read).tolist()]).toEqual(['c128', await z.tolist()]);
  await expect(tx.io.writeSafetensors(at('w.safetensors'), new Map([['w', z.to('c128')]]))).rejects.toThrow(
    'w: safetensors has no c128',
  );
  const data = (await z.data()) as Float32Array;
  expect(blockOf(data, [3, 2], [1, 1], [2, 1])).toEqual(Float32Array.of(3, -3, 5, -5));
  rmSync(folder, { recursive: true });
});
