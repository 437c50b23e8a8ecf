// Every sample of torch's optimizer database, in f32 and f64. The quick suite runs a selection.
import { expect, test } from 'vitest';
import { all, surprises } from '../optim/optiminfo.js';

test('every sample is what torch computes, or listed with a reason', async () => {
  expect(await surprises(all)).toEqual([]);
});
