// What drawing says when it is misused.
import * as tx from 'tsxla';
import { testMisuses } from './misuse.js';

const p = tx.ones([4]);
const cases: readonly [name: string, run: () => unknown, text: string][] = [
  [
    'a seed that is not an integer',
    () => tx.manualSeed(1.5),
    'manualSeed: the seed is 1.5: it must be a 64-bit integer',
  ],
  [
    'a seed too large',
    () => new tx.Generator(2n ** 64n),
    'Generator: the seed is 18446744073709551616: it must be a 64-bit integer',
  ],
  ['a state of another type', () => new tx.Generator().setState(p), 'setState: the state must be u32[4], got f32[4]'],
  ['a negative size', () => tx.randn(2, -1), 'randn: [2, -1] is not a shape: -1 is not a size'],
  [
    'integers from rand',
    () => tx.rand([2], { dtype: 'i32' }),
    'rand: dtype is i32: it must be a float dtype. Use randint for integers',
  ],
  [
    'integers like others',
    () => tx.randnLike(tx.tensor([1])),
    'randnLike: dtype is i64: it must be a float dtype. Use randint for integers',
  ],
  ['an empty range', () => tx.randint(3, 3, [2]), 'randint: low 3 and high 3 must be whole numbers, with low < high'],
  [
    'a range the dtype cannot hold',
    () => tx.randint(0, 300, [2], { dtype: 'u8' }),
    'randint: u8 holds 0 to 255, not all from 0 to 300',
  ],
  [
    'normal without a shape',
    () => tx.normal(0, 1),
    'normal: mean and std are numbers: pass a shape, { shape: [2, 3] }',
  ],
  ['a negative deviation', () => tx.normal(0, -1, { shape: [2] }), 'normal: std is -1: it must not be negative'],
  [
    'integer probabilities',
    () => tx.bernoulli(tx.tensor([1])),
    'bernoulli: probabilities must be floats, got i64[1]: use float()',
  ],
  [
    'a permutation of fewer than none',
    () => tx.randperm(-1),
    'randperm: n is -1: it must be a whole number, at least 0',
  ],
  [
    'more samples than there are',
    () => tx.multinomial(p, 5),
    'multinomial: cannot draw 5 different samples of 4: pass { replacement: true }, or draw fewer',
  ],
  [
    'integer weights',
    () => tx.multinomial(tx.tensor([1, 2]), 1),
    'multinomial: probabilities must be floats, got i64[2]: use float()',
  ],
  ['no samples', () => tx.multinomial(p, 0), 'multinomial: numSamples is 0: it must be a whole number, at least 1'],
  [
    'a cube of probabilities',
    () => tx.multinomial(tx.ones([2, 2, 2]), 1),
    'multinomial: takes one row of probabilities or several, [k] or [n, k], got f32[2, 2, 2]',
  ],
  ['no probability', () => tx.dropout(p, { p: 1.5 }), 'dropout: p is 1.5: a probability is between 0 and 1'],
  ['uniform_ the wrong way round', () => tx.ones([2]).uniform_(2, 1), 'uniform_: from 2 is above to 1'],
  ['exponential_ without events', () => tx.ones([2]).exponential_(0), 'exponential_: lambd is 0: it must be above 0'],
];

testMisuses(cases);
