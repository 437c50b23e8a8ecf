// XSpace, the profile format of TensorBoard and xprof (tsl/profiler/protobuf/xplane.proto): planes (a device, a host) contain
// lines (a stream, a thread), which contain events. Names and keys are numbers, defined in a table of the plane.
import { decode, encode, message } from '../pjrt/proto.js';

const Stat = message({
  key: [1, 'int'],
  double: [2, 'double'],
  uint: [3, 'uint64'],
  int: [4, 'int64'],
  text: [5, 'string'],
  bytes: [6, 'bytes'],
  /** The value is the name of a key. */
  ref: [7, 'int'],
});
const Event = message({ metadata: [1, 'int'], offset: [2, 'int'], duration: [3, 'int'], stats: [4, [Stat]] }); // picoseconds
const Line = message({
  id: [1, 'int'],
  name: [2, 'string'],
  timestamp: [3, 'int64'], // nanoseconds since 1970, beyond the precision of a number
  events: [4, [Event]],
  displayName: [11, 'string'],
});
const EventMetadata = message({ id: [1, 'int'], name: [2, 'string'], displayName: [4, 'string'], stats: [5, [Stat]] });
const StatMetadata = message({ id: [1, 'int'], name: [2, 'string'] });
const Plane = message({
  id: [1, 'int'],
  name: [2, 'string'],
  lines: [3, [Line]],
  events: [4, ['map', 'int', EventMetadata]],
  keys: [5, ['map', 'int', StatMetadata]],
  stats: [6, [Stat]],
});
export const XSpace = message({ planes: [1, [Plane]], errors: [2, ['string']], hosts: [4, ['string']] });

type DecodedSpace = NonNullable<(typeof XSpace)['decoded']>;
type DecodedPlane = DecodedSpace['planes'][number];
type DecodedStat = DecodedPlane['stats'][number];

// ---- writing

export type StatValue = number | string | bigint;
export interface Span {
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly end: number;
  readonly stats?: Readonly<Record<string, StatValue>> | undefined;
}
export interface Lane {
  readonly name: string;
  readonly spans: readonly Span[];
}

/** Numbers names from 1, in order of appearance. */
class Names {
  readonly ids = new Map<string, number>();
  of(name: string): number {
    let id = this.ids.get(name);
    if (!id) this.ids.set(name, (id = this.ids.size + 1));
    return id;
  }
  get table() {
    return new Map([...this.ids].map(([name, id]) => [id, { id, name }] as const));
  }
}
const statOf = (key: number, value: StatValue) =>
  typeof value === 'string'
    ? { key, text: value }
    : typeof value === 'bigint' || Number.isSafeInteger(value)
      ? { key, int: BigInt(value) }
      : { key, double: Number(value) };

/** Encodes an XSpace with one plane. `origin`: the time that times count from. Default: 1970. */
export function encodeSpace(plane: string, lanes: readonly Lane[], host: string, origin = 0): Uint8Array {
  const [names, keys] = [new Names(), new Names()];
  const starts = lanes.flatMap(({ spans }) => spans.map((s) => s.start));
  const begin = Math.floor(starts.reduce((a, b) => Math.min(a, b), starts[0] ?? 0)); // of all lines, so that offsets are exact
  const lines = lanes.map(({ name, spans }, i) => ({
    id: i + 1,
    name,
    timestamp: BigInt(begin - Math.floor(origin)) * 1_000_000n,
    events: spans.map((s) => ({
      metadata: names.of(s.name),
      offset: Math.round((s.start - begin) * 1e9),
      duration: Math.max(0, Math.round((s.end - s.start) * 1e9)),
      stats: Object.entries(s.stats ?? {}).map(([key, value]) => statOf(keys.of(key), value)),
    })),
  }));
  const own = { id: 1, name: plane, lines, events: names.table, keys: keys.table };
  return encode(XSpace, { planes: [own], hosts: [host] });
}

// ---- reading

export interface ReadEvent {
  readonly name: string;
  /** Milliseconds since the first line of the profile began, and microseconds. */
  readonly start: number;
  readonly duration: number;
  stat(key: string): StatValue | undefined;
  /** Those of the event itself. */
  readonly stats: Readonly<Record<string, StatValue>>;
}
export interface ReadLine {
  readonly name: string;
  readonly events: readonly ReadEvent[];
}
export interface ReadPlane {
  readonly name: string;
  readonly lines: readonly ReadLine[];
  /** The bytes that the plane's names of events have under a key, as the programs of /host:metadata. */
  bytesOf(key: string): Uint8Array[];
}

export function decodeSpace(bytes: Uint8Array): ReadPlane[] {
  const { planes } = decode(XSpace, bytes);
  const first = firstTimestamp(planes);
  return planes.map((plane) => readPlane(plane, first));
}
/** When the first line with events begins, in nanoseconds. */
export function firstTimestamp(planes: DecodedSpace['planes']): bigint {
  const all = planes.flatMap((p) => p.lines.filter((l) => l.events.length).map((l) => l.timestamp));
  return all.sort((a, b) => (a < b ? -1 : 1))[0] ?? 0n;
}
function readPlane(plane: DecodedPlane, first: bigint): ReadPlane {
  const keyOf = (stat: DecodedStat) => plane.keys.get(stat.key)?.name;
  const statValue = (stat: DecodedStat): StatValue => {
    if (Object.hasOwn(stat, 'text')) return stat.text;
    if (Object.hasOwn(stat, 'ref')) return plane.keys.get(stat.ref)?.name ?? '';
    if (Object.hasOwn(stat, 'double')) return stat.double;
    return Object.hasOwn(stat, 'uint') ? stat.uint : stat.int;
  };
  const find = (stats: readonly DecodedStat[], key: string) => stats.find((s) => keyOf(s) === key);
  return {
    name: plane.name,
    lines: plane.lines.map((line) => ({
      name: line.displayName || line.name,
      events: line.events.map((e): ReadEvent => {
        const about = plane.events.get(e.metadata);
        return {
          name: about?.displayName || about?.name || '',
          start: Number(line.timestamp - first) / 1e6 + e.offset / 1e9,
          duration: e.duration / 1e6,
          get stats() {
            return Object.fromEntries(
              e.stats.map((s) => {
                const value = statValue(s);
                return [keyOf(s) ?? String(s.key), typeof value === 'bigint' ? Number(value) : value];
              }),
            );
          },
          stat(key) {
            const found = find(e.stats, key) ?? (about && find(about.stats, key));
            return found && statValue(found);
          },
        };
      }),
    })),
    bytesOf: (key) =>
      [...plane.events.values()].flatMap(({ stats }) => {
        const found = find(stats, key);
        return found?.bytes.length ? [found.bytes] : [];
      }),
  };
}
