// Ray's Jobs API, where the answer is what matters: what an old Ray, a stranger or a connection that breaks say. A real cluster
// is in test/slow/ray.test.ts.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { ArgumentError, RayError } from 'tsxla';
import { eventsOf, RayCluster, rayAddress, stopJob, watchRun } from 'tsxla/ray';
import { TorchTrainer } from 'tsxla/train';
import { afterEach, expect, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
  vi.unstubAllEnvs();
});

type Answered = [status: number, body: unknown];
type Answer = (request: http.IncomingMessage, body: string) => Answered | Promise<Answered>;
interface Served {
  readonly url: string;
  readonly server: http.Server;
  readonly requests: http.IncomingMessage[];
}
/** A server that answers as a Ray of our making would. */
async function serve(answer: Answer): Promise<Served> {
  const requests: http.IncomingMessage[] = [];
  const server = http.createServer(async (request, response) => {
    requests.push(request);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const [status, body] = await answer(request, Buffer.concat(parts).toString());
    response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, requests };
}

test('an address is of a dashboard', () => {
  expect(() => new RayCluster('127.0.0.1:6379')).toThrow(
    "the Ray address '127.0.0.1:6379' is not the URL of a dashboard: write http://host:8265",
  );
  expect(() => new RayCluster('auto')).toThrow('write http://host:8265');
  expect(new RayCluster('http://head').url.port).toBe('8265');
  vi.stubEnv('RAY_ADDRESS', '');
  expect(() => rayAddress()).toThrow(
    'no address of a Ray cluster: pass --address (in a program: address), or set RAY_ADDRESS=http://host:8265',
  );
  vi.stubEnv('RAY_ADDRESS', 'http://head:1');
  expect(rayAddress()).toBe('http://head:1');
  expect(rayAddress('http://other:2')).toBe('http://other:2');
  vi.stubEnv('RAY_ADDRESS', 'ray://head:10001');
  expect(() => rayAddress()).toThrow(
    'RAY_ADDRESS=ray://head:10001 is not the URL of a dashboard: set it to http://host:8265, or unset it to train on this machine',
  );
});

test('what listens there may be something else', async () => {
  const server = net.createServer((socket) => void socket.on('error', () => {}).end('no http')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await expect(new RayCluster(`http://127.0.0.1:${port}`).version()).rejects.toThrow(
    'the port is not that of a dashboard, which is 8265 by default',
  );
  server.close();
  const { url } = await serve(() => [200, {}]);
  await expect(new RayCluster(url.replace('http', 'https')).version()).rejects.toThrow(
    'it does not speak https: write http://',
  );
});

test('where nothing listens, that is said', async () => {
  const { url, server } = await serve(() => [200, {}]);
  await new Promise((resolve) => server.close(resolve));
  await expect(new RayCluster(url).version()).rejects.toThrow(
    `no Ray cluster at ${url}: nothing listens there. Start one with \`ray start --head\`, or give the address of its dashboard`,
  );
});

test('a server that never answers is not waited for longer than it is given', async () => {
  const { server, url } = await serve(() => [200, {}]);
  server.removeAllListeners('request');
  await expect(new RayCluster(url, { timeout: 200 }).version()).rejects.toThrow('no answer within 0.2 s');
  server.closeAllConnections();
});

test('an old Ray is told from one that is new enough', async () => {
  let version = '2.9.3';
  const { url } = await serve(() => [200, { ray_version: version }]);
  await expect(new RayCluster(url).version()).rejects.toThrow(
    `the cluster at ${url} has Ray 2.9.3: tsxla needs 2.60 or later`,
  );
  for (version of ['2.60.0', '2.61.0', '3.0.0']) expect(await new RayCluster(url).version()).toBe(version);
});

test('something that is no Ray is told from one', async () => {
  const { url } = await serve(() => [200, '<html>hello</html>']);
  await expect(new RayCluster(url).version()).rejects.toThrow("did not answer like Ray's dashboard: <html>hello");
});

test.each([
  ['null', (c: RayCluster) => c.version(), /^the answer to GET \/api\/version at http:\S+: .*null.*an object/],
  ['{}', (c: RayCluster) => c.jobs(), /^the answer to GET \/api\/jobs\/ at \S+: .*a list/],
  ['{}', (c: RayCluster) => c.stop('j'), /stopped.*true or false/],
  ['[1]', (c: RayCluster) => c.jobs(), /an object/],
  ['{"logs": 1}', (c: RayCluster) => c.logs('j'), /logs.*a string/],
])('the answer %s is not what Ray would say, which is said', async (body, ask, message) => {
  const { url } = await serve(() => [200, body]);
  const error = await ask(new RayCluster(url)).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(RayError);
  expect((error as Error).message).toMatch(message);
});

test('the token goes with every request', async () => {
  const { url, requests } = await serve(() => [200, { ray_version: '2.60.0' }]);
  await new RayCluster(url, { token: 'mine' }).version();
  vi.stubEnv('RAY_AUTH_TOKEN', 'from the environment');
  await new RayCluster(url).version();
  expect(requests.map((r) => r.headers.authorization)).toEqual(['Bearer mine', 'Bearer from the environment']);
  expect(requests[0]!.headers['sec-fetch-mode']).toBeUndefined(); // Ray treats requests with it as a browser's
});

test('a job that is not there is said by name', async () => {
  const { url } = await serve(() => [404, 'Job unknown does not exist']);
  await expect(new RayCluster(url).job('unknown')).rejects.toThrow(`there is no job unknown at ${url}`);
});

test('what Ray does not like is told in its own words', async () => {
  const { url } = await serve(() => [500, 'Traceback: no available agent']);
  const submitted = new RayCluster(url).submit({ entrypoint: 'true' });
  await expect(submitted).rejects.toThrow(`POST /api/jobs/ at ${url}: 500 Traceback: no available agent`);
});

test('a log whose connection breaks is told once, and to its end', async () => {
  const lines = ['one', '@tsxla {"type":"report","rank":0,"metrics":{"loss":1}}', 'three', 'four', 'five'];
  const whole = `${lines.join('\n')}\n`;
  let connections = 0;
  let status = 'RUNNING';
  const { url, server } = await serve(({ url: path }) =>
    path!.endsWith('/logs') ? [200, { logs: whole }] : [200, { submission_id: 'j', status }],
  );
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket, request) => {
    expect(request.headers['sec-websocket-extensions']).toBeUndefined(); // with compression Ray sends nothing
    connections++;
    // Every connection begins at the beginning; the first breaks in the middle of a line, the second behind the third.
    socket.send(whole.slice(0, connections === 1 ? 20 : whole.indexOf('four')));
    if (connections === 2) status = 'SUCCEEDED'; // the last lines come by another way
    setTimeout(() => socket.close(), 20);
  });
  const run = watchRun(new RayCluster(url), 'j');
  const told = [];
  let next = await run.next();
  for (; !next.done; next = await run.next()) told.push(next.value);
  expect(connections).toBeGreaterThan(1);
  expect(told).toEqual([
    { type: 'log', line: 'one' },
    { type: 'report', rank: 0, metrics: { loss: 1 } },
    { type: 'log', line: 'three' },
    { type: 'log', line: 'four' },
    { type: 'log', line: 'five' },
  ]);
  expect(next.value.status).toBe('SUCCEEDED');
});

