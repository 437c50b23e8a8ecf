// PT_XLA_DEBUG: the texts, and that PyTorch/XLA's own scripts can read them.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  CAUSES,
  debugLevel,
  describeGraph,
  describePostCompilation,
  type GraphAnalysis,
  type PostCompilationAnalysis,
  printAnalysis,
  printCompilation,
  printExecution,
  printPostCompilation,
} from '../dist/observe/debug.js';
import { clearAll } from '../dist/observe/metrics.js';
import { record } from '../dist/observe/registry.js';

const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-debug-'));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => void vi.unstubAllEnvs());

const frames = (n: number) => Array.from({ length: n }, (_, i) => ({ function: `f${i}`, file: '/t.ts', line: i + 1 }));
const graph: GraphAnalysis = {
  cause: 'sync',
  hash: 'c74c3b91b855b2b123f833b0d5f86943',
  inputs: 35,
  outputs: 107,
  frames: [
    { function: 'train', file: '/home/me/train.ts', line: 48 },
    { function: '<top level>', file: '/home/me/train.ts', line: 73 },
  ],
};
const GB = 1024 ** 3;
const program: PostCompilationAnalysis = {
  hash: '0123456789abcdef0123456789abcdef',
  memory: {
    arguments: 1.548 * GB,
    outputs: 7.92246 * GB,
    aliased: 1.547871 * GB,
    temporaries: 12.124478 * GB,
    code: 0.02821 * GB,
  },
};

describe('the texts', () => {
  test('a compilation', () => {
    expect(describeGraph('compilation', graph)).toBe(`
Compilation Analysis: ================================================================================
Compilation Analysis: Compilation Cause
Compilation Analysis:   user torch_xla.sync
Compilation Analysis: Graph Info:${' '}
Compilation Analysis:   Graph Hash: c74c3b91b855b2b123f833b0d5f86943
Compilation Analysis:   Number of Graph Inputs: 35
Compilation Analysis:   Number of Graph Outputs: 107
Compilation Analysis: Python Frame Triggered Execution:${' '}
Compilation Analysis:   train (/home/me/train.ts:48)
Compilation Analysis:   <top level> (/home/me/train.ts:73)
Compilation Analysis: --------------------------------------------------------------------------------
Compilation Analysis: ================================================================================
`);
  });

  test('an execution, with a name and what we add', () => {
    const more: GraphAnalysis = {
      ...graph,
      cause: 'compile',
      name: 'train',
      cache: 'disk',
      compileSeconds: 1.2345,
      notes: ['Differs from train (c74c3b91):\n  input 3 was f32[8], is f32[7]'],
    };
    expect(describeGraph('execution', more)).toBe(`
Execution Analysis: ================================================================================
Execution Analysis: Execution Cause
Execution Analysis:   torch_xla.compile
Execution Analysis: Graph Info:${' '}
Execution Analysis:   Graph Name: train
Execution Analysis:   Graph Hash: c74c3b91b855b2b123f833b0d5f86943
Execution Analysis:   Number of Graph Inputs: 35
Execution Analysis:   Number of Graph Outputs: 107
Execution Analysis:   Cache: disk
Execution Analysis:   Compile Time: 1.23 s
Execution Analysis:   Differs from train (c74c3b91):
Execution Analysis:     input 3 was f32[8], is f32[7]
Execution Analysis: Python Frame Triggered Execution:${' '}
Execution Analysis:   train (/home/me/train.ts:48)
Execution Analysis:   <top level> (/home/me/train.ts:73)
Execution Analysis: --------------------------------------------------------------------------------
Execution Analysis: ================================================================================
`);
  });

  test('after a compilation', () => {
    const peak = { ...program.memory, peak: 20 * GB };
    expect(describePostCompilation({ ...program, memory: peak, compileSeconds: 87.1, cache: 'miss' })).toBe(`
Computation hash: 0123456789abcdef0123456789abcdef
Cache: miss
Compile Time: 87.1 s
Peak Memory: 20.0 GiB

Post Compilation Analysis: ================================================================================
Post Compilation Analysis: Graph input size: 1.548000 GB
Post Compilation Analysis: Graph output size: 7.922460 GB
Post Compilation Analysis: Aliased Input size: 1.547871 GB
Post Compilation Analysis: Intermediate tensor size: 12.124478 GB
Post Compilation Analysis: Compiled program size: 0.028210 GB
Post Compilation Analysis: --------------------------------------------------------------------------------
Post Compilation Analysis: ================================================================================
`);
  });

  test('after a compilation of which nothing is known', () => {
    expect(describePostCompilation({ hash: 'abc', memory: {} })).toBe(`
Computation hash: abc

Post Compilation Analysis: ================================================================================
Post Compilation Analysis: Graph input size: Unknown  GB
Post Compilation Analysis: Graph output size: Unknown  GB
Post Compilation Analysis: Aliased Input size: Unknown  GB
Post Compilation Analysis: Intermediate tensor size: Unknown  GB
Post Compilation Analysis: Compiled program size: Unknown  GB
Post Compilation Analysis: --------------------------------------------------------------------------------
Post Compilation Analysis: ================================================================================
`);
  });

  const shown = (n: number) => [...describeGraph('execution', { ...graph, frames: frames(n) }).matchAll(/ {2}f\d+ /g)];
  test('8 frames, or as many as PT_XLA_DEBUG_MAX_FRAME says', () => {
    expect(shown(8)).toHaveLength(8);
    expect(describeGraph('execution', { ...graph, frames: frames(8) })).not.toContain('....');
    expect(shown(9)).toHaveLength(8);
    expect(describeGraph('execution', { ...graph, frames: frames(9) })).toContain(
      'Execution Analysis:   f7 (/t.ts:8)\nExecution Analysis:   ..........\nExecution Analysis: ----',
    );
    vi.stubEnv('PT_XLA_DEBUG_MAX_FRAME', '2');
    expect(shown(9)).toHaveLength(2);
  });
});

