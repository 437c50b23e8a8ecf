// Modules report here, to the step that is being traced, which of their fields are read and set.
import { openScopes } from '../ir/scope.js';
import { FIELDS, memberChanged } from './member-reads.js';
import { currentStep } from './scope.js';

export function memberRead(module: object, key: PropertyKey): void {
  if (openScopes().length) currentStep()?.members.read(module, key);
}
export const membersListed = (module: object): void => memberRead(module, FIELDS);
export function memberWritten(module: object, key: PropertyKey): void {
  const step = currentStep();
  if (step) step.members.written(module, key);
  else memberChanged(module, key);
}
export const moduleMade = (module: object): void => currentStep()?.members.made(module);
