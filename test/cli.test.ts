// The command, as a person meets it.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readSafetensors, writeSafetensors } from 'tsxla/io';
import { afterAll, describe, expect, test } from 'vitest';
import { goldenPath, tsxla } from './support.js';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-cli-'));
afterAll(() => fs.rmSync(dir, { recursive: true }));
const file = (name: string) => path.join(dir, name);

describe('hlo run', () => {
  const kept = { TSXLA_CACHE: 'on', XLA_PERSISTENT_CACHE_PATH: file('programs') }; // two runs, one compile
  test("a training step that JAX lowered, 117 inputs: every output is JAX's to 1e-5", async () => {
    const out = file('outputs.safetensors');
    const { status, stdout } = await tsxla(
      [
        'hlo',
        'run',
        goldenPath('gpt-step.mlir'),
        '--inputs',
        goldenPath('gpt-step.inputs.safetensors'),
        '--outputs',
        out,
        '--device',
        'cpu',
      ],
      kept,
    );
    expect(status).toBe(0);
    expect(stdout).toContain('117 inputs, 116 outputs, 115 donated');
    const ours = await readSafetensors(out);
    const theirs = await readSafetensors(goldenPath('gpt-step.outputs.safetensors'));
    expect(ours.size).toBe(116);
    for (const [name, { data, dtype, shape }] of theirs) {
      expect(ours.get(name)).toMatchObject({ dtype, shape });
      const got = ours.get(name)!.data;
      data.forEach((want, i) =>
        expect(Math.abs(Number(got[i]) - Number(want)), `${name}[${i}]`).toBeLessThan(
          1e-7 + 1e-5 * Math.abs(Number(want)),
        ),
      );
    }
  });

  test('again and again, with the state fed back', async () => {
    const { stdout } = await tsxla(
      [
        'hlo',
        'run',
        goldenPath('gpt-step.mlir'),
        '--inputs',
        goldenPath('gpt-step.inputs.safetensors'),
        '--repeat',
        '30',
        '--json',
        '--outputs',
        file('later.safetensors'),
      ],
      { PJRT_DEVICE: 'CPU', ...kept },
    );
    expect(JSON.parse(stdout)).toMatchObject({ inputs: 117, donated: 115, runs: { count: 30 } });
    const loss = async (name: string) => Number((await readSafetensors(name)).get('out115')!.data[0]);
    expect(await loss(file('later.safetensors'))).toBeLessThan(await loss(goldenPath('gpt-step.outputs.safetensors')));
  });

  test('on four devices, and the optimized HLO written', async () => {
    const { stdout } = await tsxla([
      'hlo',
      'run',
      goldenPath('mlir/spmd.mlir'),
      '--random-inputs',
      '--seed',
      '7',
      '--hlo',
      file('spmd.hlo'),
    ]);
    expect(stdout).toContain('spmd.mlir on 4 devices');
    expect(fs.readFileSync(file('spmd.hlo'), 'utf8')).toContain('all-reduce');
    const again = await tsxla(['hlo', 'run', goldenPath('mlir/spmd.mlir'), '--random-inputs', '--seed', '7']);
    const values = (text: string) => text.split('\n').filter((line) => /out\d/.test(line));
    expect(values(again.stdout)).toEqual(values(stdout)); // the seed decides
  });

  const refused = async (...args: string[]) => {
    const { status, stdout, stderr } = await tsxla(['hlo', 'run', ...args]);
    expect([status, stdout]).toEqual([1, '']);
    return stderr;
  };
  test('no such file', async () =>
    expect(await refused('none.mlir')).toBe(
      "error: cannot read none.mlir: ENOENT: no such file or directory, open 'none.mlir'\n",
    ));
  test('a syntax error, by file, line and column', async () => {
    expect(await refused(goldenPath('mlir/malformed.mlir'))).toMatch(
      /^error: .*malformed\.mlir:4:\d+: error: expected SSA operand/,
    );
  });
  test.each(['100000', '2147483648', '99999999999999999999'])('a module for %s devices', async (count) => {
    const module = file('many.mlir');
    fs.writeFileSync(
      module,
      `module @many attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = ${count} : i32} {
         func.func public @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> } }`,
    );
    const { status, stderr } = await tsxla(['hlo', 'run', module, '--random-inputs', '--device', 'cpu']);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^error: .*many\.mlir needs (\d+|1e\+20) devices .*, but the CPU has at most 2048 virtual ones: /,
    );
  });

  test('no inputs', async () => {
    expect(await refused(goldenPath('mlir/add.mlir'))).toMatch(
      /add\.mlir takes 2 inputs: pass --inputs FILE\.safetensors or --random-inputs\n$/,
    );
  });
  test('inputs that lack one, or are of the wrong type', async () => {
    const array = (n: number) => ({ dtype: 'f32', shape: [n], data: new Float32Array(n) }) as const;
    await writeSafetensors(file('few.safetensors'), new Map([['arg0', array(4)]]));
    expect(await refused(goldenPath('mlir/add.mlir'), '--inputs', file('few.safetensors'))).toMatch(
      /few\.safetensors has no arg1: .*add\.mlir takes 2 inputs, named arg0 to arg1\n$/,
    );
    await writeSafetensors(
      file('odd.safetensors'),
      new Map([
        ['arg0', array(4)],
        ['arg1', array(5)],
      ]),
    );
    expect(await refused(goldenPath('mlir/add.mlir'), '--inputs', file('odd.safetensors'))).toBe(
      'error: execute add: argument 1 is f32[5], but the program takes f32[4]\n',
    );
  });
  test('a device that is not there, before anything is fetched', async () => {
    expect(await refused(goldenPath('mlir/add.mlir'), '--random-inputs', '--device', 'tpu')).toMatch(
      /^error: this machine has no TPU/,
    );
  });
  test('an option that does not exist', async () => {
    expect(await refused(goldenPath('mlir/add.mlir'), '--repeat', '0')).toContain('must be at least 1');
    expect(await refused(goldenPath('mlir/add.mlir'), '--repeat', 'often')).toContain(
      "argument 'often' is invalid. not a whole number",
    );
  });
});

