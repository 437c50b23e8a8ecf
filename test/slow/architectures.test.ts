// Every architecture in the ways of computing its layers that the quick suite leaves out (test/models/architectures.test.ts).
import { describe } from 'vitest';
import { quickLayers, testGradients, testGreedy } from '../models/architecture-cases.js';
import { NAMES } from '../models/architectures.js';

describe.each(NAMES)('%s', (name) => {
  for (const layers of ['one by one', 'as a loop', 'with light checkpoints'] as const)
    if (layers !== quickLayers(name)) testGradients(name, layers);
  testGreedy(name, 'one by one');
});
