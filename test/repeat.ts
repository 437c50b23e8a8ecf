// How often a test repeats what goes wrong rarely: kills at random moments, mutated files, seeds.

/** `few` times, so that the suite is quick; with TSXLA_TEST_FULL=1 `all`. */
export const times = (few: number, all: number): number => (process.env['TSXLA_TEST_FULL'] ? all : few);
