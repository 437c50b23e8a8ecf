// Writes dist/**/*.js from src. Node spends more time on finding and opening hundreds of small files than on running them, so
// modules are joined: dist/bundle.cjs is the language (what src/index.ts needs, without its namespaces), dist/base/bundle.cjs
// what lies below it, dist/FOLDER/bundle.cjs what else there is of a folder. Bundles are CommonJS: Node 20 cannot load an ES
// module synchronously, and tx.nn has to load when it is touched. At the place of each module of src is an ES module with its
// exports, which package.json and the tests import. Why: docs/decisions.md.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('..', import.meta.url));
const src = path.join(root, 'src');
const dist = path.resolve(process.argv[2] ?? path.join(root, 'dist'));
const read = (...names) => readFileSync(path.join(...names), 'utf8');
const posix = (file) => file.replaceAll(path.sep, '/');
const list = (folder, ends) =>
  readdirSync(folder, { recursive: true })
    .map(posix)
    .filter((f) => ends.test(f));
const nameOf = (id) => posix(path.relative(src, id)).replace(/\.ts$/, ''); // runtime/program
const fileOf = (name) => path.join(src, `${name}.ts`);

// ---- which module goes where

const CLIENT = 'board/client'; // runs in browsers: one script
const names = list(src, /\.ts$/)
  .map((f) => f.replace(/\.ts$/, ''))
  .filter((name) => !name.startsWith(`${CLIENT}/`));
const texts = new Map(names.map((name) => [name, read(fileOf(name))]));
const live = names.filter((name) => /^export let /m.test(texts.get(name)));
if (live.length)
  throw new Error(`export let in ${live}: bundles export values, not variables. Export a function instead`);

const NAMESPACE = /^export \* as (\w+) from '\.\/(.*)\.js';\n/gm;
const namespaces = [...texts.get('index').matchAll(NAMESPACE)].map(([, name, module]) => ({ name, module }));
const LAZY = 'lazyNamespace'; // of base/namespace: only what is written here calls it
texts.set('index', `${texts.get('index').replace(NAMESPACE, '')}export { ${LAZY} } from './base/namespace.js';\n`);

const IMPORT = /^(?:import|export) (?!type )(?:[^;']*? from )?'(\.[^']*)\.js'|import\('(\.[^']*)\.js'\)/gm;
const importsOf = (name) =>
  [...texts.get(name).matchAll(IMPORT)].map(([, fixed, dynamic]) => ({
    module: path.posix.join(path.posix.dirname(name), fixed ?? dynamic),
    isFixed: fixed !== undefined,
  }));
const language = new Set();
(function add(name) {
  if (language.has(name)) return;
  language.add(name);
  for (const { module, isFixed } of importsOf(name)) if (isFixed) add(module);
})('index');

const subpaths = Object.values(JSON.parse(read(root, 'package.json')).exports).flatMap(({ default: file }) =>
  file ? [file.replace(/^\.\/dist\/(.*)\.js$/, '$1')] : [],
);
const imported = new Set([...names.flatMap(importsOf), ...namespaces].map(({ module }) => module).concat(subpaths));
/** Commands, and what is started by its path as a thread or a process: small files, left as they are. */
const isAlone = (name) => name.startsWith('cli/') || !imported.has(name);
function bundleOf(name) {
  const [folder, inner] = name.split('/');
  if (folder === 'base') return 'base/bundle'; // threads and commands need little else
  if (language.has(name)) return 'bundle';
  if (inner === undefined) return `${name}-bundle`;
  return name.startsWith('plan/workloads/') ? 'plan/workloads/bundle' : `${folder}/bundle`; // they need all the others
}

// ---- the bundles

const source = {
  name: 'source',
  load: (id) => (id === fileOf('index') ? { code: texts.get('index'), moduleType: 'ts' } : undefined),
  /** import.meta.url is that of the module's place, so that what lies beside it is found. */
  transform(code, id) {
    if (!id.startsWith(src) || !code.includes('import.meta.url')) return undefined;
    const place = path.posix.relative(path.posix.dirname(bundleOf(nameOf(id))), nameOf(id));
    const url = `new URL('./${place}.js', bundleUrl(__filename)).href`;
    return {
      code: `import { pathToFileURL as bundleUrl } from 'node:url'; const moduleUrl = ${url}; ${code}`,
      map: null,
    };
  },
};
const OXC = /^(\0|@oxc-project\/)/; // helpers of the compiler, for `using`
const inputs = (which) => Object.fromEntries(names.filter(which).map((name) => [name, fileOf(name)]));
async function build(options, { transform, ...input }) {
  const made = await rolldown({
    platform: 'node',
    tsconfig: path.join(root, 'tsconfig.build.json'),
    transform: { target: 'es2022', ...transform },
    preserveEntrySignatures: 'allow-extension',
    checks: { ineffectiveDynamicImport: false }, // of modules that one way in needs at once, and another later
    ...input,
  });
  const { output } = await made.generate({
    dir: dist,
    sourcemap: true,
    // As if src lay beside dist, also where dist is that of a release: stack traces are told from users' code by it.
    sourcemapPathTransform: (file, map) => {
      const name = path.relative(src, path.resolve(path.dirname(map), file));
      return name.startsWith('..') ? file : posix(path.relative(path.dirname(map), path.join(dist, '../src', name)));
    },
    comments: false,
    minify: false,
    ...options,
  });
  return output;
}
const bundled = await build(
  {
    format: 'cjs',
    exports: 'named',
    keepNames: true, // of what is renamed because another module has the name too
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name].cjs',
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ debugName: 'bundle', name: (id) => (id.startsWith(src) ? bundleOf(nameOf(id)) : 'helpers') }],
    },
  },
  {
    input: inputs((name) => !isAlone(name)),
    external: (id) => !/^[./]/.test(id) && !path.isAbsolute(id) && !OXC.test(id),
    plugins: [source],
    treeshake: false,
    transform: { define: { 'import.meta.url': 'moduleUrl' } },
  },
);
const alone = await build(
  { format: 'esm', entryFileNames: '[name].js', chunkFileNames: '[name].js' },
  { input: inputs(isAlone), external: (id, importer) => importer !== undefined && !OXC.test(id) },
);

