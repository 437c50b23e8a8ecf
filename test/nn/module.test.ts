// Modules: their members, names, modes, state dicts, and what they look like.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

const { nn } = tx;
process.env['TSXLA_LOG'] = 'quiet';

class Block extends nn.Module {
  readonly qProj = new nn.Linear(2, 2, { bias: false });
  readonly scale = new nn.Parameter(tx.ones([2]));
  readonly seen = new nn.Buffer(tx.zeros([2]));
  readonly scratch = new nn.Buffer(tx.zeros([3]), { persistent: false });
  readonly parts = [new nn.Linear(2, 1), [new nn.Parameter(tx.zeros([4]))]] as const;
  override forward(x: tx.Tensor): tx.Tensor {
    return this.qProj.forward(x).mul(this.scale);
  }
}
class Net extends nn.Module {
  readonly layers = new nn.ModuleList([new Block(), new Block()]);
  readonly byName = new nn.ModuleDict({ last: new nn.Linear(2, 3) });
}
const programs = () => tx.metrics.counter('UncachedCompile') ?? 0;

describe('members', () => {
  test("fields are members, by names in torch's spelling; lists of them count too", () => {
    expect([...new Block().namedParameters().keys()]).toEqual([
      'scale',
      'parts.1.0',
      'q_proj.weight',
      'parts.0.weight',
      'parts.0.bias',
    ]);
    const net = new Net();
    expect([...net.namedModules()].map(([name]) => name)).toEqual([
      '',
      'layers',
      'layers.0',
      'layers.0.q_proj',
      'layers.0.parts.0',
      'layers.1',
      'layers.1.q_proj',
      'layers.1.parts.0',
      'by_name',
      'by_name.last',
    ]);
    expect([...net.namedBuffers().keys()]).toEqual([
      'layers.0.seen',
      'layers.0.scratch',
      'layers.1.seen',
      'layers.1.scratch',
    ]);
    expect(net.getSubmodule('layers.1.q_proj')).toBe(net.layers.at(1).qProj);
    expect(() => net.getSubmodule('layers.2')).toThrow(
      'Net has no module layers.2: it has layers, layers.0, layers.0.q_proj,',
    );
  });

  test('list[0] says what to write', () => {
    const list = new nn.ModuleList([new nn.Linear(1, 1)]);
    expect(() => (list as never as tx.nn.Layer[])[0]).toThrow('ModuleList[0]: write list.at(0)');
    expect(() => (new nn.Sequential(new nn.ReLU()) as never as tx.nn.Layer[]).at(0)).not.toThrow();
    expect(() => (new nn.Sequential(new nn.ReLU()) as never as tx.nn.Layer[])[0]).toThrow(
      'Sequential[0]: write list.at(0)',
    );
  });

  test('modules where they would not be found are an error', () => {
    class Hidden extends nn.Module {
      readonly heads = new Map([['a', new nn.Linear(1, 1)]]);
    }
    expect(() => new Hidden().parameters()).toThrow(
      'Hidden.heads holds modules or parameters in a Map, which is not searched: use an array, nn.ModuleList or nn.ModuleDict',
    );
    class Plain extends nn.Module {
      readonly heads = { a: new nn.Parameter(tx.ones([1])) };
    }
    expect(() => new Plain().stateDict()).toThrow('Plain.heads holds modules or parameters in an object, which');
  });

  test('containers say what is not there', () => {
    const net = new Net();
    expect(() => net.layers.at(2)).toThrow('ModuleList: no module 2: it has 2 modules');
    expect(() => net.byName.get('first')).toThrow('ModuleDict: no module first: it has last');
    expect(() => new nn.ModuleDict({ 'a.b': new nn.ReLU() })).toThrow('dots separate names');
    expect(() => new nn.ModuleList([tx.ones([1]) as never])).toThrow('ModuleList: element 0 is a Tensor, not a module');
    expect([...net.byName].map(([name]) => name)).toEqual(['last']);
    expect(net.layers.at(-1)).toBe(net.layers.at(1));
  });

  test('a module is put in the place of another, in fields, lists and containers', () => {
    const net = new Net();
    const other = new nn.Linear(2, 3);
    net.setSubmodule('by_name.last', other);
    expect(net.byName.get('last')).toBe(other);
    net.setSubmodule('layers.0.q_proj', other);
    expect(net.layers.at(0).qProj).toBe(other);
    net.setSubmodule('layers.0.parts.0', other);
    expect(net.layers.at(0).parts[0]).toBe(other);
    const block = new Block();
    net.setSubmodule('layers.1', block);
    expect(net.layers.at(1)).toBe(block);
  });

  test('apply goes through all modules, innermost first', () => {
    const seen: string[] = [];
    new Net().apply((m) => void seen.push(m.constructor.name));
    expect(seen).toEqual([
      'Linear',
      'Linear',
      'Block',
      'Linear',
      'Linear',
      'Block',
      'ModuleList',
      'Linear',
      'ModuleDict',
      'Net',
    ]);
  });

  test('a shared parameter counts once, and has two names in state dicts, of which one is enough', async () => {
    class Tied extends nn.Module {
      readonly embed = new nn.Embedding(3, 2);
      readonly head = new nn.Linear(2, 3, { bias: false });
      constructor() {
        super();
        Object.assign(this.head, { weight: this.embed.weight });
      }
    }
    const tied = new Tied();
    expect([...tied.namedParameters().keys()]).toEqual(['embed.weight']);
    expect([...tied.stateDict().keys()]).toEqual(['embed.weight', 'head.weight']);
    tied.loadStateDict({ 'head.weight': tx.full([3, 2], 7) });
    expect(await tied.embed.weight.sum().item()).toBe(42);
  });
});

