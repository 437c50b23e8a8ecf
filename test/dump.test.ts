// Graphs as text: the listings, the files that PyTorch/XLA's scripts read, and the user's lines in XLA's own programs.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { withoutLocations } from '../dist/runtime/cache-key.js';
import { counts } from '../dist/runtime/program.js';
import { defaultClient } from '../dist/runtime/value.js';

const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-dump-'));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => void vi.unstubAllEnvs());

const x = tx.tensor([
  [1.5, 2],
  [3, 4],
]);
/** Without the places of the tensors, which are lines of this file. */
const withoutPlaces = (text: string) => text.replaceAll(/the tensor made at [^\s",]*/g, 'the tensor');

describe('graphText', () => {
  beforeEach(() => tx.sync());

  test('lists every operation with its type, inputs and attributes', () => {
    const y = x.sum(1).add(2);
    expect(withoutPlaces(tx.graphText([y, y.gt(0)]))).toBe(`IR {
  %0 = f32[2,2]{1,0} xla::device_data(), label=the tensor
  %1 = f32[2]{0} xla::reduceSum(%0), dims=(1)
  %2 = f32[2]{0} prim::Constant(), value=2.0
  %3 = f32[2]{0} xla::add(%1, %2), ROOT=0
  %4 = f32[2]{0} prim::Constant(), value=0.0
  %5 = pred[2]{0} xla::compare(%3, %4), direction=GT, ROOT=1
}
`);
  });

  test('a body is listed inside, and several results are a tuple', () => {
    const [, ys] = tx.scan((c, row: tx.Tensor) => [c.add(row), c.mul(row)], tx.zeros([2]), x);
    expect(withoutPlaces(tx.graphText(ys))).toBe(`IR {
  %0 = f32[2]{0} prim::Constant(), value=0.0
  %1 = f32[2,2]{1,0} xla::device_data(), label=the tensor
  %2 = (f32[2]{0}, f32[2,2]{1,0}) xla::scan(%0, %1), body=IR {
    %0 = f32[2]{0} xla::parameter(), index=0
    %1 = f32[2]{0} xla::parameter(), index=1
    %2 = f32[2]{0} xla::add(%0, %1), ROOT=0
    %3 = f32[2]{0} xla::mul(%0, %1), ROOT=1
  }, length=2, fixed=0, carried=1, reverse=false, unroll=1, checkpoint=false
  %3 = f32[2,2]{1,0} xla::pick(%2), index=1, ROOT=0
}
`);
  });

  test('for Graphviz', () => {
    const text = withoutPlaces(tx.graphText(x.add(x).sqrt(), { format: 'dot' }));
    expect(text).toBe(`digraph G {
  node0 [label="xla::device_data\\nf32[2,2]{1,0}\\nlabel=the tensor"]
  node1 [label="xla::add\\nf32[2,2]{1,0}"]
  node2 [label="xla::sqrt\\nf32[2,2]{1,0}\\nROOT=0"]
  node1 -> node2
  node0 -> node1 [label="i=0"]
  node0 -> node1 [label="i=1"]
}
`);
  });

  test('is of all that was changed in place, without tensors, and runs nothing', async () => {
    expect(tx.graphText()).toBe('IR {\n}\n');
    const w = tx.ones([2]);
    w.mul_(3);
    const before = { ...counts };
    const text = tx.graphText();
    expect(text).toContain('%2 = f32[2]{0} xla::mul(%0, %1), ROOT=0');
    expect(tx.graphText()).toBe(text); // still to be computed
    tx.getStablehlo(w);
    expect(counts).toEqual(before);
    expect(await w.tolist()).toEqual([3, 3]);
    expect(withoutPlaces(tx.graphText(w))).toBe(
      'IR {\n  %0 = f32[2]{0} xla::device_data(), label=the tensor, ROOT=0\n}\n',
    );
    expect(tx.graphText()).toBe('IR {\n}\n');
  });

  test('inside a step and inside a body', async () => {
    const w = tx.ones([2]);
    const texts: string[] = [];
    const y = await tx.step(() => {
      w.mul_(2);
      const body = (c: tx.Tensor) => {
        texts.push(tx.getStablehlo(c.add(1)));
        return [c.add(1), c] as const;
      };
      const [last] = tx.scan(body, w, tx.zeros([3]));
      texts.push(tx.getStablehlo(w));
      return last;
    });
    expect(texts.map((t) => t.match(/stablehlo\.(add|multiply)"/)![1])).toEqual(['add', 'multiply']);
    expect(await y.tolist()).toEqual([5, 5]);
    expect(await w.tolist()).toEqual([2, 2]);
  });

  test('getStablehlo is a program that computes the tensors', async () => {
    const client = await defaultClient();
    const executable = await client.compile(tx.getStablehlo([x.matmul(x), x.sum()]));
    const data = client.bufferFromHost(Float32Array.of(1.5, 2, 3, 4), { dtype: 'f32', shape: [2, 2] });
    const { outputs } = executable.execute([data]);
    expect([...(await outputs[0]!.toHost())]).toEqual([8.25, 11, 16.5, 22]);
    expect([...(await outputs[1]!.toHost())]).toEqual([10.5]);
  });

  test('what it does not understand', () => {
    expect(() => tx.graphText([1] as never)).toThrow('graphText: takes tensors, got the number 1');
    expect(() => tx.graphText(x, { format: 'hlo' as never })).toThrow(
      'graphText: unknown format hlo: use one of text, dot, stablehlo',
    );
  });
});

/** Reads a file as PyTorch/XLA's scripts/grab_graphs.py does. */
function readAsTheirScript(text: string) {
  const graphs: { graph: string[]; frame: string[] }[] = [];
  let graph: string[] | undefined;
  let frame: string[] | undefined;
  let lastFrame: string[] | undefined;
  for (const line of text.split('\n')) {
    if (frame) {
      if (/^\s*$/.test(line)) [lastFrame, frame] = [frame, undefined];
      else frame.push(line);
    } else if (graph) {
      if (line === '## END_GRAPH') {
        graphs.push({ graph, frame: lastFrame! });
        graph = undefined;
      } else graph.push(line);
    } else if (line === 'TensorsGraphInfo:') frame = [];
    else if (line === '## BEGIN_GRAPH') graph = [];
  }
  return graphs.map(({ graph, frame }) => ({ hash: graph.at(-2)!, text: graph.slice(0, -2).join('\n'), frame }));
}

describe('XLA_SAVE_TENSORS_FILE', () => {
  let files = 0;
  const save = (format: string) => {
    const file = path.join(folder, `${files++}.txt`);
    vi.stubEnv('XLA_SAVE_TENSORS_FILE', file);
    vi.stubEnv('XLA_SAVE_TENSORS_FMT', format);
    return { file, graphs: () => readAsTheirScript(readFileSync(file, 'utf8')) };
  };

  test('has a block for each run, the first before it is compiled', async () => {
    const { file, graphs } = save('');
    const train = tx.compile(function train(x: tx.Tensor) {
      return x.mul(17).sum();
    });
    for (let i = 0; i < 3; i++) await train(x);
    const text = readFileSync(file, 'utf8');
    const block = text.slice(0, text.indexOf('[', 1 + text.indexOf('## END_GRAPH')));
    const place = `${import.meta.filename}:\\d+`;
    expect(block).toMatch(
      new RegExp(`^\\[ScheduleSyncTensorsGraph\\]
Graph Name: train
TensorsGraphInfo:
  .* \\(${place}\\)
(?:  .* \\(.*:\\d+\\)
)*
Root Hashes: \\([0-9a-f]{32}\\)

## BEGIN_GRAPH
IR \\{
  %0 = f32\\[2,2\\]\\{1,0\\} xla::device_data\\(\\), label=argument \\[0\\]
  %1 = f32\\[2,2\\]\\{1,0\\} prim::Constant\\(\\), value=17.0
  %2 = f32\\[2,2\\]\\{1,0\\} xla::mul\\(%0, %1\\)
  %3 = f32\\[\\] xla::reduceSum\\(%2\\), dims=\\(0, 1\\), ROOT=0
\\}

Graph Hash: [0-9a-f]{32}

## END_GRAPH

$`),
    );
    expect(graphs().map((g) => g.hash)).toEqual(Array(3).fill(graphs()[0]!.hash));
    expect(graphs()[0]!.hash).toMatch(/^Graph Hash: /);
  });

  test('shows what a step changes in place, and what reading computes', async () => {
    const { graphs } = save('text');
    const w = tx.ones([3]);
    await tx.sync(w);
    await tx.step(() => void w.add_(0.25));
    await w.mul(18).tolist();
    const [, step, read] = graphs();
    expect(withoutPlaces(step!.text)).toContain('%0 = f32[3]{0} xla::device_data(), label=the tensor, alias=0\n');
    expect(read!.text).toContain('prim::Constant(), value=18.0');
    expect(read!.frame[0]).toContain(import.meta.filename);
  });

  test.each([
    ['dot', /^digraph G \{\n {2}node0 \[label="xla::device_data\\n/],
    ['stablehlo', /^module @mul \{\nfunc\.func public @main\(%a0: tensor<2x2xf32>\)/],
    ['hlo', /^HloModule mul, is_scheduled=true/],
  ])('as %s', async (format, text) => {
    const { graphs } = save(format);
    const mul = tx.compile((x: tx.Tensor) => x.mul(20 + files), { name: 'mul' });
    await mul(x);
    await mul(x);
    expect(graphs()).toHaveLength(2);
    for (const g of graphs()) expect(g.text).toMatch(text);
  });

  test('other processes write files of their own', async () => {
    const { file } = save('text');
    vi.stubEnv('PJRT_LOCAL_PROCESS_RANK', '2');
    await x.mul(19).tolist();
    expect(existsSync(file)).toBe(false);
    expect(readFileSync(`${file}.2`, 'utf8')).toContain('value=19.0');
  });

  test('a file that cannot be written is said once, and no run ends for it', async () => {
    const written: string[] = [];
    const stderr = vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
    vi.stubEnv('XLA_SAVE_TENSORS_FILE', path.join(folder, 'nowhere', 'save.txt'));
    vi.stubEnv('TSXLA_LOG', '');
    for (const n of [30, 31]) expect(await x.sum().mul(n).item()).toBe(10.5 * n);
    stderr.mockRestore();
    expect(written.join('')).toMatch(/^tsxla: XLA_SAVE_TENSORS_FILE=\S+save\.txt cannot be written: ENOENT[^\n]*\n$/);
  });

  test('a format that does not exist', async () => {
    save('svg');
    await expect(x.mul(32).tolist()).rejects.toThrow(
      'XLA_SAVE_TENSORS_FMT=svg is not a format: use one of text, dot, hlo, stablehlo',
    );
  });
});

describe("the user's lines", () => {
  const here = (offset: number) => Number(/dump\.test\.ts:(\d+)/.exec(new Error().stack!.split('\n')[2]!)![1]) + offset;

  test('XLA_HLO_DEBUG=1 puts them into the program, and XLA keeps them', async () => {
    vi.stubEnv('XLA_HLO_DEBUG', '1');
    const line = here(1);
    const y = x.tanh();
    expect(tx.getStablehlo(y)).toMatch(
      new RegExp(`-> tensor<2x2xf32> loc\\("${import.meta.filename}":${line}:\\d+\\)\n`),
    );
    const file = path.join(folder, 'debug.hlo');
    vi.stubEnv('XLA_SAVE_TENSORS_FILE', file);
    vi.stubEnv('XLA_SAVE_TENSORS_FMT', 'hlo');
    await y.tolist();
    expect(readFileSync(file, 'utf8')).toContain(
      `), metadata={source_file="${import.meta.filename}" source_line=${line} `,
    );
  });

  test('in loops, branches and gradients too', async () => {
    vi.stubEnv('XLA_HLO_DEBUG', '1');
    const w = tx.ones([2], { requiresGrad: true });
    const [y] = tx.scan(
      (c, row: tx.Tensor) => [
        tx.cond(
          c.sum().gt(0),
          (a) => a.mul(row),
          (a) => a.sin(),
          c,
        ),
        c,
      ],
      w,
      x,
    );
    const [g] = tx.grad(y.sum(), [w]);
    const ops = tx
      .getStablehlo(g!)
      .split('\n')
      .filter((l) => / : \(.*\) -> tensor/.test(l));
    expect(ops.length).toBeGreaterThan(20);
    expect(ops.filter((l) => !l.includes(import.meta.filename))).toEqual([]);
    const client = await defaultClient();
    await client.compile(tx.getStablehlo(g!)); // MLIR reads it
    const text = tx.getStablehlo(g!);
    vi.stubEnv('XLA_HLO_DEBUG', '');
    expect(withoutLocations(text)).toBe(tx.getStablehlo(g!).trim()); // what the cache on disk goes by
  });

  test('are no part of a program: with them it is the same as without', async () => {
    const f = tx.compile((x: tx.Tensor) => x.mul(33), { name: 'f' });
    await f(x);
    const { compiled } = counts;
    vi.stubEnv('XLA_HLO_DEBUG', '1');
    await tx.compile((x: tx.Tensor) => x.mul(33), { name: 'f' })(x);
    expect(counts.compiled).toBe(compiled);
  });

  test('a path with quotes, spaces and letters of other alphabets is one that MLIR reads', async () => {
    const file = path.join(folder, 'Ünï "q" x.mjs');
    const index = new URL('../dist/index.js', import.meta.url).href;
    writeFileSync(
      file,
      `import * as tx from ${JSON.stringify(index)};
       console.log(await tx.ones([2]).mul(5).tolist());
       console.log(tx.getStablehlo(tx.ones([2])));`,
    );
    const { stdout } = await promisify(execFile)(process.execPath, [file], {
      env: { ...process.env, XLA_HLO_DEBUG: '1' },
    });
    expect(stdout).toContain('[ 5, 5 ]');
    expect(stdout).toMatch(/ loc\(".*Ünï \\"q\\" x\.mjs":3:\d+\)\n/);
  });

  test('XLA_IR_DEBUG=1 captures the whole stack, and listings say where', async () => {
    const file = path.join(folder, 'deep.mjs');
    const dist = new URL('../dist/', import.meta.url).href;
    writeFileSync(
      file,
      `import * as tx from '${dist}index.js';
       const deep = (n) => (n ? deep(n - 1) : tx.ones([2]).exp());
       const y = deep(20);
       console.log(y.expr.source.frames.length);
       console.log(tx.graphText(y));`,
    );
    const run = async (flag: string) =>
      (await promisify(execFile)(process.execPath, [file], { env: { ...process.env, XLA_IR_DEBUG: flag } })).stdout;
    expect(await run('')).toMatch(/^3\nIR \{\n.*\n {2}%1 = f32\[2\]\{0\} xla::exp\(%0\), ROOT=0\n/);
    expect(await run('1')).toMatch(
      /^22\nIR \{\n.*\n {2}%1 = f32\[2\]\{0\} xla::exp\(%0\), location=deep@deep\.mjs:2, ROOT=0\n/,
    );
  });
});
