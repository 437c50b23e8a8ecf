// TensorBoard's event files: TFRecords with one Event each. A record is written by one write and has checksums, so that a file that
// was cut anywhere (kill -9, a full disk) is readable up to there.
//     length (8 bytes) | masked CRC-32C of it (4) | the event | masked CRC-32C of it (4)
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { crc32c } from '../base/checksum.js';
import { FileError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { messageOf } from '../base/thrown.js';
import { decode, encode } from '../pjrt/proto.js';
import { Event, SESSION_START } from './proto.js';

/** An event; all fields are optional. */
export type EventInit = Parameters<typeof encode<DecodedEvent>>[1];
export type DecodedEvent = ReturnType<typeof decode<NonNullable<(typeof Event)['decoded']>>>;

/** TFRecord masks checksums, because a CRC of data that contains its own CRC is weak. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
const [HEADER, FOOTER] = [12, 4];

function recordOf(event: EventInit): Uint8Array {
  const data = encode(Event, event);
  const record = Buffer.alloc(HEADER + data.length + FOOTER);
  record.writeBigUInt64LE(BigInt(data.length), 0);
  record.writeUInt32LE(masked(record.subarray(0, 8)), 8);
  record.set(data, HEADER);
  record.writeUInt32LE(masked(data), HEADER + data.length);
  return record;
}

/** The events of a file with their records, up to its end or to a damaged record. */
export function* readEvents(file: string): Generator<{ readonly event: DecodedEvent; readonly record: Uint8Array }> {
  const all = fs.readFileSync(file);
  for (let at = 0; at + HEADER + FOOTER <= all.length; ) {
    const [length, sum] = [all.readBigUInt64LE(at), all.readUInt32LE(at + 8)];
    const end = at + HEADER + Number(length) + FOOTER;
    if (sum !== masked(all.subarray(at, at + 8)) || end > all.length) return;
    const data = all.subarray(at + HEADER, end - FOOTER);
    if (all.readUInt32LE(end - FOOTER) !== masked(data)) return;
    yield { event: decode(Event, data), record: all.subarray(at, end) };
    at = end;
  }
}

const NAME = /^events\.out\.tfevents\.(\d+)\./;
/** The event files of a folder, oldest first. */
export function eventFiles(folder: string): string[] {
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  return names
    .filter((name) => NAME.test(name))
    .sort()
    .map((name) => path.join(folder, name));
}

/** Removes the events of this step and later ones from the files of a folder. Files are replaced, so that open readers are unaffected. */
function purge(folder: string, step: number): void {
  for (const file of eventFiles(folder)) {
    const events = [...readEvents(file)];
    const kept = events.filter(({ event }) => event.fileVersion || event.step < step);
    const size = kept.reduce((n, { record }) => n + record.length, 0);
    if (size === fs.statSync(file).size) continue;
    const aside = path.join(folder, `.purging-${randomUUID()}`); // a name that TensorBoard ignores
    if (kept.some(({ event }) => event.summary)) {
      fs.writeFileSync(aside, Buffer.concat(kept.map(({ record }) => record)), { flush: true });
      fs.renameSync(aside, file);
    } else fs.rmSync(file);
  }
}

let made = 0; // files of this process

/** Writes an event file. Each session has a new file, whose name sorts after the existing ones. */
export class EventFile {
  readonly path: string;
  #fd: number | undefined;

  constructor(folder: string, { purgeStep, suffix = '' }: { purgeStep?: number | undefined; suffix?: string } = {}) {
    const failed = (e: unknown) =>
      new FileError(`cannot write event files in ${folder}: ${messageOf(e)}`, { cause: e });
    try {
      makeFolder(path.resolve(folder));
      if (purgeStep !== undefined) purge(folder, purgeStep);
      const last = eventFiles(folder).at(-1);
      const after = last ? Number(NAME.exec(path.basename(last))![1]) + 1 : 0; // TensorBoard reads files in the order of their names
      const seconds = Math.max(Math.floor(Date.now() / 1e3), after);
      const host = os.hostname().replace(/[^\w.-]+/g, '_');
      const name = `events.out.tfevents.${String(seconds).padStart(10, '0')}.${host}.${process.pid}.${made++}${suffix}`;
      this.path = path.join(folder, name);
      this.#fd = fs.openSync(this.path, 'wx');
    } catch (e) {
      throw failed(e);
    }
    const wallTime = Date.now() / 1e3;
    this.add({ wallTime, fileVersion: 'brain.Event:2', source: { writer: 'tsxla' } });
    if (purgeStep !== undefined) this.add({ wallTime, step: purgeStep, sessionLog: { status: SESSION_START } });
  }

  add(event: EventInit): void {
    if (this.#fd === undefined) throw new FileError(`cannot write ${this.path}: it was closed`);
    const record = recordOf(event);
    try {
      for (let done = 0; done < record.length; ) done += fs.writeSync(this.#fd, record, done);
    } catch (e) {
      throw new FileError(`cannot write ${this.path}: ${messageOf(e)}`, { cause: e });
    }
  }
  /** Flushes the file to the disk. */
  flush(): void {
    if (this.#fd !== undefined) fs.fsyncSync(this.#fd);
  }
  close(): void {
    if (this.#fd === undefined) return;
    fs.closeSync(this.#fd);
    this.#fd = undefined;
  }
}
