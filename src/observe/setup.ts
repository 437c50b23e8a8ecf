// TSXLA_LOG=debug: logs the set-up of a run: the plugin, its environment, devices, meshes, and the shardings of parameters and
// inputs of programs.
import { DTYPES } from '../base/dtype.js';
import { bytes, plural } from '../base/format.js';
import { detail } from '../base/log.js';
import type { Aval } from '../ir/aval.js';
import { type Mesh, type Sharding, showSpec } from '../ir/mesh.js';
import type { Client, Device } from '../pjrt/index.js';
import type { FoundPlugin } from '../plugins/index.js';
import type { Computation, Request } from '../runtime/program.js';
import { startedClient } from '../runtime/value.js';

/** Environment variables read by plugins, XLA, the processes of a run, and tsxla. */
const READ =
  /^(TPU|PJRT|LIBTPU|MEGASCALE|CLOUD_TPU|XLA|PT_XLA|TSXLA|JAX|CUDA|NVIDIA|NCCL|TF_CPP|MASTER|RAY_TPU)_|^(CPU_NUM_DEVICES|ALLOW_MULTIPLE_LIBTPU_LOAD|(LOCAL_|NODE_|GROUP_)?(RANK|WORLD_SIZE))$/;
const SECRET = /TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|COOKIE|(API|ACCESS|PRIVATE|_)_?KEY/i;
/** Hides secrets in a value: flags with secrets, and the user and password of a URL. */
const hidden = (value: string): string =>
  value
    .replace(/([\w-]*(?:token|secret|password|credential|api_?key)[\w-]*[=:]\s*)[^\s,;&]+/gi, '$1...')
    .replace(/(\/\/)[^\s/@]+@/g, '$1...@');

/** The relevant variables that are set, without those named like secrets. */
export function environment(from: NodeJS.ProcessEnv = process.env): string[] {
  return Object.keys(from)
    .filter((name) => READ.test(name) && !SECRET.test(name) && from[name])
    .sort()
    .map((name) => `${name}=${hidden(from[name]!)}`);
}

export function logPlugin({ device, package: name, version, source, path }: FoundPlugin): void {
  detail(() => [
    `plugin for ${device}: ${name ? `${name} ${version ?? '(version unknown)'}` : 'package unknown'}, from ${source}: ${path}`,
    'environment:',
    ...environment().map((line) => `  ${line}`),
  ]);
}

/** The position of a TPU in its slice. */
const placeOf = ({ attributes: { coords } }: Device): string => (Array.isArray(coords) ? `(${coords.join(',')})` : '');

export function logClient(client: Client): void {
  detail(() => {
    const { platform, platformVersion, devices, addressableDevices, processIndex } = client;
    const { major, minor } = client.api.version;
    const kinds = [...new Set(devices.map((d) => d.kind))];
    const processes = new Set(devices.map((d) => d.processIndex)).size;
    return [
      `platform: ${platform}, PJRT C API ${major}.${minor}; ${platformVersion.trim().replace(/\s*\n\s*/g, '; ')}`,
      `devices: ${devices.length} (${kinds.join(', ')}), ${addressableDevices.length} of them in this process, process ${processIndex} of ${processes}`,
      ...listed(addressableDevices).map((line) => `  ${line}`),
    ];
  });
}

const MOST_DEVICES = 16;
/** Each device with its position in a slice and its memory, if known. */
function listed(devices: readonly Device[]): string[] {
  const lines = devices.slice(0, MOST_DEVICES).flatMap((device) => {
    const place = placeOf(device);
    const limit = device.memory()?.bytesLimit;
    return place || limit ? [`${device}${place && ` at ${place}`}${limit ? `, ${bytes(limit)}` : ''}`] : [];
  });
  return devices.length > MOST_DEVICES && lines.length
    ? [...lines, `and ${devices.length - MOST_DEVICES} more`]
    : lines;
}

// ---- meshes

const logged = new Set<string>();
const MOST_ROWS = 16;
/** The order of a mesh's devices, with a row for each line along the last axis. Logged once, when its devices are known. */
function meshLines(mesh: Mesh): string[] {
  const client = startedClient();
  if (!client || logged.has(mesh.key)) return [];
  logged.add(mesh.key);
  const places = new Map(client.devices.map((device) => [device.id, placeOf(device)]));
  const width = mesh.shape.at(-1)!;
  const rows = Array.from({ length: mesh.size / width }, (_, row) =>
    mesh.devices
      .slice(row * width, (row + 1) * width)
      .map((id) => `${id}${places.get(id) ?? ''}`)
      .join(' '),
  );
  const more = rows.length > MOST_ROWS ? [`and ${rows.length - MOST_ROWS} more rows`] : [];
  return [
    `mesh: shape [${mesh.shape.join(', ')}], axes [${mesh.axisNames.join(', ')}], devices in this order, ${mesh.axisNames.at(-1)} along a row:`,
    ...[...rows.slice(0, MOST_ROWS), ...more].map((row) => `  ${row}`),
  ];
}

/** A tensor with its sharding. */
interface Placed {
  readonly name?: string;
  readonly aval: Aval;
  readonly sharding: Sharding | undefined;
}

const FEW = 3;
/** A line for each sharding spec: the number of tensors, their size on a device, and the first few. */
function summary(tensors: readonly Placed[]): string[] {
  const groups = new Map<string, Placed[]>();
  for (const t of tensors) {
    const spec = !t.sharding || t.sharding.isReplicated ? 'whole on every device' : showSpec(t.sharding.axes);
    groups.set(spec, [...(groups.get(spec) ?? []), t]);
  }
  return [...groups].map(([spec, group]) => {
    const size = (shapeOf: (t: Placed) => readonly number[]) =>
      bytes(group.reduce((n, t) => n + shapeOf(t).reduce((a, b) => a * b, DTYPES[t.aval.dtype].bytes), 0));
    const all = size((t) => t.aval.shape);
    const own = size((t) => t.sharding?.shardShape(t.aval.shape) ?? t.aval.shape);
    const names = group.slice(0, FEW).map(({ name, aval }) => (name ? `${name} ${aval}` : String(aval)));
    if (group.length > FEW) names.push('...');
    return `  ${spec}: ${plural(group.length, 'tensor')}, ${all}, ${own} a device: ${names.join(', ')}`;
  });
}

/** Logs the shardings of a model's tensors. */
export function logShardings(what: string, mesh: Mesh, tensors: () => readonly Placed[]): void {
  detail(() => {
    const all = tensors();
    return [...meshLines(mesh), `${what}: ${plural(all.length, 'tensor')} over ${mesh}`, ...summary(all)];
  });
}

/** Logs the shardings of the inputs of a program on a mesh, when it is compiled. */
export function logLayout({ layout, parameters }: Computation, { name, internal }: Request): void {
  if (!layout || internal) return;
  detail(() => {
    const inputs = parameters.map(({ aval }, i) => ({ aval, sharding: layout.parameters[i] }));
    const head = `program ${name ?? 'without a name'}: ${plural(inputs.length, 'input')} over ${layout.mesh}`;
    return [...meshLines(layout.mesh), head, ...summary(inputs)];
  });
}