describe('state dicts', () => {
  test('all that does not fit is in one error, and nothing was changed', async () => {
    const block = new Block();
    const before = await block.scale.tolist();
    const state = {
      scale: tx.full([2], 5),
      seen: tx.zeros([3]),
      extra: tx.zeros([1]),
      'parts.0.weight': tx.zeros([1, 2]),
      'parts.1.0': tx.zeros([4]),
    };
    expect(() => block.loadStateDict(state)).toThrow(
      [
        'Error(s) in loading state_dict for Block:',
        'Missing key(s) in state_dict: "q_proj.weight", "parts.0.bias".',
        'Unexpected key(s) in state_dict: "extra".',
        'size mismatch for seen: [3] in the state dict, [2] here.',
      ].join('\n\t'),
    );
    expect(await block.scale.tolist()).toEqual(before);
    try {
      block.loadStateDict(state);
    } catch (error) {
      expect(error).toBeInstanceOf(tx.StateDictError);
      expect((error as tx.StateDictError).keys).toEqual({
        missing: ['q_proj.weight', 'parts.0.bias'],
        unexpected: ['extra'],
        misshapen: ['seen'],
      });
    }
  });

  test('leniently, names may be missing or left over, but shapes must fit', async () => {
    const block = new Block();
    const keys = block.loadStateDict({ scale: tx.full([2], 5), extra: tx.zeros([1]) }, { strict: false });
    expect(keys.unexpected).toEqual(['extra']);
    expect(keys.missing).toContain('q_proj.weight');
    expect(await block.scale.tolist()).toEqual([5, 5]);
    expect(() => block.loadStateDict({ scale: tx.ones([3]) }, { strict: false })).toThrow('size mismatch for scale');
  });

  test('values take the dtype of the module, parameters stay parameters, and what was given is not shared', async () => {
    const layer = new nn.Linear(2, 1).bfloat16();
    const weight = tx.tensor([[1.5, 2.5]]);
    layer.loadStateDict(
      new Map<string, tx.nn.StateValue>([
        ['weight', weight],
        ['bias', { dtype: 'f64', shape: [1], data: Float64Array.of(0.5) }],
      ]),
    );
    expect([layer.weight.dtype, layer.weight.requiresGrad, layer.weight instanceof nn.Parameter]).toEqual([
      'bf16',
      true,
      true,
    ]);
    expect(await layer.forward(tx.ones([1, 2], { dtype: 'bf16' })).tolist()).toEqual([[4.5]]);
    weight.zero_();
    expect(await layer.weight.tolist()).toEqual([[1.5, 2.5]]);
    expect(() =>
      layer.loadStateDict({ weight, bias: { dtype: 'f32', shape: [1], data: new Float32Array(2) } }),
    ).toThrow('loadStateDict: bias is f32[1] and has 2 elements');
    expect(await layer.weight.tolist()).toEqual([[1.5, 2.5]]); // nothing was changed before the error
  });

  test('what one module saves another loads, and buffers that do not persist are left out', async () => {
    const [a, b] = [new Block(), new Block()];
    expect(a.stateDict().has('scratch')).toBe(false);
    b.loadStateDict(a.stateDict());
    expect(await b.qProj.weight.tolist()).toEqual(await a.qProj.weight.tolist());
  });
});

