// Our side of bench/zoo.ts: a port as a process that works in its turns. zoo_step.ts NAME SIZE STEPS
import { readSync, writeSync } from 'node:fs';
import { runPort, type Size } from './ports.js';

const [name, size, steps] = process.argv.slice(2) as [string, Size, string];
const say = (what: object) => writeSync(1, `${JSON.stringify(what)}\n`);

/** A line from stdin, waited for without the event loop: the loop that is measured is the port's own. */
function readLine(): string {
  const byte = Buffer.alloc(1);
  for (let line = ''; ; line += byte.toString('latin1')) {
    if (!readSync(0, byte)) process.exit();
    if (byte[0] === 10) return line;
  }
}

/** Called between steps: ends a turn when its steps or its seconds are over, and waits for the next. */
function takeTurns(): () => void {
  let turn: { steps: number; seconds: number; ms: number[]; start: number; cpu: NodeJS.CpuUsage } | undefined;
  let before = 0;
  return () => {
    const now = performance.now();
    if (turn) {
      turn.ms.push(now - before);
      if (turn.ms.length === turn.steps || now - turn.start > turn.seconds * 1e3) {
        const { user, system } = process.cpuUsage(turn.cpu);
        say({ losses: [], ms: turn.ms, cpu: (user + system) / 1e6 });
        turn = undefined;
      }
    }
    turn ??= { ...JSON.parse(readLine()), ms: [], start: performance.now(), cpu: process.cpuUsage() };
    before = performance.now();
  };
}

const losses = await runPort(name, size, { dtype: 'f32', steps: Number(steps) });
say({ name: 'tsxla', losses });
await runPort(name, size, { dtype: 'f32', steps: 1e9, tick: takeTurns() });
