// Models and files: what torch trained is loaded by name, what is saved here is loaded again.
import path from 'node:path';
import * as tx from 'tsxla';
import type { HostArray } from 'tsxla/io';
import { expect, test } from 'vitest';
import { expected, golden, temporaryFolder, toldAll } from './files.js';

const dir = temporaryFolder();
const make = () => new tx.nn.Sequential(new tx.nn.Linear(3, 4), new tx.nn.BatchNorm1d(4));
const valuesOf = async (model: tx.nn.Module) => {
  const file = path.join(dir, 'values.safetensors');
  await tx.io.writeSafetensors(file, model.stateDict());
  return toldAll(await tx.io.readSafetensors(file));
};

test("a checkpoint of torch's, by name, with nothing missing or left over", async () => {
  const checkpoint = (await tx.io.readTorch(golden('checkpoint.pt'))) as Map<string, Map<string, HostArray>>;
  const model = make();
  expect(model.loadStateDict(checkpoint.get('model')!)).toEqual({ missing: [], unexpected: [] });
  expect(await valuesOf(model)).toEqual(expected['checkpoint.pt'].model);
});

test('a model that was only described is saved with one program, and loaded again', async () => {
  const model = make();
  const compiles = () => tx.metrics.counter('UncachedCompile') ?? 0;
  const before = compiles();
  await tx.io.writeSharded(path.join(dir, 'model'), model.stateDict(), { maxShardBytes: 40 });
  expect(compiles() - before).toBe(1);
  const other = make();
  other.loadStateDict(await tx.io.readAll(await tx.io.openSharded(path.join(dir, 'model'))));
  expect(await valuesOf(other)).toEqual(await valuesOf(model));
  expect(await valuesOf(make())).not.toEqual(await valuesOf(model));
});
