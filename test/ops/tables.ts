// All families.
import { table as activation } from './activation.rows.js';
import { table as args } from './arguments.rows.js';
import { table as arrange } from './arrange.rows.js';
import { table as attention } from './attention.rows.js';
import { table as complex } from './complex.rows.js';
import { table as conv } from './conv.rows.js';
import { table as indexing } from './indexing.rows.js';
import { table as linalg } from './linalg.rows.js';
import { table as loss } from './loss.rows.js';
import { table as matmul } from './matmul.rows.js';
import { table as norm } from './norm.rows.js';
import { table as pointwise } from './pointwise.rows.js';
import { table as reduction } from './reduction.rows.js';
import { table as shape } from './shape.rows.js';
import { table as sorting } from './sorting.rows.js';
import { table as special } from './special.rows.js';

export const tables = [
  activation,
  args,
  arrange,
  attention,
  complex,
  conv,
  indexing,
  linalg,
  loss,
  matmul,
  norm,
  pointwise,
  reduction,
  shape,
  sorting,
  special,
];