/** Reads the lines as PyTorch/XLA's test/debug_tool/extract_debug_helper.py does: by the place of a line in its block. */
function readAsTheirScript(text: string) {
  const lines = text.split('\n');
  const after = (i: number, label: string) => {
    const [, value] = (lines[i] ?? '').split(`${label}: `);
    if (value === undefined) throw new Error(`line ${i + 1} has no ${label}: ${lines[i]}`);
    return value.trim();
  };
  const causes = (kind: string) => lines.filter((_, i) => lines[i - 1]?.includes(`${kind} Cause`));
  const graphs = lines.flatMap((line, i) => {
    if (!line.includes('Graph Info')) return [];
    const name = lines[++i]!.includes('Graph Name') ? after(i++, 'Graph Name') : '';
    const inputs = Number(after(i + 1, 'Number of Graph Inputs'));
    return [{ name, hash: after(i, 'Graph Hash'), inputs, outputs: Number(after(i + 2, 'Number of Graph Outputs')) }];
  });
  const sizes: string[][] = [];
  for (let i = 0; i < lines.length; i++) {
    if (!lines[i]!.includes('Post Compilation Analysis')) continue;
    const labels = ['Graph input', 'Graph output', 'Aliased Input', 'Intermediate tensor', 'Compiled program'];
    sizes.push(labels.map((label, k) => after(i + 1 + k, `${label} size`)));
    i += 7; // it takes a block to be 8 lines
  }
  const stacks: string[][] = [];
  let stack: string[] | undefined;
  for (const line of lines) {
    if (line.includes('Python Frame Triggered Execution')) stack = [];
    else if (line.includes('Analysis: ----------------')) {
      stacks.push(stack ?? []);
      stack = undefined;
    } else stack?.push(line);
  }
  return { compilations: causes('Compilation'), executions: causes('Execution'), graphs, sizes, stacks };
}

