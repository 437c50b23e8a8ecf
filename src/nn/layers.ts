// The layers.
export * from './activation.js';
export * from './adaptive.js';
export * from './attention.js';
export * from './conv.js';
export * from './dropout.js';
export * from './embedding.js';
export * from './fractional.js';
export * from './lazy.js';
export * from './linear.js';
export * from './linear-loss.js';
export * from './loss.js';
export * from './norm.js';
export * from './pooling.js';
export * from './reshaping.js';
export * from './rnn.js';
export * from './transformer.js';
