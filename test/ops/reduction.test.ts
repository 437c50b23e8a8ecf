import { table } from './reduction.rows.js';
import { suite } from './suite.js';

await suite(table);