describe('what is learned', () => {
  test('freezing by pattern: a text with *, a regular expression, a function', () => {
    const net = new Net();
    const learned = () => [...net.namedParameters()].filter(([, p]) => p.requiresGrad).map(([name]) => name);
    const all = learned().length;
    net.freeze('layers.0.*');
    expect(learned()).toHaveLength(all - 5);
    net.unfreeze(/q_proj/);
    expect(learned()).toContain('layers.0.q_proj.weight');
    net.freeze((_, p) => p.ndim === 1);
    expect(learned()).toEqual([
      'layers.0.q_proj.weight',
      'layers.1.q_proj.weight',
      'layers.1.parts.0.weight',
      'by_name.last.weight',
    ]);
    net.freeze();
    expect(learned()).toEqual([]);
    net.unfreeze('by_name.last.bias');
    expect(learned()).toEqual(['by_name.last.bias']);
    expect(() => net.freeze('last')).toThrow(
      'freeze: no parameter of Net matches last: its parameters include layers.0.scale, layers.0.parts.1.0,',
    );
  });

  test('no gradient reaches what is frozen, and the compiled step notices', async () => {
    const layer = new nn.Linear(2, 1);
    const step = tx.compile((x: tx.Tensor) => {
      layer.zeroGrad();
      layer.forward(x).sum().backward();
    });
    await step(tx.ones([3, 2]));
    expect(layer.weight.grad).not.toBeNull();
    layer.freeze('weight');
    await step(tx.ones([3, 2]));
    expect(layer.weight.grad).toBeNull();
    expect(await layer.bias!.grad!.tolist()).toEqual([3]);
  });
});

describe('modes and dtypes', () => {
  test('train and eval reach all modules, and are a program each', async () => {
    const net = new nn.Sequential(new nn.Linear(2, 2), new nn.Sequential(new nn.Dropout(1)));
    const run = tx.compile((x: tx.Tensor) => net.forward(x).abs().sum());
    const x = tx.ones([1, 2]);
    await tx.sync(...net.parameters(), x);
    const before = programs();
    expect(await (await run(x)).item()).toBe(0);
    net.eval();
    expect(net.modules().map((m) => m.training)).toEqual([false, false, false, false]);
    expect(await (await run(x)).item()).toBeGreaterThan(0);
    net.train();
    expect(await (await run(x)).item()).toBe(0);
    net.eval();
    await run(x);
    expect(programs() - before).toBe(2); // and none for going back
  });

  test('to converts floats only, gradients too, and says what cannot be', async () => {
    const norm = new nn.BatchNorm1d(2);
    norm
      .forward(tx.ones([3, 2]))
      .sum()
      .backward();
    expect(norm.to('bf16')).toBe(norm);
    const dtypes = Object.fromEntries([...norm.stateDict()].map(([name, t]) => [name, t.dtype]));
    expect(dtypes).toEqual({
      weight: 'bf16',
      bias: 'bf16',
      running_mean: 'bf16',
      running_var: 'bf16',
      num_batches_tracked: 'i64',
    });
    expect(norm.weight!.grad!.dtype).toBe('bf16');
    expect(norm.weight!.requiresGrad).toBe(true);
    expect(norm.double().weight!.dtype).toBe('f64');
    expect(norm.to('cpu')).toBe(norm);
    expect(() => norm.to('i32')).toThrow(
      'BatchNorm1d.to: parameters cannot be converted to i32: it must be a float dtype',
    );
    expect(() => norm.to('float')).toThrow("BatchNorm1d.to: dtype 'float' is written 'f32'");
    await tx.sync();
    expect(() => norm.to('tpu')).toThrow('device: cannot switch to tpu, since tensors are already computed on cpu');
  });

  test('initial values that are loaded over are never computed', async () => {
    const before = programs();
    const net = new nn.Linear(2, 1);
    net.loadStateDict({
      weight: { dtype: 'f32', shape: [1, 2], data: Float32Array.of(1, 2) },
      bias: { dtype: 'f32', shape: [1], data: Float32Array.of(3) },
    });
    expect(await net.weight.tolist()).toEqual([[1, 2]]);
    expect(programs()).toBe(before);
  });
});

