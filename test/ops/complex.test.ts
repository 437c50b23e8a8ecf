import { table } from './complex.rows.js';
import { suite } from './suite.js';

await suite(table);
