import { table } from './shape.rows.js';
import { suite } from './suite.js';

await suite(table);
