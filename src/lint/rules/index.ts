// All rules, in the order of docs/lint.md.
import type { Rule } from '../rule.js';
import { awaitRead } from './await-read.js';
import { floatLiteral } from './float-literal.js';
import { noAsyncFunction } from './no-async-function.js';
import { noEscapedTensor } from './no-escaped-tensor.js';
import { noImpureCompiled } from './no-impure-compiled.js';
import { noInplaceOnCopy } from './no-inplace-on-copy.js';
import { noNumberArgumentTest } from './no-number-argument-test.js';
import { noParameterAssign } from './no-parameter-assign.js';
import { noReadInLoop } from './no-read-in-loop.js';
import { noStaleCapture } from './no-stale-capture.js';
import { noStructuredClone } from './no-structured-clone.js';
import { noTensorCondition } from './no-tensor-condition.js';
import { shapes } from './shapes.js';

export const rules: readonly Rule[] = [
  noTensorCondition,
  noNumberArgumentTest,
  awaitRead,
  noReadInLoop,
  noStaleCapture,
  noImpureCompiled,
  noAsyncFunction,
  noInplaceOnCopy,
  noParameterAssign,
  noEscapedTensor,
  noStructuredClone,
  shapes,
  floatLiteral,
];