describe('bad command lines end in one sentence', () => {
  const add = ['hlo', 'run', goldenPath('mlir/add.mlir'), '--device', 'cpu'];
  const empty = 'has an empty value: give one, or leave the option out\n';
  const at = (name: string) => path.join(dir, name);
  fs.writeFileSync(at('empty'), '');
  spawnSync('mkfifo', [at('pipe')]);
  test.each<[string, string[], string, Record<string, string>?]>([
    ['--outputs', [...add, '--random-inputs', '--outputs', ''], `option '--outputs <file>' ${empty}`],
    ['--hlo', [...add, '--random-inputs', '--hlo', ' '], `option '--hlo <file>' ${empty}`],
    ['--inputs', [...add, '--inputs', ''], `option '--inputs <file>' ${empty}`],
    ['an argument', ['hlo', 'run', ''], "argument 'file' is empty: give one\n"],
    ['one of a list', ['plan', '--model', 'x', '--job', 'full', '--tpu', 'v6e-1,,'], `option '--tpu <names>' ${empty}`],
    [
      '--topology',
      ['hlo', 'compile', add[2]!, '--topology', ''],
      "option '--topology <name>' has an empty value: give one\n",
    ],
    ['an empty file', ['hlo', 'run', at('empty')], `${at('empty')} is empty: it must contain a StableHLO module\n`],
    [
      'a pipe',
      [...add, '--inputs', at('pipe')],
      `cannot read ${at('pipe')}: it is a pipe, but random access is needed: write it to a file first\n`,
    ],
    [
      'below a file',
      [...add, '--random-inputs', '--outputs', `${at('empty')}/x`],
      `cannot write ${at('empty')}/x: ENOTDIR`,
    ],
    ['no programs', ['cache'], 'cannot read the program cache: ENOTDIR', { TSXLA_CACHE_DIR: at('empty') }],
    ['/proc', ['plugins', 'install', 'cpu'], 'cannot write to /proc/x/plugins: ENOENT', { TSXLA_CACHE_DIR: '/proc/x' }],
  ])('%s', async (_, args, said, env = {}) => {
    const { status, stderr } = await tsxla(args, env);
    expect(status).toBe(1);
    expect(stderr.startsWith(`error: ${said}`), stderr).toBe(true);
    expect(stderr.split('\n')).toHaveLength(2);
  });
});

