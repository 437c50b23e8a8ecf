// The roofline against reality: what src/plan predicts for a program on an H200, over what the H200 takes.
//   node bench/roofline-cuda.mjs [gpt recovery matmul adam]     after npm run build, on a machine with an H200
// Every program runs in a process of its own; its optimized HLO is left in $OUT (or .) with what was measured, and
//   node bench/roofline-cuda.mjs --predict FILE.hlo.gz ...       predicts again from those, anywhere
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Client, readModule } from '../dist/pjrt/index.js';
import { costOf, estimate, findChip } from '../dist/plan/index.js';

const here = fileURLToPath(import.meta.url);
const out = process.env.OUT ?? '.';
const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1];
const ms = (seconds) => `${(seconds * 1e3).toFixed(2)} ms`;

/** Each gives the milliseconds of one step, many started one after the other. A tiny one shows anywhere that it works. */
const PROGRAMS = {
  gpt: (tiny) => printedBy('gpt-cuda.mjs', [tiny ? 'tiny' : 'large']),
  recovery: (tiny) => printedBy('recovery-cuda.mjs', tiny ? ['--tiny', '--steps', '2'] : []),
  /** Eight products, one after the other: limited by arithmetic. */
  async matmul(tiny) {
    const tx = await import('../dist/index.js');
    const n = tiny ? 64 : 8192;
    const make = () =>
      tx
        .randn([n, n])
        .mul(n ** -0.5)
        .to('bf16');
    const [x, w] = [make(), make()];
    await tx.sync();
    return timed(
      tx.compile(function train(x) {
        let y = x;
        for (let i = 0; i < 8; i++) y = y.matmul(w);
        return y.sum();
      }),
      [x],
    );
  },
  /** Adam on 10^9 parameters: limited by memory. */
  async adam(tiny) {
    const tx = await import('../dist/index.js');
    const shape = tiny ? [10, 100] : [1000, 1_000_000];
    const p = new tx.nn.Parameter(tx.randn(shape));
    const g = tx.randn(shape);
    const optimizer = new tx.optim.Adam([p], { lr: 1e-3 });
    await tx.sync();
    return timed(
      tx.compile(function train() {
        p.mul(g).sum().backward();
        optimizer.step();
        optimizer.zeroGrad();
        return p.narrow(0, 0, 1).narrow(1, 0, 1).sum();
      }),
      [],
    );
  },
};

async function timed(train, args, steps = 20) {
  for (let i = 0; i < 3; i++) await (await train(...args)).item();
  const times = [];
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    let last;
    for (let i = 0; i < steps; i++) last = await train(...args);
    await last.item();
    times.push((performance.now() - start) / steps);
  }
  return median(times);
}

/** Runs another benchmark as its user would, and reads what it prints of steps that are not waited for. */
async function printedBy(file, args) {
  process.argv = [process.argv[0], file, ...args];
  const { log } = console;
  let text = '';
  console.log = (...words) => {
    text += `${words.join(' ')}\n`;
    log(...words);
  };
  await import(new URL(file, import.meta.url).href);
  const [, found] = /([\d.]+) without waiting/.exec(text) ?? /([\d.]+) ms\/step/.exec(text) ?? [];
  if (!found) throw new Error(`${file} printed no time of a step:\n${text}`);
  return Number(found);
}

function report(name, module, measured) {
  const cost = costOf(module);
  const e = estimate(cost, findChip('h200'));
  const kernels = cost.kernels.reduce((n, k) => n + k.times, 0);
  const ratio = measured ? `, measured ${ms(measured)}, predicted/measured ${(e.seconds / measured).toFixed(2)}` : '';
  console.log(`${name}: predicted ${ms(e.seconds)}${ratio}`);
  console.log(
    `  ${kernels} kernels, ${(cost.flops / 1e12).toFixed(3)} TFLOP (${(cost.productFlops / 1e12).toFixed(3)} in products), ` +
      `${(cost.bytes / 1e9).toFixed(2)} GB; arithmetic alone ${ms(e.computeSeconds)}, memory alone ${ms(e.memorySeconds)}`,
  );
  for (const k of e.heaviest.slice(0, 5)) console.log(`  ${ms(k.seconds)}  ${k.times} x ${k.name} ${k.source ?? ''}`);
}

async function run(name, tiny) {
  const compiled = [];
  const { compile } = Client.prototype;
  Client.prototype.compile = async function (...args) {
    const executable = await compile.apply(this, args);
    if (executable.name === 'train') compiled.push(await executable.optimizedProgram());
    return executable;
  };
  const measured = (await PROGRAMS[name](tiny)) / 1e3;
  const [bytes, format] = compiled[0];
  writeFileSync(`${out}/${name}.hlo.gz`, gzipSync(bytes));
  writeFileSync(`${out}/${name}.json`, JSON.stringify({ name, format, measured }));
  report(name, readModule(bytes, format), measured);
}

const [first, ...rest] = process.argv.slice(2);
if (first === '--predict') {
  for (const file of rest) {
    const { name, format, measured } = JSON.parse(readFileSync(file.replace('.hlo.gz', '.json'), 'utf8'));
    report(name, readModule(gunzipSync(readFileSync(file)), format), measured);
  }
} else if (first === '--run') {
  await run(rest[0], rest[1] === 'tiny');
  process.exit(0); // whatever else a benchmark keeps open
} else {
  const tiny = first === '--tiny' ? ['tiny'] : [];
  const names = (tiny.length ? rest : [first, ...rest]).filter(Boolean);
  for (const name of names.length ? names : Object.keys(PROGRAMS)) {
    const env = { ...process.env, TSXLA_CACHE: 'off' };
    const { status } = spawnSync(process.execPath, [here, '--run', name, ...tiny], { stdio: 'inherit', env });
    if (status) console.log(`${name}: failed with status ${status}`);
  }
}
