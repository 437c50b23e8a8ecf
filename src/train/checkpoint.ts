// A checkpoint: a folder with whatever a loop needs to go on. What is in it is the user's business; `save` and `load` fill and
// read one with anything that has a state.
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

  /** The folder as it is: it is copied when it is reported. */
  static fromDirectory(path: string): Checkpoint {
    if (typeof path !== 'string')
      throw new ArgumentError(`Checkpoint: takes the path of a folder, got ${describe(path)}`);
    if (!fs.statSync(path, { throwIfNoEntry: false })?.isDirectory())
      throw new CheckpointError(`Checkpoint: there is no folder ${path}`);
    return new Checkpoint(path);
  }

  /** One that another machine kept, whose folder this one may not see. */
  static at(path: string): Checkpoint {
    return new Checkpoint(path);
  }

  /**
   * Saves these (models, optimizers, loaders, plain values, by name) in a new folder, to be reported; reporting moves it. Where
   * all workers have the same model, the first one saves it, and the others have nothing to report: undefined.
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

  /** Gives these the states that `save` wrote; what it gives are the plain values that were saved. */
  async load(items: Items = {}): Promise<Readonly<Record<string, unknown>>> {
    const { state: before } = defaultGenerator;
    const found = await new CheckpointManager(this.path, { readOnly: true }).load(items);
    if (!found)
      throw new CheckpointError(`${this.path} has nothing that Checkpoint.save wrote: read its files yourself`);
    // A worker that has a seed of its own keeps it, and has drawn as often as the first one, whose state was saved.
    if (isSavedFor()) defaultGenerator.setState(cat([before.narrow(0, 0, 2), defaultGenerator.state.narrow(0, 2, 2)]));
    return found.values;
  }

  /** A copy of its files. */
  async toDirectory(path: string): Promise<string> {
    await fsp.cp(this.path, path, { recursive: true });
    return path;
  }
  toString(): string {
    return `Checkpoint(${this.path})`;
  }
}
