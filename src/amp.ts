// tx.amp, as in torch: mixed precision and its scaler. docs/optim.md is the guide.
export { GradScaler, type GradScalerOptions, type GradScalerState } from './optim/scaler.js';
export { type AutocastOptions, autocast } from './tensor/autocast.js';
