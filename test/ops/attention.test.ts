import { table } from './attention.rows.js';
import { suite } from './suite.js';

process.env['XLA_FLAGS'] ??= '--xla_backend_optimization_level=0'; // what runs once need not run fast
await suite(table);
