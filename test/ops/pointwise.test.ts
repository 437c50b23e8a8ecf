import { table } from './pointwise.rows.js';
import { suite } from './suite.js';

await suite(table);
