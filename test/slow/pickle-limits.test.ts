// Pickles that would fill the memory: each limit is reached, and is an error of ours.
import { expect, test } from 'vitest';
import { unpickle } from '../../dist/io/pickle.js';

const world = {
  find: () => undefined,
  persistent: () => undefined,
  bad: (what: string) => new Error(what),
};

test.each([
  ['lists', ']', 2 ** 21, 'its pickle makes more than 2097152 objects'],
  ['dicts', '}', 2 ** 21, 'its pickle makes more than 2097152 objects'],
  ['marks', '(', 2 ** 21, 'its pickle makes more than 2097152 objects'],
  ['values', 'N', 2 ** 24, 'its pickle makes more than 16777216 values'],
  ['memo', '\x94', 2 ** 22, 'its pickle keeps more than 4194304 values'],
])('%s', (_, code, most, message) => {
  const bytes = Buffer.alloc(most + 2, code, 'latin1');
  bytes[0] = 'N'.charCodeAt(0);
  expect(() => unpickle(bytes, world)).toThrow(message);
});
