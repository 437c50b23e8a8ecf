// 300 mutated files for each reader; test/slow/fuzz-io.test.ts tries 10,000.
import { fuzz } from './fuzz.js';

fuzz(300);
