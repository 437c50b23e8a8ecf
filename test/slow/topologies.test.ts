// The table of chips against libtpu itself.
import { askTopologies, CHIPS, parseTopology } from 'tsxla/plan';
import { expect, test } from 'vitest';

test('libtpu takes every slice of the table, and says the same of its devices and their memory', async () => {
  const slices = CHIPS.filter((c) => c.platform === 'tpu').flatMap((c) =>
    c.slices.map((s) => parseTopology(`${c.name}:${s}`)),
  );
  const small = slices.filter((s) => s.devices <= 512);
  const known = await askTopologies(small.map((s) => s.name));
  for (const { name, chip, devices } of small) {
    expect(known.get(name), name).toMatchObject({ kind: chip.kind, devices });
    const { available } = known.get(name) as { available: number };
    expect(Math.abs(available / chip.hbm.available - 1), name).toBeLessThan(1e-4); // a little less on larger slices
  }
  expect((await askTopologies(['v9:1x1'])).get('v9:1x1')).toMatch(/v9/);
});
