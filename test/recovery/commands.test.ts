// `tsxla quantize`, `merge-lora` and `eval-perplexity`, as a user runs them on a small model.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { loadStudent } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { folderOf } from '../models/support.js';
import { golden, goldenPath, tsxla } from '../support.js';
import { file, furthest, logits, newFolder } from './support.js';

const tied = folderOf('tied');
const text = file('text.txt', JSON.parse(golden('perplexity.json')).text);
const [student, adapters] = [newFolder(), newFolder()];
const quantized = await tsxla([
  'quantize',
  '-m',
  tied,
  '-o',
  student,
  '--preset',
  'q2a2',
  '--scale-rank',
  '2',
  '--scale-dtype',
  'f16',
]);

// Adapters that learned the text: the perplexity of the student with them is lower.
const { model: adapted } = await loadStudent(student, { dtype: 'f32' });
tx.manualSeed(1);
tx.lora.addLora(adapted, { rank: 2, alpha: 4, targets: ['mlp.up_proj', 'q_proj'] });
const optimizer = new tx.optim.AdamW(
  adapted.parameters().filter((p) => p.requiresGrad),
  { lr: 2e-2 },
);
const tokens = adapted.tokenizer!.encode(fs.readFileSync(text, 'utf8')).slice(0, 4 * 128);
const batch = tx.tensor(Int32Array.from(tokens), { shape: [4, 128] });
const learn = tx.compile(() => {
  optimizer.zeroGrad();
  adapted.loss(batch).backward();
  optimizer.step();
});
for (let i = 0; i < 40; i++) await learn();
await tx.lora.saveAdapters(adapted, adapters);

const sizeOf = (folder: string, name: string) => fs.statSync(path.join(folder, name)).size;
const perplexityOf = async (...args: string[]): Promise<number> => {
  const { stdout, stderr } = await tsxla(['eval-perplexity', '-d', text, '-l', '64', '--json', ...args]);
  if (!stdout) throw new Error(stderr);
  return JSON.parse(stdout).perplexity;
};

