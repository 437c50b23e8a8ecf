// The examples do what they are for, each with its own settings, as a user would run it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { times } from '../repeat.js';

const root = path.resolve(import.meta.dirname, '../..');
const out = mkdtempSync(path.join(os.tmpdir(), 'tsxla-examples-'));
afterAll(() => rmSync(out, { recursive: true }));

const run = (example: string, ...args: string[]): string => runWith({}, example, ...args);
const runWith = (env: Record<string, string>, example: string, ...args: string[]): string =>
  execFileSync(process.execPath, ['--import', 'tsx', `examples/${example}.ts`, '--out', out, ...args], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, PJRT_DEVICE: 'CPU', TSXLA_LOG: 'quiet', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
const sources = (): string[] =>
  readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(path.join(root, 'src', file), 'utf8'));
const numbers = (output: string, pattern: RegExp): number[] => [...output.matchAll(pattern)].map((m) => Number(m[1]));

test('gpt.ts learns to write what looks like TypeScript', () => {
  const output = run('gpt');
  const losses = numbers(output, /held back ([\d.]+)/g);
  expect(losses.length).toBe(8);
  expect(losses[0]).toBeGreaterThan(losses.at(-1)! + 0.4);
  expect(losses.at(-1)).toBeLessThan(1.9); // a letter of 99 at random: 4.6
  expect(existsSync(path.join(out, 'gpt.safetensors'))).toBe(true);
  const sample = output.split('continuation:\n')[1]!;
  expect(sample.length).toBeGreaterThan(400);
  // Its words are those of the text it read; letters at random make none of these. What it writes depends on the machine.
  const words = (text: string) => text.match(/[A-Za-z]{3,}/g) ?? [];
  const known = new Set(sources().flatMap(words));
  const written = words(sample);
  expect(written.length).toBeGreaterThanOrEqual(10);
  expect(written.filter((word) => known.has(word)).length / written.length).toBeGreaterThan(0.4);
});

test('images.ts reads digits that it has not seen', () => {
  const output = run('images');
  const accuracies = numbers(output, /test accuracy ([\d.]+)%/g);
  expect(accuracies.length).toBe(4);
  expect(accuracies.at(-1)).toBeGreaterThan(97);
  expect(existsSync(path.join(out, 'digits.safetensors'))).toBe(true);
});

test('finetune-qwen3.ts teaches a model that knows nothing, and saves it', () => {
  const output = run('finetune-qwen3');
  const losses = numbers(output, /loss ([\d.]+)/g);
  expect(losses.at(-1)).toBeLessThan(0.3);
  expect(numbers(output, /(\d+) of 32 answers are right/g)[0]).toBeGreaterThanOrEqual(30);
  for (const file of ['config.json', 'model.safetensors', 'tokenizer.json'])
    expect(existsSync(path.join(out, file))).toBe(true);
});

test('kernel.ts: a kernel is checked, equals its plain form, and is one program', () => {
  const lines = run('kernel').trim().split('\n');
  expect(lines).toEqual([
    'no access is out of bounds, and no two programs write the same element',
    'largest difference to the plain form: below 1e-5',
    'gradients: x [100,64], weight [64]',
    '1 program for 3 calls',
  ]);
});

test('tpu-backend.ts: what TorchBridge promises, on a CPU', () => {
  const output = run('tpu-backend');
  const losses = numbers(output, /loss ([\d.]+)/g);
  expect(losses.length).toBe(5);
  expect(losses.at(-1)).toBeLessThan(0.3); // ten classes at random: 2.3
  expect(numbers(output, /held back: ([\d.]+)%/g)[0]).toBeGreaterThan(75);
  for (const line of [
    'the loaded model has the same accuracy: true',
    'bf16 linears: applied',
    'everything in bf16: applied',
    'accuracy moved by less than 2 points: true',
    '1 miss, 2 hits, 0 evictions',
    'a third: TPUMemoryPoolError',
    'all are back: 2 of 2 left',
  ])
    expect(output).toContain(`  ${line}\n`);
  expect(output).toContain('TPUConfigurationError: TPUConfig.memoryFraction is 1.5');
  expect(existsSync(path.join(out, 'model.pth'))).toBe(true);
});

test('torch-tpu.ts: two workers, and one with a mesh of 2 x 2, learn alike; a run of the same name resumes', () => {
  const curve = (output: string) => output.match(/^epoch .*/gm)!;
  const losses = (output: string) => numbers(output, /loss ([\d.]+)/g);
  const two = run('torch-tpu', '--out', path.join(out, 'workers'));
  expect(curve(two).length).toBe(8);
  expect(numbers(two, /accuracy ([\d.]+)%/g).at(-1)).toBeGreaterThan(90);
  expect(two).toContain('gradients: engine');
  const meshed = ['--workers', '1', '--mesh', '2x2', '--out', path.join(out, 'mesh')];
  const mesh = runWith({ CPU_NUM_DEVICES: '4' }, 'torch-tpu', ...meshed);
  expect(mesh).toContain('1 worker(s) on cpu, mesh 2 x 2');
  losses(mesh).forEach((loss, i) => expect(loss).toBeCloseTo(losses(two)[i]!, 2));
  const more = run('torch-tpu', '--out', path.join(out, 'workers'), '--epochs', '9');
  expect(curve(more).slice(0, 8)).toEqual(curve(two));
  expect(curve(more).length).toBe(9);
});

// One after the other about 2 minutes each on two cores.
test.each([0, 1, 2].slice(0, times(1, 3)))('recover.ts gives a student of 2 bits its quality back, seed %i', (seed) => {
  const output = run('recover', '--seed', String(seed));
  const [teacher, broken, recovered] = numbers(output, /^ {2}\w.*? ([\d.]+) +\d+ KiB/gm) as [number, number, number];
  expect(teacher).toBeLessThan(1.9); // a token of 512 at random: 512
  expect(broken).toBeGreaterThan(1.1 * teacher);
  expect((broken - recovered) / (broken - teacher)).toBeGreaterThan(0.75);
  expect(numbers(output, /([\d.]+) bits a weight/g)[0]).toBeLessThan(2.1);
  const size = (name: string) => statSync(path.join(out, name)).size;
  const packed = size('student/model.packed.safetensors') + size('run/adapters/adapter_model.safetensors');
  expect(packed).toBeLessThan(size('teacher/model.safetensors') / 3);
});
