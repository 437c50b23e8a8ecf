import { table } from './sorting.rows.js';
import { suite } from './suite.js';

await suite(table);