test('it is printed as a tree, with equal neighbours once, and counts', () => {
  const net = new nn.Sequential(
    new nn.Conv2d(1, 4, 3, { padding: 1, bias: false }),
    new nn.BatchNorm2d(4),
    new nn.LeakyReLU(0.2),
    new nn.Sequential(new nn.Linear(4, 4), new nn.Linear(4, 4), new nn.GELU()),
    new nn.LSTM(4, 2, { bidirectional: true }) as never,
  );
  net.freeze('0.weight');
  expect(String(net)).toBe(`Sequential(
  (0): Conv2d(1, 4, kernelSize=[3, 3], stride=[1, 1], padding=[1, 1], bias=false)
  (1): BatchNorm2d(4, eps=0.00001, momentum=0.1, affine=true, trackRunningStats=true)
  (2): LeakyReLU(negativeSlope=0.2)
  (3): Sequential(
    (0-1): 2 x Linear(inFeatures=4, outFeatures=4, bias=true)
    (2): GELU(approximate=none)
  ) # 40
  (4): LSTM(4, 2, bidirectional=true)
) # 212
212 parameters (848 B), 176 of them trained`);
});

test('a module without a forward says so', () => {
  expect(() => (new nn.Module().forward as () => void)()).toThrow(
    'Module has no forward: write forward(x: Tensor): Tensor',
  );
});

