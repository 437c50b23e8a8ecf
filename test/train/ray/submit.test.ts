// `tsxla ray submit` up to the upload: what a server that stands for Ray's dashboard is sent.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { tsxla } from '../../support.js';
import { namesIn } from './zip.js';

const root = path.join(import.meta.dirname, '../../..');
const scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-submit-')));
const uploads = new Map<string, Buffer>();
let submitted: string[] = [];
const server = http.createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  const { method, url = '' } = request;
  const isPackage = url.startsWith('/api/packages/');
  if (method === 'PUT') uploads.set(url, Buffer.concat(parts));
  if (method === 'POST') submitted.push(Buffer.concat(parts).toString());
  const known = submitted.map((_, i) => ({ submission_id: String(i), type: 'SUBMISSION' }));
  const job = { ray_version: '2.60.0', submission_id: 'it', status: 'STOPPED', logs: '' };
  response.writeHead(isPackage && method === 'GET' && !uploads.has(url) ? 404 : 200);
  response.end(JSON.stringify(url === '/api/jobs/' && method === 'GET' ? known : job));
});
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
beforeEach(() => {
  uploads.clear();
  submitted = [];
});
afterAll(() => {
  server.close();
  fs.rmSync(scratch, { recursive: true });
});

const PROGRAM = `import { TorchTrainer } from 'tsxla/train';
  await new TorchTrainer({ trainLoopPerWorker() {}, scalingConfig: { numWorkers: 2 } }).fit();`;
function project(name: string, files: Record<string, string>): string {
  const folder = path.join(scratch, name);
  for (const [file, text] of Object.entries({ 'train.mjs': PROGRAM, ...files })) {
    fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    fs.writeFileSync(path.join(folder, file), text);
  }
  fs.mkdirSync(path.join(folder, 'node_modules'));
  fs.symlinkSync(root, path.join(folder, 'node_modules/tsxla'));
  return folder;
}
async function submit(cwd: string, args: string[] = [], variables: Record<string, string> = {}): Promise<string> {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = { ...process.env, ...variables };
  const command = [path.join(root, 'dist/cli/main.js'), 'ray', 'submit', 'train.mjs', '--address', url, ...args];
  const child = spawn(process.execPath, command, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data) => (said += data));
  await once(child, 'close');
  return said.replaceAll(url, 'URL');
}

test('the former names of the commands work, and are not listed', async () => {
  const listed = (await tsxla(['--help'])).stdout;
  expect(listed).toMatch(/^ {2}ray /m);
  for (const name of ['submit', 'jobs', 'logs', 'stop']) {
    expect(listed).not.toMatch(new RegExp(`^  ${name} `, 'm'));
    const [now, former] = await Promise.all([tsxla(['ray', name, '--help']), tsxla([name, '--help'])]);
    expect(former.stdout).toBe(now.stdout.replace(`tsxla ray ${name}`, `tsxla ${name}`));
    expect(former.stdout).toContain('--address');
  }
});

test('an untracked .env of a git project is not in the upload; what is sent is said, and when it is there already', async () => {
  const folder = project('versioned', { 'package.json': '{}', '.env': 'KEY=fake', '.gitignore': 'node_modules\n' });
  execFileSync('git', ['init', '-q'], { cwd: folder });
  const said = await submit(folder);
  const [zip] = [...uploads.values()];
  const names = await namesIn(zip!);
  expect(names.filter((name) => !name.startsWith('tsxla_driver/'))).toEqual([
    '.gitignore',
    'package.json',
    'train.mjs',
  ]);
  expect(said).toMatch(new RegExp(`^tsxla: uploading ${names.length} files, [\\d.]+ KiB to URL$`, 'm'));
  expect(said).toMatch(
    /^tsxla: not uploaded: 1 untracked file with credentials: \.env\. To upload one, name it: --include \.env$/m,
  );
  expect(await submit(folder)).toMatch(
    new RegExp(`^tsxla: already uploaded to URL: ${names.length} files, [\\d.]+ KiB$`, 'm'),
  );
  expect(uploads.size).toBe(1);

  await submit(folder, ['--include', '.env']);
  expect(await namesIn([...uploads.values()][1]!)).toContain('.env');
});

test('the environment of workers is on no command line', async () => {
  const SECRET = `fake-\${HOME}`;
  const folder = project('env', { 'package.json': '{}' });
  await submit(folder, ['--env', `HF_TOKEN=${SECRET}`, '--env', 'MODE=test']);
  const { entrypoint, runtime_env } = JSON.parse(submitted[0]!);
  expect(entrypoint).toMatch(/^python -m tsxla_driver\.main '\{.*"env":\{\}/);
  const { TSXLA_WORKER_ENV: env, ...others } = runtime_env.env_vars;
  expect(JSON.parse(Buffer.from(env, 'base64').toString())).toEqual({ HF_TOKEN: SECRET, MODE: 'test' });
  expect(JSON.stringify([entrypoint, others])).not.toContain('fake-');
});

test('a home folder full of keys is refused, and nothing is sent', async () => {
  const keys = [
    '.ssh/id_rsa',
    '.aws/credentials',
    '.env',
    '.npmrc',
    '.netrc',
    '.docker/config.json',
    '.gnupg/secring.gpg',
  ];
  const folder = project('home', Object.fromEntries(keys.map((name) => [name, 'fake'])));
  const refused = `${folder} has .ssh, as home folders do, and is not uploaded`;
  expect(await submit(folder, [], { HOME: folder })).toContain(refused);
  expect(await submit(folder, ['--include', 'train.mjs'], { HOME: scratch })).toContain(refused);
  for (const name of keys) fs.rmSync(path.join(folder, name));
  for (const name of ['.ssh', '.aws', '.gnupg', '.docker']) fs.rmdirSync(path.join(folder, name));
  expect(await submit(folder, [], { HOME: folder })).toContain(
    `${folder} is your home folder, or contains it, and is not`,
  );
  expect(await submit(folder)).toContain(`${folder} has no package.json and is not in a git repository`);
  expect([uploads.size, submitted]).toEqual([0, []]);
});
