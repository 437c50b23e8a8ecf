// Follows a growing file: yields each complete line once.
import fs from 'node:fs/promises';

const CHUNK = 4 * 2 ** 20;
const LONGEST = 16 * 2 ** 20; // bytes of a line; longer ones are not valid and are skipped
const NEWLINE = 0x0a;

export class Tail {
  #inode: number | undefined;
  #at = 0;
  /** The beginning of an incomplete line. */
  #rest: Buffer = Buffer.alloc(0);
  #skips = false;

  constructor(readonly path: string) {}

  /** Yields complete lines since the last call, in pieces. Starts over if the file was replaced or is shorter. */
  async *read(onRestart: () => void): AsyncGenerator<string[]> {
    const handle = await fs.open(this.path).catch(() => undefined);
    if (!handle) {
      if (this.#inode !== undefined) this.#restart(undefined, onRestart);
      return;
    }
    try {
      const stat = await handle.stat();
      const { ino } = stat;
      const size = stat.isFile() ? stat.size : 0; // a folder of that name has no lines
      if (ino !== this.#inode || size < this.#at) this.#restart(ino, onRestart);
      while (this.#at < size) {
        const buffer = Buffer.alloc(Math.min(CHUNK, size - this.#at));
        const { bytesRead } = await handle.read(buffer, 0, buffer.length, this.#at);
        if (!bytesRead) return;
        this.#at += bytesRead;
        yield this.#split(buffer.subarray(0, bytesRead));
      }
    } finally {
      await handle.close();
    }
  }
  #restart(inode: number | undefined, onRestart: () => void): void {
    const isFirst = this.#inode === undefined;
    this.#inode = inode;
    this.#at = 0;
    this.#rest = Buffer.alloc(0);
    this.#skips = false;
    if (!isFirst) onRestart();
  }
  #split(bytes: Buffer): string[] {
    const end = bytes.lastIndexOf(NEWLINE);
    if (end < 0) {
      this.#keep(Buffer.concat([this.#rest, bytes]));
      return [];
    }
    const text = Buffer.concat([this.#rest, bytes.subarray(0, end)]).toString();
    const lines = text.split('\n');
    if (this.#skips) lines.shift();
    this.#skips = false;
    this.#keep(bytes.subarray(end + 1));
    return lines.filter(Boolean);
  }
  #keep(rest: Buffer): void {
    if (rest.length > LONGEST) this.#skips = true;
    this.#rest = this.#skips ? Buffer.alloc(0) : Buffer.from(rest);
  }
}
