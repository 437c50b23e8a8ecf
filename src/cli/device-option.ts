// The options --device and --dtype of commands that compute.
import { type Command, Option } from 'commander';
import type { DType } from '../base/dtype.js';
import { captureSources } from '../ir/source.js';
import { DEVICE_TYPES } from '../plugins/index.js';
import { chooseDevice, device } from '../runtime/device.js';

type Name = Parameters<typeof device>[0] & string;

/** Adds `--device` to a command: the device is chosen before the command runs, and one that does not exist is an error. */
export const withDevice = (command: Command): Command =>
  command
    .addOption(
      new Option(
        '--device <name>',
        'device to compute on; auto: PJRT_DEVICE if set, else a TPU, else a GPU, else the CPU',
      )
        .choices(['auto', ...DEVICE_TYPES] satisfies Name[])
        .default('auto'),
    )
    .hook('preAction', () => {
      captureSources(false); // there is no user code to point at
      device(command.opts<{ device: Name }>().device);
    });

export const dtypeOption = (): Option =>
  new Option(
    '--dtype <dtype>',
    "dtype to compute in. Default: that of the files; on a CPU f32, since XLA's bf16 is slow there",
  ).choices(['f32', 'bf16', 'f16']);

/** The dtype to compute in, if it differs from that of the files. */
export const computeIn = (dtype: DType | undefined): { readonly dtype?: DType } =>
  dtype ? { dtype } : chooseDevice().device === 'cpu' ? { dtype: 'f32' } : {};