test('output that is not read is no error', () => {
  const main = path.join(import.meta.dirname, '../dist/cli/main.js');
  const { status, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', `node ${main} plugins | head -1`], {
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([0, '']);
});

describe('doctor', () => {
  test('is content on the CPU', async () => {
    const { status, stdout } = await tsxla(['doctor'], { PJRT_DEVICE: 'CPU' });
    expect(status).toBe(0);
    expect(stdout).toMatch(/ok {5}cpu {3}1 device\n.*PJRT C API 0\.81.*\n +cpu:0: matmul 256 right in/);
    expect(stdout).toContain('All is well: cpu works.');
  });
  test('says it as JSON too', async () => {
    const { stdout } = await tsxla(['doctor', '--json'], { PJRT_DEVICE: 'CPU', CPU_NUM_DEVICES: '2' });
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      ok: true,
      node: process.versions.node,
      defaultDevice: { device: 'cpu', why: 'PJRT_DEVICE=CPU' },
    });
    expect(report.devices.map((d: { device: string }) => d.device)).toEqual(['cpu', 'cuda', 'tpu', 'mps']);
    expect(report.devices[0].chips).toMatchObject(['cpu:0', 'cpu:1'].map((name) => ({ name, correct: true })));
  });
  test('exits 1 and says what to do when the default device does not work', async () => {
    const { status, stdout } = await tsxla(['doctor'], { PJRT_DEVICE: 'CPU', TSXLA_PLUGIN_CPU: file('none.so') });
    expect(status).toBe(1);
    expect(stdout).toMatch(/FAILED cpu .*TSXLA_PLUGIN_CPU/);
    expect(stdout).toContain('cpu, the default device, does not work.');
  });
  test('a device that does not exist', async () => {
    const { status, stderr } = await tsxla(['doctor'], { PJRT_DEVICE: 'NPU' });
    expect([status, stderr]).toEqual([1, 'error: PJRT_DEVICE=NPU is not a device: use CPU, CUDA, TPU or MPS\n']);
  });
});

describe('a word that is misspelled is named, with the one that is meant', () => {
  test.each([
    [
      'an option, though a required one is missing',
      ['generate', '--modle', 'x'],
      "unknown option '--modle'\n(Did you mean --model?)",
    ],
    ['a command', ['docter'], "unknown command 'docter'\n(Did you mean doctor?)"],
    ['a command after help', ['help', 'docter'], "unknown command 'docter'\n(Did you mean doctor?)"],
    [
      'a command of a command after help',
      ['help', 'ray', 'sbumit'],
      "unknown command 'sbumit'\n(Did you mean submit?)",
    ],
    ['nothing: the option is missing', ['generate'], "required option '-m, --model <name>' not specified"],
  ] as const)('%s', async (_, args, text) => {
    const { status, stdout, stderr } = await tsxla(args);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`error: ${text}`);
    expect(stderr).not.toContain('Usage');
  });

  test.each([
    [['help', 'ray', 'submit'], 'Usage: tsxla ray submit [options] <script> [args...]'],
    [['help', 'doctor'], 'Usage: tsxla doctor [options]'],
    [['help'], 'Usage: tsxla [options] [command]'],
  ] as const)('tsxla %j shows its help', async (args, usage) => {
    const { status, stdout } = await tsxla(args);
    expect(status).toBe(0);
    expect(stdout.startsWith(usage), stdout).toBe(true);
  });
});
