// Distillation: a student learns what a teacher expects.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export * from './losses.js';
