// All of PyTorch's operator database, if its golden file was made: scripts/golden/opinfo.py test/golden/opinfo-all.gz
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readGolden } from '../opinfo/golden.js';
import { replay } from '../opinfo/replay.js';
import { judge } from '../opinfo/report.js';
import { goldenPath } from '../support.js';

const file = goldenPath('opinfo-all.gz');
test.runIf(existsSync(file))('what differs from torch has a reason, and every reason is true', async () => {
  expect(judge(await replay(readGolden(file)), true)).toEqual({ unexplained: [], stale: [] });
});
