// Runs the packed package under the runtimes that people have, in an empty project, and prints the rows of the table in
// docs/install.md. The runtimes are npm packages. Run: npm run test:runtimes
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { addPrograms, EXAMPLES, pack, project } from './packed.js';

interface Runtime {
  readonly package: string;
  /** The program, under node_modules. */
  readonly file: string;
  /** Before a program: TypeScript is read by tsx in Node, and by the others themselves. */
  readonly flags: readonly string[];
}
const node = (major: number): Runtime => ({
  package: `node-${process.platform}-${process.arch}@${major}`,
  file: `node-${process.platform}-${process.arch}/bin/node`,
  flags: ['--import', 'tsx'],
});
const RUNTIMES: readonly Runtime[] = [
  ...[20, 22, 24].map(node),
  { package: 'bun', file: 'bun/bin/bun.exe', flags: [] },
  { package: 'deno', file: 'deno/bin.cjs', flags: ['run', '-A', '--node-modules-dir=manual', '--sloppy-imports'] },
];
const ENV = {
  ...process.env,
  PJRT_DEVICE: 'CPU',
  CPU_NUM_DEVICES: '2',
  TSXLA_LOG: 'quiet',
  TSXLA_CACHE: 'off',
  NO_COLOR: '1',
};

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-runtimes-'));
try {
  const folder = project(path.join(scratch, 'project'), [pack(scratch), 'tsx']);
  addPrograms(folder);
  const run = (command: string, args: readonly string[]) =>
    spawnSync(command, args, { cwd: folder, encoding: 'utf8', env: ENV, timeout: 300_000, killSignal: 'SIGKILL' });
  console.log(`| runtime | parts of the tour | examples |\n| --- | --- | --- |`);
  for (const [i, r] of RUNTIMES.entries()) {
    const file = path.join(project(path.join(scratch, `runtime-${i}`), [r.package]), 'node_modules', r.file);
    // npm does not run the scripts of bun's and deno's packages, which choose the program of this machine.
    if (r.package === 'bun') spawnSync(process.execPath, ['install.js'], { cwd: path.dirname(path.dirname(file)) });
    const version = run(file, ['--version']).stdout.split('\n')[0]!.replace(/ \(.*/, '');
    const tour = run(file, [...r.flags, 'tour.mjs']);
    const lines = tour.stdout.trim().split('\n');
    const good = lines.filter((line) => line.startsWith('ok '));
    const bad = lines.filter((line) => line.startsWith('failed ')).map((line) => line.slice('failed '.length, 300));
    const failed = EXAMPLES.flatMap((name) => {
      const { status, stderr } = run(file, [...r.flags, `${name}.ts`, '--out', scratch]);
      return status === 0 ? [] : [`${name}: ${stderr.trim().split('\n').at(-1)}`];
    });
    const parts = [`${good.length} of ${lines.length}`, ...bad].join('; ');
    const examples = [`${EXAMPLES.length - failed.length} of ${EXAMPLES.length}`, ...failed].join('; ');
    const name = r.package.startsWith('node')
      ? `Node ${version.slice(1)}`
      : `${r.package} ${version.replace(/^\w+ /, '')}`;
    console.log(`| ${name} | ${parts} | ${examples} |`);
  }
} finally {
  fs.rmSync(scratch, { recursive: true, force: true });
}
