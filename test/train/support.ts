// Runs the programs of this folder as a user would.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Program {
  readonly child: ChildProcess;
  /** What it has printed, when it has ended. */
  readonly ended: Promise<{ stdout: string; stderr: string; status: number | null; signal: NodeJS.Signals | null }>;
}
export const start = (file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Program =>
  startNode(['--import', import.meta.resolve('tsx'), path.join(import.meta.dirname, file), ...args], env);
/** `tsxla` with its arguments. */
export const startCommand = (args: readonly string[]): Program => startNode([main, ...args], {});
const main = path.join(import.meta.dirname, '../../dist/cli/main.js');
function startNode(args: readonly string[], env: Readonly<Record<string, string>>): Program {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => void (said.stdout += chunk));
  child.stderr.on('data', (chunk) => void (said.stderr += chunk));
  const ended = new Promise<Awaited<Program['ended']>>((resolve) => {
    child.on('close', (status, signal) => resolve({ ...said, status, signal }));
  });
  return { child, ended };
}

/** The value in the last line that a program printed. */
export const lastLine = <T = Record<string, unknown>>(stdout: string): T =>
  JSON.parse(stdout.trim().split('\n').at(-1)!);

/** The number in a file, once it is there. */
export async function numberIn(file: string): Promise<number> {
  for (;;) {
    const n = fs.existsSync(file) ? Number(fs.readFileSync(file, 'utf8')) : 0;
    if (n) return n;
    await sleep(10);
  }
}

/** Kills one of two workers, whose processes leave their numbers here, within that many milliseconds of their start. */
export async function killOne(pids: string, within: number): Promise<void> {
  const files = [0, 1].map((rank) => path.join(pids, `rank-${rank}`));
  const both = await Promise.all(files.map(numberIn));
  await sleep(Math.random() * within);
  process.kill(both[Math.floor(Math.random() * 2)]!, 'SIGKILL');
  while (both.some(isAlive)) await sleep(10); // the other is ended, too
  for (const file of files) fs.rmSync(file);
}

/** The processes that a process has started, in order. */
export const childrenOf = (pid: number): number[] =>
  fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};
