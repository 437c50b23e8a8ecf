// What commands that compute share: on what, and in what.
import { type Command, Option } from 'commander';
import type { DType } from '../base/dtype.js';
import { captureSources } from '../ir/source.js';
import { chooseDevice, device } from '../runtime/device.js';

type Name = Parameters<typeof device>[0] & string;

/** The command with `--device`: it is chosen before the command begins, and one that is not there is an error then. */
export const withDevice = (command: Command): Command =>
  command
    .addOption(
      new Option('--device <name>', 'compute on this; auto: PJRT_DEVICE if set, else a TPU, else a GPU, else the CPU')
        .choices(['auto', 'cpu', 'cuda', 'tpu'] satisfies Name[])
        .default('auto'),
    )
    .hook('preAction', () => {
      captureSources(false); // there is no code of a user's to point at
      device(command.opts<{ device: Name }>().device);
    });

export const dtypeOption = (): Option =>
  new Option(
    '--dtype <dtype>',
    "compute in this; the files' own unless told, on a CPU f32, as XLA's bf16 is slow there",
  ).choices(['f32', 'bf16', 'f16']);

/** What to compute in, where it is not as the files say. */
export const computeIn = (dtype: DType | undefined): { readonly dtype?: DType } =>
  dtype ? { dtype } : chooseDevice().device === 'cpu' ? { dtype: 'f32' } : {};
