// What processes send each other to reach the key-value store: frames, one after another.
import { RendezvousError } from 'tsxla';
import { type Frame, frameBytes, HEADER, KIND, LARGEST, readFrame } from '../../../dist/pjrt/key-value-frames.js';
import { type Mutate, mutateBytes, oneOf, otherSize, readSize, writeSize } from '../bytes.js';
import type { Target } from '../target.js';

const FILE = 'a.frames';
const SENT: readonly Frame[] = [
  { kind: KIND.join, id: 0, number: 1, text: 'tsxla 2 host pid 7 é', value: new Uint8Array() },
  { kind: KIND.put, id: 1, number: 0, text: 'key', value: Uint8Array.of(1, 2, 3) },
  { kind: KIND.get, id: 2, number: 0, text: 'key', value: new Uint8Array() },
  { kind: KIND.answer, id: 2, number: 0, text: '', value: Uint8Array.of(1, 2, 3) },
  { kind: KIND.tryGet, id: 3, number: -1, text: '', value: new Uint8Array(300) },
];

// biome-ignore format: a table
const FIELDS: Readonly<Record<string, readonly [at: number, width: number]>> = {
  length: [0, 4], kind: [4, 1], id: [5, 4], number: [9, 4], textLength: [13, 4],
};
/** Where each frame begins, as far as they are whole. */
function startsOf(b: Buffer): number[] {
  const starts: number[] = [];
  for (let at = 0; at + HEADER <= b.length; at += 4 + b.readUInt32LE(at)) starts.push(at);
  return starts;
}
const field: Mutate = (b, random) => {
  const start = random.pick(startsOf(b));
  if (start === undefined) return undefined;
  const [name, [at, width]] = random.pick(Object.entries(FIELDS));
  const old = readSize(b, start + at, width);
  const value = random.pick([otherSize(old, random), old + 1n, old - 1n, BigInt(LARGEST - 4), BigInt(LARGEST - 3)]);
  const bytes = Buffer.from(b);
  writeSize(bytes, start + at, width, value);
  return { bytes, what: `frame at ${start}: ${name} ${old} set to ${value}` };
};

interface Stream {
  readonly frames: readonly Frame[];
  /** Bytes of a frame that is not whole. */
  readonly rest: number;
}
const frames: Target = {
  name: 'key-value',
  about: "frames of the key-value store's connections",
  covers: [],
  named: false, // they come from a socket
  make: () => [new Map([[FILE, Buffer.concat(SENT.map(frameBytes))]]), new Map([[FILE, frameBytes(SENT[1]!)]])],
  mutate: () => oneOf(field, field, field, mutateBytes),
  async read(_, files): Promise<Stream> {
    const bytes = files.get(FILE)!;
    const found: Frame[] = [];
    for (let at = 0; ; ) {
      const rest = bytes.subarray(at);
      const next = readFrame(rest);
      if ('problem' in next) throw new RendezvousError(next.problem, 'INVALID_ARGUMENT');
      if ('wanted' in next) {
        if (next.wanted <= rest.length || next.wanted > LARGEST) throw new Error(`it waits for ${next.wanted} bytes`);
        return { frames: found, rest: rest.length };
      }
      if (!(next.size >= HEADER && next.size <= rest.length)) throw new Error(`a frame of ${next.size} bytes`);
      found.push(next.frame);
      at += next.size;
    }
  },
  legal({ after, value }) {
    const { frames, rest } = value as Stream;
    const bytes = after.get(FILE)!;
    const whole = Buffer.concat(frames.map(frameBytes));
    return whole.equals(bytes.subarray(0, bytes.length - rest)) ? undefined : 'other frames than the bytes';
  },
};

export const FRAMES: readonly Target[] = [frames];
