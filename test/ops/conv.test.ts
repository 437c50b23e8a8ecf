import { table } from './conv.rows.js';
import { suite } from './suite.js';

await suite(table);
