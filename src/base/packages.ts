// Packages that are slow to load, each loaded by the first call that needs it: `import 'tsxla'` loads none of them.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
function later<T>(name: string): () => T {
  let loaded: T | undefined;
  return () => {
    loaded ??= require(name) as T;
    return loaded;
  };
}

/** Calls into C. */
export const koffi = later<typeof import('koffi').default>('koffi');
/** The wire format of protocol buffers. */
export const wire = later<typeof import('@bufbuild/protobuf/wire')>('@bufbuild/protobuf/wire');