test('a dashboard that fails is asked at most twice after a signal, and less and less often before', async () => {
  const { url, requests } = await serve(() => [503, 'no healthy upstream']);
  const stop = new AbortController();
  const log = new RayCluster(url).follow('j', { signal: stop.signal });
  const ended = log.next();
  while (!requests.length) await pause(10);
  stop.abort();
  const before = requests.length;
  await expect(ended).rejects.toThrow(`GET /api/jobs/j at ${url}: 503 no healthy upstream`);
  await pause(300); // no further request is made
  expect(requests.length - before).toBeLessThanOrEqual(2); // of one loop the last, of the other one under way
});

test('a follower that leaves asks no more, also where the dashboard fails', async () => {
  let status = 200;
  const { url, requests, server } = await serve(() => [status, { submission_id: 'j', status: 'RUNNING' }]);
  new WebSocketServer({ server }).on('connection', (socket) => socket.send('one\n'));
  const log = new RayCluster(url).follow('j');
  expect((await log.next()).value).toBe('one\n');
  status = 503;
  const before = requests.length;
  await log.return(undefined as never);
  await pause(300);
  expect(requests.length - before).toBeLessThanOrEqual(2);
});

test('a job that cannot be stopped is tried five times, and then named with the command that stops it', async () => {
  const { url, requests } = await serve(() => [503, 'no healthy upstream']);
  await expect(stopJob(new RayCluster(url), 'j', { retryDelay: 1 })).rejects.toThrow(
    `the job j may still be running: POST /api/jobs/j/stop at ${url}: 503 no healthy upstream. Stop it with \`tsxla ray stop j --address ${url}\``,
  );
  expect(requests.map((r) => `${r.method} ${r.url}`)).toEqual(Array(5).fill('POST /api/jobs/j/stop'));
});

