import { table } from './loss.rows.js';
import { suite } from './suite.js';

await suite(table);