// ---- the files

const written = new Set();
function write(name, text) {
  written.add(name);
  mkdirSync(path.dirname(path.join(dist, name)), { recursive: true });
  writeFileSync(path.join(dist, name), text);
}

// Exports never change (there is no `export let`), so they are written as one object: a tenth of the time of a getter each.
const EXPORT =
  /^(?:exports\.([\w$]+) = (.*);|Object\.defineProperty\(exports, ['"]([\w$]+)['"], \{\s*enumerable: true,\s*get: function ?\(\) \{\s*return ([\w$.]+);\s*\}\s*\}\);)\n*/gm;
const OTHER = /^Object\.definePropert(y|ies)\(exports, .*Symbol\.toStringTag.*\n*|^\/\/# sourceMappingURL=.*\s*$/gm;
const LOADER = 'import.cjs';
write(LOADER, 'module.exports = (name) => import(name);\n');
const chunks = bundled
  .filter((file) => file.type === 'chunk')
  .map(({ name, fileName, isEntry, moduleIds, code }) => {
    const exports = [...code.matchAll(EXPORT)]
      .map((m) => [m[1] ?? m[3], m[2] ?? m[4]])
      .sort(([a], [b]) => (a < b ? -1 : 1));
    // tsx writes a file with import() anew and loses its source map: the one import() is in a file of its own.
    const loader = path.posix.relative(path.posix.dirname(fileName), LOADER);
    const body = code
      .replace(EXPORT, '')
      .replace(OTHER, '')
      .replace(/\bimport\("([^".][^"]*)"\)/g, (_, name) => `require("./${loader}")("${name}")`);
    if (/^(?:Object\.\w+\()?exports\b/m.test(body))
      throw new Error(`${fileName}: an export in a form that bundle.mjs does not know`);
    return { name, fileName, isEntry, isFace: isEntry && !moduleIds.length, body, exports };
  });
const needs = (file) =>
  [...file.body.matchAll(/require\("(\.[^"]*\.cjs)"\)/g)].map(([, to]) =>
    path.posix.join(path.posix.dirname(file.fileName), to),
  );
const needed = new Set([...chunks.flatMap(needs), ...namespaces.map(({ module }) => `${module}.cjs`)]);
for (const { fileName, isFace, body, exports } of chunks)
  if (!isFace || needed.has(fileName)) {
    const members = exports.map(([name, value]) => (name === value ? `  ${name},` : `  ${name}: ${value},`));
    const map = isFace ? '' : `//# sourceMappingURL=${path.posix.basename(fileName)}.map\n`;
    write(fileName, [`${body}module.exports = {`, ...members, `};\n${map}`].join('\n'));
  }
for (const file of alone) if (file.type === 'chunk') write(file.fileName, file.code);
for (const file of [...bundled, ...alone])
  if (file.type === 'asset' && written.has(file.fileName.replace(/\.map$/, ''))) write(file.fileName, file.source);

// ---- the modules' places: a face with the exports of each

const RESERVED = /^(var|in|new|delete|default)$/;
const exportOf = ([name, value]) =>
  RESERVED.test(name)
    ? `const $${name} = ${value};\nexport { $${name} as ${name} };`
    : `export const ${name} = ${value};`;
for (const { name, fileName, isFace, body, exports } of chunks.filter((file) => file.isEntry)) {
  const own = isFace ? exports : exports.map(([x]) => [x, `own.${x}`]);
  const lazy = name === 'index' ? namespaces : [];
  const lines = [
    "import { createRequire } from 'node:module';",
    'const require = createRequire(import.meta.url);',
    isFace ? body : `const own = require('./${path.posix.basename(fileName)}');`,
    ...own.map(([x, value]) => (x === LAZY && lazy.length ? `const ${LAZY} = ${value};` : exportOf([x, value]))),
    ...lazy.map(({ name, module }) => {
      const members = chunks.find((file) => file.name === module).exports.map(([member]) => member);
      return `export const ${name} = ${LAZY}(${JSON.stringify(members)}, () => require('./${module}.cjs'));`;
    }),
  ];
  write(`${name}.js`, `${lines.join('\n')}\n`);
}

// ---- what runs in browsers, with all it imports

const [client] = await build(
  {
    format: 'iife',
    entryFileNames: '[name].js',
    sourcemap: false,
    comments: { legal: true, jsdoc: false, annotation: false },
    minify: true,
  },
  {
    platform: 'browser',
    tsconfig: path.join(root, 'tsconfig.client.json'),
    input: { client: fileOf(`${CLIENT}/main`) },
  },
);
write('board/client.js', client.code.trimEnd().replaceAll('</script', '<\\/script'));
const uplot = (file) => read(root, 'node_modules/uplot', file);
write(
  'board/client.css',
  `${uplot('dist/uPlot.min.css').trim()}\n${read(fileOf(`${CLIENT}/main`).replace(/main\.ts$/, 'board.css'))}`,
);

// Of modules that src has no more, the declarations too.
const isStale = (file) => (file.endsWith('.d.ts') ? !texts.has(file.slice(0, -'.d.ts'.length)) : !written.has(file));
for (const file of list(dist, /\.(c?js(\.map)?|d\.ts)$/)) if (isStale(file)) rmSync(path.join(dist, file));
