// A model of two equal blocks, one after the other or stacked: what holds for the one must hold for the other.

import type { Tensor } from 'tsxla';
import { nn } from 'tsxla';

export class TwoBlocks extends nn.Module {
  readonly layers: nn.LayerStack<nn.Block<[]>> | nn.Sequential;
  constructor(block: () => nn.Block<[]>, stacked: boolean) {
    super();
    const blocks = [block(), block()];
    this.layers = stacked ? new nn.LayerStack(blocks) : new nn.Sequential(...blocks);
  }
  override forward(x: Tensor): Tensor {
    return this.layers.forward(x) as Tensor;
  }
}
