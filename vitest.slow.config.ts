import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import quick, { XLA_FLAGS } from './vitest.config.js';

/** The longest files, each a few minutes. They start first: at the end a worker would run one alone. */
const LONGEST = [
  'examples',
  'recovery-v6e',
  'workloads',
  'install',
  'package',
  'plan',
  'qwen3-plan',
  'cache',
  'notebooks',
];
const rank = ({ moduleId }: TestSpecification): number => {
  const i = LONGEST.findIndex((name) => moduleId.endsWith(`/slow/${name}.test.ts`));
  return i < 0 ? LONGEST.length : i;
};
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

// The slower suite: long runs, killed processes, TPU compiles.
// Long runs are compiled as for a user; and libtpu, which compiles here too, does not know the flags of the quick suite.
const { projects: _, env: { XLA_FLAGS: __, ...env } = {}, ...common } = quick.test!;
/** Files of many programs that run a few times, none of them for a TPU: compiled as in the quick suite. */
const FEW_RUNS = [
  'test/slow/{accumulate-scan,architectures,checkpoint,distributions,docs,interrupted,kd-cache,optiminfo,ports}.test.ts',
  'test/slow/{saving,spmd-models,spmd-training,train,train-workers,vmap}.test.ts',
  'test/slow/recovery-{architectures,kept,lost,mesh,nonfinite,workers}.test.ts',
];
// Ray's tests start two nodes and their workers over and over. They run after the others, alone: beside compiles for TPUs the
// ten restarts of one test did not end within 15 minutes.
const RAY = ['test/slow/ray.test.ts', 'test/slow/ray-data.test.ts'] as const;

const project = (name: string, include: string[], more: object = {}) => ({
  extends: true as const,
  test: {
    name,
    include,
    testTimeout: 1_800_000, // ends what hangs
    sequence: { groupOrder: 0 },
    ...more,
  },
});
export default defineConfig({
  test: {
    ...common,
    env,
    sequence: { sequencer: LongestFirst },
    projects: [
      project('slow', ['test/slow/**/*.test.ts'], { exclude: [...RAY, ...FEW_RUNS] }),
      project('few runs', FEW_RUNS, { env: { ...env, XLA_FLAGS: process.env['XLA_FLAGS'] ?? XLA_FLAGS } }),
      ...RAY.map((file, i) => project(`ray ${i}`, [file], { sequence: { groupOrder: 1 + i } })),
    ],
  },
});