describe('what is printed', () => {
  const file = path.join(folder, 'debug.txt');
  const more = { cache: 'miss', compileSeconds: 2, notes: ['First program'] } as const;
  const printAll = () => {
    printCompilation(() => ({ ...graph, ...more, name: 'toy_program', frames: frames(20) }));
    printPostCompilation(() => ({ ...program, ...more }));
    printExecution(() => ({ ...graph, frames: frames(20) }));
  };
  const printed = () => readFileSync(file, 'utf8');
  beforeEach(() => {
    rmSync(file, { force: true });
    for (const name of ['PT_XLA_DEBUG', 'PT_XLA_DEBUG_LEVEL', 'PJRT_LOCAL_PROCESS_RANK']) vi.stubEnv(name, '');
    vi.stubEnv('PT_XLA_DEBUG_FILE', file);
  });

  test("is what PyTorch/XLA's scripts read, with all that we add", () => {
    vi.stubEnv('PT_XLA_DEBUG', '1');
    printAll();
    const { compilations, executions, graphs, sizes, stacks } = readAsTheirScript(printed());
    expect(compilations).toEqual(['Compilation Analysis:   user torch_xla.sync']);
    expect(executions).toEqual(['Execution Analysis:   user torch_xla.sync']);
    expect(graphs).toEqual([
      { name: 'toy_program', hash: graph.hash, inputs: 35, outputs: 107 },
      { name: '', hash: graph.hash, inputs: 35, outputs: 107 },
    ]);
    expect(sizes).toEqual([['1.548000 GB', '7.922460 GB', '1.547871 GB', '12.124478 GB', '0.028210 GB']]);
    expect(stacks.map((s) => s.length)).toEqual([9, 0, 9]); // 8 and a line of dots; none after a compilation
  });

  const blocks = () => {
    printAll();
    let text = '';
    try {
      text = printed();
    } catch {} // no file: nothing was printed
    return [...text.matchAll(/^(.*) Analysis: =+\n\1 Analysis: (?!-)/gm)].map((m) => m[1]);
  };
  const compiles = ['Compilation', 'Post Compilation'];
  test.each([
    [{}, []],
    [{ PT_XLA_DEBUG: '0' }, []],
    [{ PT_XLA_DEBUG: 'false' }, []],
    [{ PT_XLA_DEBUG: '1' }, [...compiles, 'Execution']],
    [{ PT_XLA_DEBUG: 'true' }, [...compiles, 'Execution']],
    [{ PT_XLA_DEBUG_LEVEL: '0' }, []],
    [{ PT_XLA_DEBUG_LEVEL: '1' }, compiles],
    [{ PT_XLA_DEBUG_LEVEL: '2' }, [...compiles, 'Execution']],
    [{ PT_XLA_DEBUG: '1', PT_XLA_DEBUG_LEVEL: '1' }, compiles],
    [{ PT_XLA_DEBUG: '1', PJRT_LOCAL_PROCESS_RANK: '0' }, [...compiles, 'Execution']],
    [{ PT_XLA_DEBUG: '1', PJRT_LOCAL_PROCESS_RANK: '1' }, []],
  ] as [Record<string, string>, string[]][])('with %j is %j', (variables, expected) => {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    expect(blocks()).toEqual(expected);
  });

  test('is made only if it is wanted', () => {
    const never = () => {
      throw new Error('made');
    };
    printCompilation(never);
    printPostCompilation(never);
    printExecution(never);
    vi.stubEnv('PT_XLA_DEBUG_LEVEL', '1');
    printExecution(never);
    expect(() => printCompilation(never)).toThrow('made');
  });

  test('the analysis of the metrics, with the rest', () => {
    clearAll();
    for (let i = 0; i < 21; i++) record('CompileTime', 1);
    printAnalysis(11);
    vi.stubEnv('PT_XLA_DEBUG', '1');
    printAnalysis(11);
    printAnalysis(100);
    expect(printed()).toBe('pt-xla-profiler: CompileTime too frequent: 21 counts during 11 steps\n');
    clearAll();
  });

  test('goes to stderr without PT_XLA_DEBUG_FILE', async () => {
    const code = `import { printExecution } from './dist/observe/debug.js'; printExecution(() => (${JSON.stringify(graph)}));`;
    const ran = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
      cwd: path.resolve(import.meta.dirname, '..'),
      env: { ...process.env, PT_XLA_DEBUG_FILE: '', PT_XLA_DEBUG_LEVEL: '2' },
    });
    expect(ran).toEqual({ stdout: '', stderr: describeGraph('execution', graph) });
  });

  test('a level that is no number is said', () => {
    vi.stubEnv('PT_XLA_DEBUG_LEVEL', 'high');
    expect(() => debugLevel()).toThrow('PT_XLA_DEBUG_LEVEL=high is not understood: give a whole number');
  });
});

test("the causes are PyTorch/XLA's words, where it has the same", () => {
  expect(Object.values(CAUSES).sort()).toEqual([
    "an optimizer's step(), which ends a step of a plain loop",
    'most likely user code trying to access tensor value before torch_xla.sync',
    'torch_xla.compile',
    'torch_xla.compile clear the pending graph prior calling the target function',
    'torch_xla.sync in parallel loader at step end',
    'user torch_xla.sync',
  ]);
});
