import { table } from './matmul.rows.js';
import { suite } from './suite.js';

await suite(table);
