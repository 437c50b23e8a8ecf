// Topology: devices that a plugin can compile for without having them.
import { Api } from './api.js';
import { DeviceDescription } from './device.js';
import { Executable } from './executable.js';
import { Owner } from './handle.js';
import { type CompileOptions, encodeCompileOptions } from './options.js';
import { devicesOf, encodeProgram, type Program } from './program.js';
import { readPointers, readString } from './struct.js';
import { encodeOptions, type Options } from './values.js';

export class Topology extends Owner {
  readonly platform: string;
  readonly devices: readonly DeviceDescription[];

  private constructor(
    api: Api,
    address: bigint,
    readonly name: string,
  ) {
    super(api, address, 'PJRT_TopologyDescription_Destroy');
    const platform = api.call('PJRT_TopologyDescription_PlatformName', { topology: address });
    const list = api.call('PJRT_TopologyDescription_GetDeviceDescriptions', { topology: address });
    this.platform = readString(platform.get('platform_name'), platform.get('platform_name_size'));
    this.devices = readPointers(list.get('descriptions'), list.get('num_descriptions')).map(
      (description) => new DeviceDescription(this, description),
    );
  }

  /** Creates a topology by the plugin's own name for it, such as 'v6e:2x2'. */
  static create(plugin: Api | string, name: string, options: Options = {}): Topology {
    const api = typeof plugin === 'string' ? Api.load(plugin) : plugin;
    const list = encodeOptions(options);
    const text = Buffer.from(name);
    const s = api.call('PJRT_TopologyDescription_Create', {
      topology_name: text,
      topology_name_size: text.length,
      create_options: list,
      num_options: list.count,
    });
    return new Topology(api, s.get('topology'), name);
  }

  /** Compiles ahead of time: the executable has memory and cost, and can be serialized, but not run. */
  async compile(program: Program, options: CompileOptions = {}): Promise<Executable> {
    const compile_options = encodeCompileOptions({ ...devicesOf(program), ...options }, this);
    return this.ledger.during(async () => {
      const s = await this.api.callAsync('PJRT_Compile', {
        topology: this.address,
        program: encodeProgram(program),
        compile_options,
        compile_options_size: compile_options.length,
      });
      return new Executable(this, ['PJRT_Executable_Destroy', s.get('executable')]);
    });
  }

  override describe(): string {
    return `topology ${this.name}`;
  }
}
