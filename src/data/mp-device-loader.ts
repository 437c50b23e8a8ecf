// torch_xla.distributed.parallel_loader's MpDeviceLoader, for code ported from PyTorch/XLA.
import { ArgumentError } from '../base/errors.js';
import { endLoaderStep } from '../step/sync.js';
import { DataLoader, type Loader, type LoaderState } from './loader.js';
import { type InputSharding, splitInput } from './sharding.js';

export interface MpDeviceLoaderOptions {
  /** How batches are split over a mesh: torch_xla's input_sharding. */
  readonly inputSharding?: InputSharding;
}

/**
 * A DataLoader whose loop ends a step with each batch, as in PyTorch/XLA: pending changes are computed (tx.sync). The DataLoader
 * itself brings batches to the device.
 */
export class MpDeviceLoader<B> implements Loader<B> {
  constructor(
    readonly loader: Loader<B>,
    device: { toString(): string } = 'xla:0',
    { inputSharding }: MpDeviceLoaderOptions = {},
  ) {
    if (!/^xla(:0)?$/.test(String(device)))
      throw new ArgumentError(`MpDeviceLoader: no device ${device}: a process computes on one, xla:0`);
    if (!inputSharding) return;
    if (!(loader instanceof DataLoader))
      throw new ArgumentError('MpDeviceLoader: inputSharding needs a DataLoader, which sends each device its part');
    if (loader.split)
      throw new ArgumentError(
        "MpDeviceLoader: inputSharding and the DataLoader's sharding are both set: give one of them",
      );
    loader.split = splitInput(inputSharding);
  }
  get length(): number | undefined {
    return this.loader.length;
  }
  get epoch(): number {
    return this.loader.epoch;
  }
  state(): LoaderState {
    return this.loader.state();
  }
  load(state: LoaderState): void {
    this.loader.load(state);
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<B, void, undefined> {
    for await (const batch of this.loader) {
      yield batch;
      await endLoaderStep();
    }
  }
}
