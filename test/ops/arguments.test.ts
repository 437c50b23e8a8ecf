import { table } from './arguments.rows.js';
import { suite } from './suite.js';

await suite(table);
