// A process with a key-value store of its own: it does what it is told on stdin, a line each, and says what came of it.
import { createInterface } from 'node:readline';
import { KeyValueStore } from 'tsxla/pjrt';

let store;
const DO = {
  hello: async () => {},
  join: async (member) => void (store = await KeyValueStore.join(member)),
  put: (key, text, times = 1) => store.put(key, Buffer.from(text.repeat(times))),
  get: (key, ms) => store.get(key, ms),
  tryGet: (key) => store.tryGet(key),
  /** Puts one when another is there. */
  follow: (key, after, text) => store.get(after, 10_000).then(() => DO.put(key, text)),
};
for await (const line of createInterface({ input: process.stdin })) {
  const [id, name, ...args] = JSON.parse(line);
  const say = (result) => console.log(JSON.stringify({ id, ...result }));
  DO[name](...args).then(
    (value) => say({ value: value && Buffer.from(value).toString() }),
    (e) => say({ error: `${e.code}: ${e.message}` }),
  );
}
