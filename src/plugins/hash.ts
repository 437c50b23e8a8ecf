// SHA-256 of plugin libraries (hundreds of megabytes): computed once, and again when the file has changed.
import { createHash, randomUUID } from 'node:crypto';
import { type BigIntStats, createReadStream } from 'node:fs';
import { open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { distrust } from '../base/trust.js';

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  // Small chunks keep the event loop, and with it the lock's heartbeat, running.
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}

/**
 * The hash of a file, from `record` if the file is unchanged since that was written, else computed. Changes are detected by
 * ctime: every change of content, name or time sets it, and no user can set it back. A user who can write the record can
 * forge it, so a record that others can change is not used.
 */
export async function rememberedSha256(file: string, record: string, { write = true } = {}): Promise<string> {
  const began = Date.now();
  const before = stateOf(await stat(file, { bigint: true }));
  const known = await readRecord(record);
  const prefix = `${before} `;
  if (known?.startsWith(prefix)) return known.slice(prefix.length);
  const sha256 = await sha256Of(file);
  const after = await stat(file, { bigint: true });
  // The clock of file systems ticks every few milliseconds: a file changed just now could change again unnoticed.
  const isSettled = began - Number(after.ctimeMs) > SETTLED && stateOf(after) === before;
  if (write && isSettled) await writeRecord(record, `${before} ${sha256}`).catch(() => undefined); // without it, a later start only hashes again
  return sha256;
}
const SETTLED = 1000; // ms

/** The file's state, without the device number, which changes with each mount. */
const stateOf = ({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string => `${ino} ${size} ${mtimeNs} ${ctimeNs}`;

async function readRecord(record: string): Promise<string | undefined> {
  try {
    const handle = await open(record);
    try {
      if (distrust(record, await handle.stat())) return undefined;
      const text = await handle.readFile('utf8');
      return /^\d+ \d+ \d+ \d+ [0-9a-f]{64}$/.test(text) ? text : undefined;
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}

async function writeRecord(record: string, text: string): Promise<void> {
  const draft = `${record}.tmp-${randomUUID()}`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
    await rename(draft, record);
  } catch (e) {
    await rm(draft, { force: true });
    throw e;
  }
}