test('a dashboard that fails for a moment does not keep a job from being stopped', async () => {
  const answers: Answered[] = [
    [503, ''],
    [200, { stopped: true }],
    [503, ''],
    [200, { status: 'RUNNING' }],
    [200, { status: 'STOPPED' }],
  ];
  const { url, requests } = await serve(() => answers.shift()!);
  expect((await stopJob(new RayCluster(url), 'j', { retryDelay: 1 })).status).toBe('STOPPED');
  expect(requests.map((r) => r.method)).toEqual(['POST', 'POST', 'GET', 'GET', 'GET']);
});

test.each(['', '.', '..'])("the id '%s' is no job's, and nothing is sent", async (id) => {
  const { url, requests } = await serve(() => [200, {}]);
  const cluster = new RayCluster(url);
  for (const call of [cluster.job(id), cluster.stop(id), cluster.delete(id), cluster.logs(id)])
    await expect(call).rejects.toThrow(`'${id}' is not the id of a job: \`tsxla ray jobs\` lists them`);
  expect(requests).toEqual([]);
});

test('an id with slashes stays in its place of the path', async () => {
  const { url, requests } = await serve(() => [200, { stopped: true }]);
  await new RayCluster(url).stop('../../x?y#z');
  expect(requests.map((r) => r.url)).toEqual(['/api/jobs/..%2F..%2Fx%3Fy%23z/stop']);
});

test('an answer that is too large is refused; a log of that size comes by the websocket', async () => {
  const line = `${'x'.repeat(2 ** 20 - 1)}\n`;
  const { url, server } = await serve(({ url: path }) =>
    path!.endsWith('/logs') ? [200, line.repeat(129)] : [200, { submission_id: 'j', status: 'SUCCEEDED' }],
  );
  new WebSocketServer({ server }).on('connection', (socket) => {
    socket.send('one\n');
    socket.close();
  });
  const cluster = new RayCluster(url);
  await expect(cluster.logs('j')).rejects.toThrow(`GET /api/jobs/j/logs at ${url}: the answer has more than 128 MiB`);
  let text = '';
  for await (const part of cluster.follow('j')) text += part;
  expect(text).toBe('one\n');
});

test('a log may have half an event, or what only looks like one', () => {
  const lines = [
    '@tsxla {"type":"rep',
    '@tsxla null',
    '@tsxla 1',
    'plain',
    '@tsxla {"type":"crash","rank":1,"how":"x"}',
  ];
  expect(eventsOf(lines.join('\n'))).toEqual([
    ...lines.slice(0, 4).map((line) => ({ type: 'log', line })),
    { type: 'crash', rank: 1, how: 'x' },
  ]);
});

