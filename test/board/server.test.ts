// The board's server: who gets what, and that a reader has at any time what the files say.
import fs from 'node:fs';
import path from 'node:path';
import { type Board, serveBoard } from 'tsxla/board';
import { afterEach, expect, test } from 'vitest';
import { append, get, Listener, newFolder, start, steps } from './support.js';

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close();
});
async function serve(...folders: string[]): Promise<Board> {
  const board = await serveBoard(folders, { port: 0, interval: 10 });
  open.push(board);
  return board;
}
function listen(board: Board, lastId?: string): Listener {
  const listener = new Listener(board.url, lastId);
  open.push(listener);
  return listener;
}
const lossOf = (listener: Listener, name: string) => listener.runs.get(name)?.series.get('stepLoss');

test('the page and the stream are given to the link alone: no token, another host and another origin get nothing', async () => {
  const { url, port } = await serve(newFolder());
  const page = await get(url);
  expect(page.status).toBe(200);
  expect(page.headers['content-security-policy']).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
  expect(page.text).toContain('id="data"');
  const bare = `http://127.0.0.1:${port}/`;
  const refused = [
    await get(bare),
    await get(`${bare}?token=${'x'.repeat(32)}`),
    await get(`${bare}events`),
    await get(url, { host: 'evil.example' }), // DNS rebinding: the browser believes that this is evil.example
    await get(url, { host: `evil.example:${port}` }),
    await get(url, { host: '127.0.0.1.evil.example' }),
    await get(url, { origin: 'http://evil.example' }),
    await get(url, { origin: 'null' }),
    await get(url.replace('/?', '/events?'), { 'sec-fetch-site': 'cross-site' }),
  ];
  expect(refused.map((r) => [r.status, r.text])).toEqual(refused.map(() => [403, '']));
  expect(refused.map((r) => r.headers['access-control-allow-origin'])).toEqual(refused.map(() => undefined));
  expect((await get(url, {}, 'POST')).status).toBe(405);
  expect((await get(url.replace('/?', '/../../etc/passwd?'))).status).toBe(404);
  expect((await get(url, { host: 'localhost:9000' })).status).toBe(200); // a tunnel with another port
});

test('every start has another token, and it listens on this machine alone', async () => {
  const [a, b] = [await serve(newFolder()), await serve(newFolder())];
  expect(a.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{32}$/);
  expect(new URL(a.url).searchParams.get('token')).not.toBe(new URL(b.url).searchParams.get('token'));
});

test('a file that grows, half a line, and a run that comes later', async () => {
  const root = newFolder();
  append(path.join(root, 'a'), 'events.jsonl', start({ steps: 10 }), steps(1, [4, 3]));
  append(path.join(root, 'a'), 'metrics.jsonl', { step: 2, loss: 3.5, lr: 0.1 }, { step: 2, perplexity: 20 });
  const listener = listen(await serve(root));
  await listener.until(() => lossOf(listener, 'a')?.x.length === 2);
  const run = () => listener.runs.get('a')!;
  expect(run().info).toMatchObject({ status: 'live', steps: 10 });
  expect(run().series.get('lr')).toEqual({ x: [2], y: [0.1] });

  const line = JSON.stringify(steps(3, ['NaN', 1.5]));
  const file = path.join(root, 'a', 'events.jsonl');
  fs.appendFileSync(file, line.slice(0, 20));
  append(path.join(root, 'a'), 'metrics.jsonl', { step: 4, loss: 2 });
  await listener.until(() => run().series.get('loss')?.x.length === 2); // the half line was there before this one
  expect(lossOf(listener, 'a')!.x).toEqual([1, 2]);
  fs.appendFileSync(file, `${line.slice(20)}\n{"kind":"end","status":"failed","error":"NaN"}\n`);
  await listener.until(() => run().info.status === 'failed');
  expect(lossOf(listener, 'a')).toEqual({ x: [1, 2, 3, 4], y: [4, 3, null, 1.5] });
  expect(run().bad).toEqual([{ metric: 'stepLoss', x: 3, value: 'NaN' }]);
  expect(run().info).toMatchObject({ error: 'NaN' });
  expect(run().info.damaged).toBeUndefined();
});