test('quantize: layers with bits, sizes and errors; the files that they became, and their size', () => {
  expect(quantized.status, quantized.stderr).toBe(0);
  expect(quantized.stderr).toMatch(/quantizing: 14 of 14 linears\n$/);
  expect(quantized.stderr).not.toContain('compiled again'); // several shapes are no mistake here
  expect(quantized.stdout).toMatch(
    /model\.layers\.\*\.mlp\.up_proj +2 x +2 bits +16\.0 KiB to 4\.03 KiB +error 3\d\.\d%\n/,
  );
  expect(quantized.stdout).toMatch(
    /: 14 linears quantized, 143 KiB to [67]\d\.\d KiB on disk, error 3\d\.\d%, in [\d.]+ m?s\n$/,
  );
  expect(fs.readdirSync(student).sort()).toEqual(
    [
      'config.json',
      'generation_config.json',
      'model.packed.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ].sort(),
  );
});

test('eval-perplexity: of the teacher, of the student, and of the student with adapters', async () => {
  const { stdout, stderr } = await tsxla(['eval-perplexity', '-m', tied, '-d', text, '-l', '64', '-b', '8']);
  const [, teacher] = /^perplexity ([\d.]+) \(loss \d\.\d{4} over 775 tokens\), in .*s\n$/.exec(stdout)!;
  expect(stderr).toMatch(/eval-perplexity: 13 of 13 rows\n$/);
  const broken = await perplexityOf('-m', student);
  expect(broken).toBeGreaterThan(Number(teacher));
  expect(await perplexityOf('-m', student, '-a', adapters)).not.toBeCloseTo(broken, 1);
});

test('merge-lora keeps what the adapters learned; quantized again, it says what that loses', async () => {
  const [dense, packed] = [newFolder(), newFolder()];
  const merge = async (...args: string[]) => {
    const ran = await tsxla(['merge-lora', '-m', student, '-a', adapters, '--eval-data', text, '-l', '64', ...args]);
    expect(ran.status, ran.stderr).toBe(0);
    return ran;
  };
  const whole = JSON.parse((await merge('-o', dense, '--json')).stdout);
  expect(whole).toMatchObject({ form: 'plain', bytes: sizeOf(dense, 'model.safetensors') });
  expect(whole.error).toBeLessThan(0.003); // it is rounded to bf16
  expect(whole.kl).toBeLessThan(1e-3);
  const { base: before, adapters: adapted, merged: after } = whole.perplexity;
  expect(adapted).toBeLessThan(0.9 * before);
  expect(Math.abs(after - adapted)).toBeLessThan(0.05 * (before - adapted));
  expect(await perplexityOf('-m', dense)).toBeCloseTo(after, 3);
  const wanted = await logits((await loadStudent(student, { dtype: 'f32', adapters })).model);
  const base = await logits((await loadStudent(student, { dtype: 'f32' })).model);
  const merged = await logits((await loadStudent(dense, { dtype: 'f32' })).model);
  expect(furthest(merged, wanted)).toBeLessThan(0.1 * furthest(base, wanted));

  const again = await merge('-o', packed, '--requantize');
  expect(again.stdout).toMatch(
    /: 4 adapters merged, packed, .* KiB, in .*s\nweights differ from base plus adapters by \d+\.\d\d%; on a probe the logits have a KL divergence of [\d.e-]+, and \d+% of.*\nperplexity: base [\d.]+, with adapters [\d.]+, merged [\d.]+\n$/,
  );
  expect(again.stderr).toMatch(
    /warning: quantizing again lost \d+% of what the adapters gained: leave --requantize out for a plain model/,
  );
  expect(sizeOf(packed, 'model.packed.safetensors')).toBe(sizeOf(student, 'model.packed.safetensors'));
  expect(furthest(await logits((await loadStudent(packed, { dtype: 'f32' })).model), wanted)).toBeLessThan(
    furthest(base, wanted),
  );
});

test('generate reads quantized students, with adapters', async () => {
  const args = [
    'generate',
    '-m',
    student,
    '--adapters',
    adapters,
    '--tokens',
    '1,5,9',
    '--greedy',
    '-n',
    '3',
    '--json',
  ];
  expect(JSON.parse((await tsxla(args)).stdout).tokens.length).toBe(3);
});

const gone = '/nowhere/at/all';
const out = newFolder();
// biome-ignore format: a table
test.each<[string, string[], string]>([
  ['quantize: no such folder', ['quantize', '-m', gone, '-o', out], 'error: /nowhere/at/all is neither an existing folder'],
  ['quantize: what is quantized already', ['quantize', '-m', student, '-o', out], 'is quantized already: pass the model it was made from'],
  ['quantize: over the model', ['quantize', '-m', tied, '-o', tied], 'the folder the model is read from: use another folder'],
  ['quantize: a preset that is not there', ['quantize', '-m', tied, '-o', out, '--preset', 'q3'], "'q3' is invalid. Allowed choices are q2a4, q4a4, q4a4_r32, q2a2"],
  ['quantize: a rank of 0', ['quantize', '-m', tied, '-o', out, '--scale-rank', '0'], 'scaleRank is 0: it must be a whole number, at least 1'],
  ['merge-lora: no adapters', ['merge-lora', '-m', student, '-o', out], 'contains no adapters: pass them with --adapters'],
  ['merge-lora: adapters that are not there', ['merge-lora', '-m', student, '-o', out, '-a', gone], 'adapters: /nowhere/at/all does not exist'],
  ['merge-lora: adapters of another model', ['merge-lora', '-m', folderOf('untied'), '-o', out, '-a', goldenPath('lora/peft')], 'is not for this Qwen3ForCausalLM'],
  ['merge-lora: two ways at once', ['merge-lora', '-m', student, '-o', out, '-a', adapters, '--dense', '--requantize'], "'--dense' cannot be used with option '--requantize'"],
  ['merge-lora: no such text', ['merge-lora', '-m', student, '-o', out, '-a', adapters, '--eval-data', 'gone.txt'], 'there is no file gone.txt'],
  ...[['quantize', '-m', tied], ['merge-lora', '-m', student, '-a', adapters]].flatMap(([command, ...args]): [string, string[], string][] => [
    [`${command}: below a file`, [command!, ...args, '-o', path.join(text, 'sub')], 'text.txt is a file: give another folder'],
    [`${command}: no name`, [command!, ...args, '-o', ''], "--output '': the name is empty: give a folder"],
    [`${command}: where no folder can be`, [command!, ...args, '-o', '/proc/x/y'], '--output /proc/x/y: the folder cannot be created'],
  ]),
  ['eval-perplexity: no such file', ['eval-perplexity', '-m', tied, '-d', 'gone.txt', '-l', '8'], 'there is no file gone.txt'],
  ['eval-perplexity: rows too long', ['eval-perplexity', '-m', tied, '-d', text, '-l', '1024'], '--sequence-length is 1024, but the model has 256 positions'],
  ['eval-perplexity: a device that is not there', ['eval-perplexity', '-m', tied, '-d', text, '--device', 'tpu'], 'this machine has no TPU'],
])('%s: a sentence, and nothing is compiled', async (_, args, said) => {
  const { status, stderr, stdout } = await tsxla(args);
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain(said);
  expect(stderr).not.toContain('    at ');
  expect(stderr).not.toContain('compil');
  expect(fs.existsSync(out)).toBe(false);
});
