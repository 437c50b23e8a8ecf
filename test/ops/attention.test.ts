import { table } from './attention.rows.js';
import { suite } from './suite.js';

await suite(table);
