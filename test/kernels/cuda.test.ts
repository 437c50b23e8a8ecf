// What programs for a GPU are made of, with TSXLA_KERNELS and without. Nothing is computed: there need not be a GPU.
import * as tx from 'tsxla';
import { Qwen3ForCausalLM } from 'tsxla/models';
import { afterEach, describe, expect, test } from 'vitest';

process.env.PJRT_DEVICE = 'cuda';
afterEach(() => {
  delete process.env.TSXLA_KERNELS;
});
const { block } = tx.kernels;

const double = (warps = 4) =>
  tx.kernel(
    function double(x, y) {
      y.store(x.load().mul(2));
    },
    (x) => {
      const rows = block([8, x.shape[1]!], (i) => [i, 0]);
      return { grid: [Math.ceil(x.shape[0]! / 8)], in: [rows], out: { of: x, ...rows }, warps, stages: 3 };
    },
  );
const x = { dtype: 'f32', shape: [20, 33] } as const;
const textOf = (kernel: (x: tx.Tensor) => tx.Tensor, platform: 'cuda' | 'cpu' = 'cuda') =>
  tx.compile((x: tx.Tensor) => kernel(x)).stablehlo([tx.empty(x.shape)], { platform });
const TRITON = '"__gpu$xla.gpu.triton"';

describe('a kernel', () => {
  test("is Triton's on a GPU where TSXLA_KERNELS=triton", () => {
    process.env.TSXLA_KERNELS = 'triton';
    const text = textOf(double());
    expect(text).toContain(`"stablehlo.custom_call"(%a0) <{call_target_name = ${TRITON}, api_version = 4 : i32`);
    expect(text).toContain('operand_layouts = [dense<[1, 0]> : tensor<2xindex>]');
    expect(text).toContain('backend_config = {debug = false, grid_x = 3 : i32, grid_y = 1 : i32, grid_z = 1 : i32');
    expect(text).toContain('name = "double", num_stages = 3 : i32, num_warps = 4 : i32}');
    expect(text).toContain('sym_name = \\22double\\22');
    expect(textOf(double(), 'cpu')).not.toContain(TRITON);
  });
  test('is StableHLO without', () => {
    expect(textOf(double())).not.toContain(TRITON);
  });
  test('is StableHLO where Triton cannot take it', () => {
    process.env.TSXLA_KERNELS = 'triton';
    expect(textOf(double(3))).not.toContain(TRITON);
  });
  test('whose result is not written everywhere is given zeros, which become the result', () => {
    process.env.TSXLA_KERNELS = 'triton';
    const some = tx.kernel((x, y) => y.store(x.load(), { mask: x.load().gt(0) }), { grid: [1], out: { of: x } });
    expect(textOf(some)).toContain(
      'output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]',
    );
  });
  test('of another name is an error', () => {
    process.env.TSXLA_KERNELS = 'tritn';
    expect(() => textOf(double())).toThrow('TSXLA_KERNELS=tritn: there is no tritn: it takes triton, heads');
  });
});

describe('a model', () => {
  const config = {
    vocabSize: 32,
    hiddenSize: 32,
    intermediateSize: 64,
    numHiddenLayers: 2,
    numAttentionHeads: 4,
    numKeyValueHeads: 2,
    headDim: 8,
  };
  const kernelsOf = (grads: boolean) => {
    const model = new Qwen3ForCausalLM(config);
    const step = tx.compile((ids: tx.Tensor) => {
      const loss = model.forward(ids).float().square().mean();
      return grads ? tx.grad(loss, [...model.parameters()]) : [loss];
    });
    const text = step.stablehlo([tx.zeros([2, 5], { dtype: 'i32' })], { platform: 'cuda' });
    return [...text.matchAll(/ name = "(heads\w*)"/g)].map((m) => m[1]).sort();
  };
  test('has a kernel for the heads of each layer, and for their gradients, with TSXLA_KERNELS=heads', () => {
    expect(kernelsOf(false)).toEqual([]);
    process.env.TSXLA_KERNELS = 'heads';
    expect(kernelsOf(false)).toEqual(['heads', 'heads']);
    expect(kernelsOf(true)).toEqual(['heads', 'heads', 'headsBackward', 'headsBackward']);
  });
});
