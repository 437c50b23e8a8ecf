// Recovery: a quantized student gets its quality back.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export * from './merge.js';
export * from './perplexity.js';
export * from './student.js';
