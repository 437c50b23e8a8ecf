// Savers in other processes that are read from and killed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as tx from 'tsxla';
import { loadStudent } from 'tsxla/recovery';

export type Kind = 'model' | 'student' | 'adapters';
export interface Saver {
  /** The number of the last save that is known to be done. */
  readonly done: () => number;
  kill(): Promise<void>;
}

/** Saves numbers from `from` on; resolves after the first save. */
export async function startSaver(kind: Kind, folder: string, from: number): Promise<Saver> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('saver.mjs', import.meta.url)), kind, folder, `${from}`],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let last = from - 1;
  const lines = createInterface({ input: child.stdout });
  const first = once(lines, 'line');
  lines.on('line', (line) => void (last = Number(line)));
  await Promise.race([first, once(child, 'exit')]);
  return {
    done: () => last,
    async kill() {
      const gone = once(child, 'close'); // with all that it said
      child.kill('SIGKILL');
      await gone;
    },
  };
}

/** The numbers in the files of a save, all of which should be the same. */
export const numbersIn: Readonly<Record<Kind, (folder: string) => Promise<number[]>>> = {
  async model(folder) {
    const model = await tx.models.Qwen3ForCausalLM.fromPretrained(folder);
    return numbersOf(model);
  },
  async student(folder) {
    const { model } = await loadStudent(folder);
    return numbersOf(model);
  },
  async adapters(folder) {
    const model = new tx.nn.Sequential(new tx.nn.Linear(4, 4));
    await tx.lora.loadAdapters(model, folder);
    const [adapter] = tx.lora.adaptersOf(model).values();
    return [adapter!.alpha - 1, Number((await adapter!.loraB.data())[0])];
  },
};
const numbersOf = async ({ config, generationConfig, model }: tx.models.DecoderForCausalLM): Promise<number[]> => [
  (config as tx.models.Qwen3Config).ropeTheta - 10_000,
  generationConfig.maxNewTokens! - 1,
  Number((await model.norm.weight.data())[0]),
];
