// The linter on the whole repository: examples, tests, benches, scripts and the package itself.
import { expect, test } from 'vitest';
import { tsxla } from '../support.js';

test('tsxla lint finds nothing in this repository', async () => {
  const { status, stdout } = await tsxla([
    'lint',
    'examples/**/*.ts',
    'test/**/*.ts',
    'bench/**/*.ts',
    'scripts/**/*.ts',
    'src/**/*.ts',
  ]);
  expect([stdout, status]).toEqual([expect.stringMatching(/^0 findings in \d+ files\n$/), 0]);
});
