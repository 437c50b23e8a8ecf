// Groups programs by their function, or by the line that reads: explanations and rules look at one group at a time.
import { BoundedMap } from '../base/bounded.js';
import type { Request } from '../runtime/program.js';

const MOST_LINES = 1000;

/** The group of a request. The whole stack is used, since a shared function has many callers. Undefined if unknown. */
const groupOf = ({ group, name, cause, source }: Request): unknown =>
  group ?? name ?? (source?.frames.length ? `${cause} ${source.frames.map((f) => `${f.file}:${f.line}`)}` : undefined);

/** A value for each function or line. It lives as long as its function; for names and lines, the latest are kept. */
export class ByGroup<T> {
  readonly #functions = new WeakMap<object, T>();
  readonly #lines = new BoundedMap<unknown, T>(MOST_LINES);

  get(request: Request): T | undefined {
    const group = groupOf(request);
    return isObject(group) ? this.#functions.get(group) : this.#lines.get(group);
  }

  set(request: Request, value: T): void {
    const group = groupOf(request);
    if (isObject(group)) this.#functions.set(group, value);
    else if (group !== undefined) {
      this.#lines.delete(group); // moved to the end: the oldest are evicted first
      this.#lines.set(group, value);
    }
  }
}
const isObject = (x: unknown): x is object => typeof x === 'object' && x !== null;
