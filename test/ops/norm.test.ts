import { table } from './norm.rows.js';
import { suite } from './suite.js';

await suite(table);