test('a line without an end is told in pieces', async () => {
  const { url, server } = await serve(({ url: path }) =>
    path!.endsWith('/logs') ? [200, { logs: '' }] : [200, { submission_id: 'j', status: 'RUNNING' }],
  );
  new WebSocketServer({ server }).on('connection', (socket) => {
    for (let i = 0; i < 17; i++) socket.send('x'.repeat(2 ** 20));
  });
  const stop = new AbortController();
  const first = await watchRun(new RayCluster(url), 'j', { signal: stop.signal }).next();
  stop.abort();
  expect((first.value as { line: string }).line.length).toBeGreaterThan(2 ** 24);
});

test.each([
  ['{', 'TSXLA_RAY is not JSON: '],
  ['[]', 'TSXLA_RAY: '],
  ['{"install": 1}', 'TSXLA_RAY: install is 1: it must be true or false'],
])('TSXLA_RAY=%s is an error that names it', async (given, message) => {
  vi.stubEnv('TSXLA_RAY', given);
  const trainer = new TorchTrainer({ trainLoopPerWorker() {}, address: 'http://127.0.0.1:9' });
  const error = await trainer.fit().catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ArgumentError);
  expect((error as Error).message).toContain(message);
});

test('a token is a line of text; no message repeats it, nor a password of an address', async () => {
  expect(() => new RayCluster('http://head', { token: 'se\ncret' })).toThrow(
    /^the token of the Ray cluster \(RAY_AUTH_TOKEN\) has a line break or a non-ASCII character$/,
  );
  const { url, requests } = await serve(() => [200, { ray_version: '2.60.0' }]);
  await new RayCluster(url, { token: 'from-a-file\n' }).version();
  expect(requests[0]!.headers.authorization).toBe('Bearer from-a-file');
  expect(() => new RayCluster('ray://me:secret@head:10001')).toThrow("'ray://...@head:10001' is not the URL");
});

test.each([
  ['the upload', 'PUT', [], 'SIGINT'],
  ['the submission', 'POST', ['/stop'], 'SIGINT'],
  ['the submission of `tsxla ray submit`', 'POST', ['/stop'], 130],
] as const)('Ctrl-C in %s leaves no job, and the program ends by it', async (what, at, after, how) => {
  const root = path.join(import.meta.dirname, '../../..');
  const project = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-stop-'));
  closing.push(() => fs.rmSync(project, { recursive: true }));
  fs.mkdirSync(path.join(project, 'node_modules'));
  fs.symlinkSync(root, path.join(project, 'node_modules/tsxla'));
  fs.writeFileSync(path.join(project, 'package.json'), '{ "type": "module" }');
  const program = `import { TorchTrainer } from 'tsxla/train';
    await new TorchTrainer({ trainLoopPerWorker() {}, scalingConfig: { numWorkers: 2 } }).fit();`;
  fs.writeFileSync(path.join(project, 'train.js'), program);

  const changes: string[] = [];
  const { url } = await serve(async ({ method, url: asked = '' }) => {
    if (method !== 'GET') changes.push(`${method} ${asked}`);
    if (method === at && !asked.endsWith('/stop')) {
      process.kill(-child.pid!, 'SIGINT'); // as a terminal does: to all of its processes
      await pause(200);
    }
    if (asked.startsWith('/api/packages/')) return [method === 'GET' ? 404 : 200, {}];
    if (method === 'GET' && asked.endsWith('/api/jobs/')) return [200, []];
    return [200, { ray_version: '2.60.0', submission_id: 'it', status: 'STOPPED', stopped: true }];
  });
  const command = what.includes('tsxla') ? [path.join(root, 'dist/cli/main.js'), 'submit', 'train.js'] : ['train.js'];
  const env = { ...process.env, RAY_ADDRESS: url };
  const child = spawn(process.execPath, command, { cwd: project, env, detached: true, stdio: 'ignore' });
  const [code, signal] = await once(child, 'exit');
  expect(code ?? signal).toBe(how);
  const submitted = changes.findIndex((change) => change.startsWith('POST'));
  expect(changes.slice(submitted < 0 ? changes.length : submitted + 1)).toEqual(
    after.map((end) => expect.stringMatching(new RegExp(`^POST /api/jobs/tsxla-train-\\S+${end}$`))),
  );
});
