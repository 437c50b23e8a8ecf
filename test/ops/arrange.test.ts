import { table } from './arrange.rows.js';
import { suite } from './suite.js';

await suite(table);
