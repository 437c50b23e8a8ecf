// 10,000 mutated files for each reader.
import { fuzz } from '../io/fuzz.js';

fuzz(10_000);
