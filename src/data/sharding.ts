// Splits batches over the devices of a mesh while they are sent: every device gets its own rows.
import { ArgumentError } from '../base/errors.js';
import { describe, isPlain, leafName } from '../base/tree.js';
import { Mesh, type PartitionSpec } from '../ir/mesh.js';
import type { BatchOptions } from '../spmd/parallel.js';
import { wholeOf } from '../spmd/processes.js';
import { markSharding } from '../spmd/sharding.js';
import { batchAxes } from '../spmd/shares.js';
import { Tensor } from '../tensor/tensor.js';

/** A mesh over which batches are split. Default: rows along data and fsdp, sequences along their own axis. */
export type LoaderSharding = Mesh | (BatchOptions & { readonly mesh: Mesh });

/** torch_xla's ShardingSpec. It applies to tensors with as many dimensions as the spec; others are replicated. */
export interface ShardingSpec {
  readonly mesh: Mesh;
  readonly spec: PartitionSpec;
  /** Whether each process loads only its own rows. Default: false. */
  readonly minibatch?: boolean;
}
/** One for all tensors of a batch, or one for each key; null: replicated. */
export type InputSharding = ShardingSpec | Readonly<Record<string, ShardingSpec | null>>;

/** Splits the tensors among the leaves of a batch. */
export type Split = (leaves: readonly unknown[], paths: readonly string[]) => Promise<unknown[]>;

/** DataLoader's: rows that this process loaded. */
export function splitRows(sharding: LoaderSharding): Split {
  const { mesh, axes, sequence } = sharding instanceof Mesh ? { mesh: sharding } : (sharding ?? {});
  if (!(mesh instanceof Mesh))
    throw new ArgumentError(`DataLoader: sharding is ${describe(sharding)}: give a Mesh, or { mesh, axes, sequence }`);
  const rows = axes ?? batchAxes(mesh);
  const spec: PartitionSpec = sequence ? [rows, sequence] : [rows];
  return eachTensor((t, what) => wholeOf(t, mesh, spec.slice(0, t.ndim), `DataLoader: ${what}`));
}

/** MpDeviceLoader's. */
export function splitInput(sharding: InputSharding): Split {
  if (isSpec(sharding)) return eachTensor((t, what) => apply(t, sharding, what));
  if (!isPlain(sharding) || !Object.values(sharding).every((s) => s === null || isSpec(s)))
    throw new ArgumentError(
      `MpDeviceLoader: inputSharding is ${describe(sharding)}: give { mesh, spec }, or an object with one for each key of a batch`,
    );
  return (leaves, paths) => {
    const keys = paths.map(keyOf);
    if (keys.includes(undefined))
      throw new ArgumentError('MpDeviceLoader: input batch should be an object when inputSharding is one');
    const missing = [...new Set(keys)].filter((key) => !(key! in sharding)).map((key) => `'${key}'`);
    if (missing.length) throw new ArgumentError(`Keys: [${missing.join(', ')}] are missing from input_sharding.`);
    return eachTensor((t, what, i) => apply(t, sharding[keys[i]!]!, what))(leaves, paths);
  };
}

const isSpec = (x: unknown): x is ShardingSpec =>
  isPlain(x) && (x as Partial<ShardingSpec>).mesh instanceof Mesh && Array.isArray((x as Partial<ShardingSpec>).spec);

async function apply(t: Tensor, sharding: ShardingSpec | null, what: string): Promise<Tensor> {
  if (!sharding || sharding.spec.length !== t.ndim) return t;
  const { mesh, spec, minibatch = false } = sharding;
  return minibatch ? wholeOf(t, mesh, spec, `MpDeviceLoader: ${what}`) : markSharding(t, mesh, spec);
}

const eachTensor =
  (split: (t: Tensor, what: string, i: number) => Promise<Tensor>): Split =>
  (leaves, paths) =>
    Promise.all(
      leaves.map((leaf, i) => (leaf instanceof Tensor ? split(leaf, leafName('the batch', paths[i]!), i) : leaf)),
    );

/** The first key on the path of a leaf: 'x' of .x[0]; undefined where a batch is no object. */
function keyOf(path: string): string | undefined {
  const [, name, text] = /^(?:\.([\w$]+)|\[("(?:[^"\\]|\\.)*")\])/.exec(path) ?? [];
  return name ?? (text && JSON.parse(text));
}
