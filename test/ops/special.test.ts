import { table } from './special.rows.js';
import { suite } from './suite.js';

await suite(table);
