// Folders of runs, and a reader of the board's stream.
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { type Change, RunData } from '../../dist/board/data.js';

export const newFolder = (): string => fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-board-'));
export const append = (folder: string, file: string, ...lines: readonly object[]): void => {
  fs.mkdirSync(folder, { recursive: true });
  fs.appendFileSync(path.join(folder, file), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
};
export const start = (more: object = {}) => ({
  kind: 'start',
  t: 1,
  step: 0,
  pid: process.pid,
  host: os.hostname(),
  ...more,
});
export const steps = (first: number, loss: readonly (number | string)[]) => ({
  kind: 'steps',
  first,
  loss,
  seconds: loss.map(() => 0.1),
});

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: http.IncomingHttpHeaders;
}
export const get = (url: string, headers: http.OutgoingHttpHeaders = {}, method = 'GET'): Promise<Answer> =>
  new Promise((resolve, reject) => {
    http
      .request(url, { headers, method }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part) => (text += part));
        response.on('end', () => resolve({ status: response.statusCode!, text, headers: response.headers }));
      })
      .on('error', reject)
      .end();
  });

/** Follows the stream as the page does. */
export class Listener {
  readonly runs = new Map<string, RunData>();
  readonly messages: Change[][] = [];
  id = '';
  ended = false;
  #request: http.ClientRequest | undefined;
  #wake = () => {};

  constructor(
    readonly url: string,
    lastId?: string,
  ) {
    this.#request = http.get(
      url.replace('/?', '/events?'),
      { headers: lastId ? { 'last-event-id': lastId } : {} },
      (response) => {
        let rest = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          const blocks = (rest + part).split('\n\n');
          rest = blocks.pop()!;
          for (const block of blocks) this.#take(block);
          this.#wake();
        });
        response.on('error', () => {});
      },
    );
    this.#request.on('error', () => {});
  }
  #take(block: string): void {
    const fields = Object.fromEntries(block.split('\n').map((line) => /^(\w*): ?(.*)$/.exec(line)!.slice(1, 3)));
    if (fields['event'] === 'end') this.ended = true;
    if (fields['id'] === undefined) return;
    this.id = fields['id'];
    const changes = JSON.parse(fields['data']!) as Change[];
    this.messages.push(changes);
    for (const { name, reset, patch } of changes) {
      if (reset || !this.runs.has(name)) this.runs.set(name, new RunData());
      this.runs.get(name)!.apply(patch);
    }
  }
  /** Waits until it has come; the test's own limit ends what never does. */
  async until(isThere: () => boolean): Promise<void> {
    while (!isThere()) await new Promise<void>((resolve) => (this.#wake = resolve));
  }
  close(): void {
    this.#request?.destroy();
  }
}
