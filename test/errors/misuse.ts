// Cases of misuse, each with the first line of what is said about it.
import { ArgumentError } from 'tsxla';
import { expect, test } from 'vitest';

export type Misuse = readonly [name: string, run: () => unknown, text: string | RegExp];

/** `where`: what the rest of the message must match, such as the file and line of the call. */
export function testMisuses(cases: readonly Misuse[], where?: RegExp): void {
  for (const [name, run, text] of cases) {
    test(name, () => {
      let message = '';
      try {
        run();
      } catch (e) {
        message = (e as Error).message;
        expect(e).toBeInstanceOf(ArgumentError);
      }
      const [first] = message.split('\n');
      if (typeof text === 'string') expect(first).toBe(text);
      else expect(first).toMatch(text);
      if (where) expect(message).toMatch(where);
    });
  }
}
