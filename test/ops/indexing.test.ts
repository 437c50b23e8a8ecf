import { table } from './indexing.rows.js';
import { suite } from './suite.js';

await suite(table);
