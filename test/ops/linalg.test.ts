import { table } from './linalg.rows.js';
import { suite } from './suite.js';

await suite(table);
