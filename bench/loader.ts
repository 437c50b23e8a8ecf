// Does the loader keep the device busy? A step on its batches beside the same step on one batch, in turns.
// npm run bench:loader [-- --rounds 5 --steps 20]
import { parseArgs } from 'node:util';
import { compare } from './loader-case.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, steps: { type: 'string', default: '20' } },
});
const { constant, loaded, ratio, late } = await compare({ rounds: Number(values.rounds), steps: Number(values.steps) });
const isOver = ratio > 1.05 || late > 0;
console.log(`medians of ${values.rounds} rounds of ${values.steps} steps
one batch again and again ${constant.toFixed(2).padStart(8)} ms
batches of a loader       ${loaded.toFixed(2).padStart(8)} ms  ${((ratio - 1) * 100).toFixed(1)}% more (budget 5%)  ${isOver ? 'OVER' : 'ok'}
steps that waited for their upload: ${late}`);
if (isOver) process.exitCode = 1;