test('a reader that reconnects resumes where it was; one of another server gets all', async () => {
  const root = newFolder();
  const run = path.join(root, 'a');
  append(run, 'events.jsonl', start(), steps(1, [4, 3]));
  const board = await serve(root);
  const first = listen(board);
  await first.until(() => lossOf(first, 'a')?.x.length === 2);
  first.close();
  append(run, 'events.jsonl', steps(3, [2]));
  const second = listen(board, first.id);
  await second.until(() => second.messages.length > 0);
  expect(second.messages[0]).toMatchObject([{ patch: { series: { stepLoss: [[3], [2]] } } }]);
  expect(second.messages[0]![0]!.reset).toBeUndefined();
  const stranger = listen(board, 'another,1.0.1');
  await stranger.until(() => stranger.messages.length > 0);
  expect(stranger.messages[0]![0]!.reset).toBe(true);
  expect(lossOf(stranger, 'a')).toEqual({ x: [1, 2, 3], y: [4, 3, 2] });
});

test('a run that resumes from an earlier step, and one that starts over', async () => {
  const root = newFolder();
  const run = path.join(root, 'a');
  append(run, 'events.jsonl', start(), steps(1, [4, 3, 2, 1]), { kind: 'end', t: 5001, status: 'stopped' });
  const listener = listen(await serve(root));
  await listener.until(() => listener.runs.get('a')?.info.status === 'stopped');
  append(run, 'events.jsonl', start({ step: 2, t: 90_000 }), { ...steps(3, [2.5]), t: 92_000 });
  await listener.until(() => lossOf(listener, 'a')?.x.length === 3);
  expect(lossOf(listener, 'a')!.y).toEqual([4, 3, 2.5]);
  const { status, began, heard } = listener.runs.get('a')!.info;
  expect([status, heard! - began!]).toEqual(['live', 5000 + 2000]);
  fs.rmSync(path.join(run, 'events.jsonl'));
  append(run, 'events.jsonl', start({ title: 'again' }), steps(1, [9]));
  await listener.until(() => listener.runs.get('a')?.info.title === 'again');
  expect(lossOf(listener, 'a')!.y).toEqual([9]);
});

test('a huge file: 500,000 steps become the curve that is as wide, with its extremes; lines of anything are passed over', async () => {
  const root = newFolder();
  const run = path.join(root, 'a');
  append(run, 'events.jsonl', start({ steps: 500_000 }));
  for (let first = 1; first <= 500_000; first += 10_000) {
    const loss = Array.from({ length: 10_000 }, (_, i) => (first + i === 123_456 ? 99 : 1 / (first + i)));
    append(run, 'events.jsonl', { kind: 'steps', first, loss });
  }
  fs.appendFileSync(path.join(run, 'events.jsonl'), `no JSON\n[1]\nnull\n${'x'.repeat(100_000)}\n`);
  append(run, 'events.jsonl', { kind: 'end', status: 'finished' });
  const listener = listen(await serve(root));
  await listener.until(() => listener.runs.get('a')?.info.status === 'finished');
  const { x, y } = lossOf(listener, 'a')!;
  expect(x.length).toBeLessThan(400_000);
  expect([x[0], x.at(-1)]).toEqual([1, 500_000]);
  expect(y[x.indexOf(123_456)]).toBe(99);
  expect(listener.runs.get('a')!.info.damaged).toBe(4);
});

test('metrics of any name, and a folder where a file of the run belongs', async () => {
  const root = newFolder();
  const odd = '{"kind":"metrics","step":1,"__proto__":5,"constructor":7,"seconds":3,"loss":1}\n';
  append(path.join(root, 'a'), 'events.jsonl', start());
  fs.appendFileSync(path.join(root, 'a/events.jsonl'), odd);
  append(path.join(root, 'b'), 'metrics.jsonl', { step: 1, loss: 2 });
  fs.mkdirSync(path.join(root, 'b/events.jsonl'));
  const listener = listen(await serve(root));
  const lastOf = (name: string) => [...(listener.runs.get(name)?.series ?? [])].map(([s, { y }]) => [s, y.at(-1)]);
  await listener.until(() => lastOf('b').length > 0);
  expect(Object.fromEntries(lastOf('a'))).toEqual(
    Object.fromEntries([['__proto__', 5], ['constructor', 7], ['seconds', 3], ['loss', 1]]), // biome-ignore format: short
  );
  expect(lastOf('b')).toEqual([['loss', 2]]);
});

test('who listens is told when the server ends', async () => {
  const board = await serve(newFolder());
  const listener = listen(board);
  await listener.until(() => listener.messages.length > 0);
  await board.close();
  await listener.until(() => listener.ended);
  open.length = 0;
});
