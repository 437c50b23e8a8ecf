// A checkpoint: a folder with everything a loop needs to resume. Its content is up to the user; `save` and `load` write and read
// one with anything that has a state.
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { describe } from '../base/tree.js';
import { CheckpointManager, type Items } from '../io/index.js';
import { cat } from '../tensor/functions.js';
import { defaultGenerator } from '../tensor/random.js';
import { currentLoop, isSavedFor } from './loop.js';

export class Checkpoint {
  private constructor(readonly path: string) {}

  /** A checkpoint with the content of an existing folder, which is copied when the checkpoint is reported. */
  static fromDirectory(path: string): Checkpoint {
    if (typeof path !== 'string')
      throw new ArgumentError(`Checkpoint: expected the path of a folder, got ${describe(path)}`);
    if (!fs.statSync(path, { throwIfNoEntry: false })?.isDirectory())
      throw new CheckpointError(`Checkpoint: there is no folder ${path}`);
    return new Checkpoint(path);
  }

  /** A checkpoint on another machine: its folder may not be visible here. */
  static at(path: string): Checkpoint {
    return new Checkpoint(path);
  }

  /**
   * Saves the items (models, optimizers, loaders, plain values, by name) in a new folder; `report` moves the folder into the run.
   * Where all workers have the same model, only worker 0 saves it; in the others the result is undefined.
   */
  static async save(items: Items): Promise<Checkpoint | undefined> {
    const loop = currentLoop('Checkpoint.save');
    const path = await loop.newFolder();
    if (path === undefined) return undefined;
    const { step } = items;
    try {
      await using manager = new CheckpointManager(path, { background: false });
      await manager.save(Number.isSafeInteger(step) ? (step as number) : 0, items);
    } catch (e) {
      if (!(e instanceof CheckpointError)) throw e;
      const why = messageOf(e.cause ?? e);
      throw new CheckpointError(`cannot save a checkpoint of the run ${loop.spec.name}: ${why}`, { cause: e });
    }
    return new Checkpoint(path);
  }

  /** Restores the states of the items that `save` wrote. Returns the plain values that were saved. */
  async load(items: Items = {}): Promise<Readonly<Record<string, unknown>>> {
    const { state: before } = defaultGenerator;
    const found = await new CheckpointManager(this.path, { readOnly: true }).load(items);
    if (!found) throw new CheckpointError(`${this.path} was not written by Checkpoint.save: read its files yourself`);
    // Only worker 0's generator was saved. Other workers keep their own seeds, and have drawn as often as worker 0.
    if (isSavedFor()) defaultGenerator.setState(cat([before.narrow(0, 0, 2), defaultGenerator.state.narrow(0, 2, 2)]));
    return found.values;
  }

  /** Copies the files into a folder. Returns its path. */
  async toDirectory(path: string): Promise<string> {
    await fsp.cp(this.path, path, { recursive: true });
    return path;
  }
  toString(): string {
    return `Checkpoint(${this.path})`;
  }
}
