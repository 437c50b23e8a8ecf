// Changing what modules compute without changing what they are: a module gets another forward of its own, around the one it
// has. Its class, its fields and its state dict stay, and taking it back leaves nothing.
import type { Module } from '../nn/module.js';

export type Forward = (...args: unknown[]) => unknown;

/** Puts something around the forward of one module. Gives what takes it away again: the last first, if there are several. */
export function wrapForward(module: Module, wrap: (forward: Forward) => Forward): () => void {
  const before = Object.getOwnPropertyDescriptor(module, 'forward');
  const inner = (module.forward as Forward).bind(module);
  Object.defineProperty(module, 'forward', { value: wrap(inner), configurable: true, writable: true });
  return () => {
    if (before) Object.defineProperty(module, 'forward', before);
    else delete (module as { forward?: unknown }).forward;
  };
}
