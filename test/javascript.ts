// Programs in TypeScript, for processes of their own. A start with tsx takes four times the processor time of one without.
import path from 'node:path';
import { rolldown } from 'rolldown';

const root = path.join(import.meta.dirname, '..');

/** Writes a program as JavaScript to a file inside the package, where it finds `tsxla` by name; who starts it removes it. */
export async function javaScriptOf(
  program: string,
  file = path.join(root, `examples/.${path.basename(program, '.ts')}-${process.pid}.mjs`),
): Promise<string> {
  const bundle = await rolldown({
    input: path.resolve(root, program),
    external: (id) => /^[\w@]/.test(id) && !id.startsWith('@oxc-project/'), // packages, but not the code of `using`
    platform: 'node',
    tsconfig: false,
    transform: { target: 'node20' },
    treeshake: false,
  });
  await bundle.write({ file, sourcemap: 'inline', codeSplitting: false });
  await bundle.close();
  return file;
}
