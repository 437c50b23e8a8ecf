import { table } from './activation.rows.js';
import { suite } from './suite.js';

await suite(table);