describe('layers that are made wrongly say so', () => {
  const wrong: readonly [make: () => unknown, says: string][] = [
    [() => new nn.Linear(0, 2), 'Linear: inFeatures is 0: it must be a whole number, at least 1'],
    [() => new nn.Linear(2, 2, { bais: false } as never), "Linear: there is no option 'bais': it takes bias"],
    [() => new nn.Conv2d(3, 4, 3, { groups: 2 }), 'Conv2d: groups 2 must divide inChannels 3 and outChannels 4'],
    [() => new nn.Conv1d(3, 4, [3, 3]), 'Conv1d: kernelSize is [3, 3]: give one number, or 1'],
    [() => new nn.Conv2d(1, 1, 3, { padding: 'same', stride: 2 }), "Conv2d: padding 'same' needs stride 1, got [2, 2]"],
    [
      () => new nn.Conv2d(1, 1, 3, { paddingMode: 'mirror' as never }),
      "Conv2d: paddingMode is 'mirror': use 'zeros', 'reflect', 'replicate' or 'circular'",
    ],
    [
      () => new nn.ConvTranspose1d(1, 1, 3, 2).forward(tx.ones([1, 1, 4]), [20]),
      'ConvTranspose1d: outputSize is [20]: for f32[1, 1, 4] it must be [9] to [10]',
    ],
    [() => new nn.Dropout(2), 'Dropout: p is 2: a probability is between 0 and 1'],
    [() => new (nn.Softmax as unknown as new () => unknown)(), 'Softmax: dim is missing: write new Softmax(dim)'],
    [() => new (nn.Tanh as unknown as new (x: boolean) => unknown)(true), 'Tanh: takes no options, got 1 argument'],
    [() => new nn.LeakyReLU({ slope: 1 } as never), "LeakyReLU: there is no option 'slope': it takes negativeSlope"],
    [() => new nn.BatchNorm2d(3).forward(tx.ones([2, 3])), 'BatchNorm2d: takes 4 dimensions, got f32[2, 3]'],
    [
      () => new nn.BatchNorm1d(3).forward(tx.ones([2, 4])),
      'batchNorm: runningMean is f32[3]: f32[2, 4] has channels [4]',
    ],
    [
      () => new nn.BatchNorm1d(3).forward(tx.ones([1, 3])),
      'batchNorm: training needs more than 1 value per channel, got f32[1, 3]',
    ],
    [
      () => new nn.InstanceNorm1d(3).forward(tx.ones([2, 3, 1])),
      'instanceNorm: training needs more than 1 spatial element, got f32[2, 3, 1]',
    ],
    [() => new nn.GroupNorm(2, 3), 'GroupNorm: numGroups 2 does not divide numChannels 3'],
    [() => tx.groupNorm(tx.ones([1, 3]), 2), 'groupNorm: 2 groups do not divide the 3 channels of f32[1, 3]'],
    [() => tx.localResponseNorm(tx.ones([1, 3]), 2), 'localResponseNorm: takes [N, C, ...space], got f32[1, 3]'],
    [() => tx.normalize(tx.tensor([1, 2])), 'normalize: takes floats, got i64[2]: use float()'],
    [
      () => tx.batchNorm(tx.ones([2, 3]), null, null),
      'batchNorm: of f32[2, 3]: give runningMean and runningVar, or use the statistics of the input',
    ],
    [() => tx.dropout2d(tx.ones([2])), 'dropout2d: takes 4 dimensions, [N, C, ...space], or 3, got f32[2]'],
    [() => new nn.LSTM(3, 2, { projSize: 2 }), 'LSTM: projSize is 2: it must be less than hiddenSize, 2'],
    [() => new nn.LSTM(3, 2).forward(tx.ones([4, 2, 5])), 'LSTM: takes [L, N, 3], or that without N, got f32[4, 2, 5]'],
    [
      () => new nn.GRU(3, 2).forward(tx.ones([4, 2, 3]), tx.ones([2, 2, 2])),
      'GRU: the first state is f32[2, 2, 2]: its shape must be [1, 2, 2]',
    ],
    [
      () => new nn.RNN(3, 2, { nonlinearity: 'sigmoid' as never }),
      "RNN: nonlinearity is 'sigmoid': use 'tanh' or 'relu'",
    ],
    [
      () => new nn.GRUCell(3, 2).forward(tx.ones([4, 3]), tx.ones([4, 3])),
      'GRUCell: the state is f32[4, 3]: its shape must be [4, 2]',
    ],
    [() => new nn.MultiheadAttention(5, 2), 'MultiheadAttention: numHeads 2 does not divide embedDim 5'],
    [
      () => {
        const x = tx.ones([2, 1, 4]);
        new nn.MultiheadAttention(4, 2).forward(x, x, x, { attnMask: tx.ones([3, 3]) });
      },
      'MultiheadAttention: attnMask is f32[3, 3]: it must be [2, 2] or [2, 2, 2]',
    ],
    [
      () => new nn.Embedding(3, 2, { paddingIdx: 3 }),
      'Embedding: paddingIdx is 3: it must be a row, of which there are 3',
    ],
    [
      () => new nn.EmbeddingBag(3, 2).forward(tx.tensor([1])),
      'EmbeddingBag: takes bags [N, L], or a list with offsets, got i64[1]',
    ],
  ];
  test.each(wrong)('%# %s', (make, says) => {
    expect(make).toThrow(says);
  });
});

test('an error deep inside a layer names the line that called it', () => {
  const encoder = new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(4, 2), 1);
  const net = new nn.Sequential(new nn.Sequential(encoder));
  const messageOf = (f: () => unknown) => {
    try {
      f();
    } catch (error) {
      return String(error);
    }
    return '';
  };
  expect(messageOf(() => encoder.forward(tx.ones([3, 1, 5])))).toMatch(
    /linear: .*f32\[1, 3, 5\].*\n.*module\.test\.ts:\d+/,
  );
  expect(messageOf(() => net.forward(tx.ones([3, 1, 5])))).toMatch(/linear: .*\n.*module\.test\.ts:\d+/);
});
