// Lazily loaded namespaces: tx.nn, tx.optim, ... scripts/bundle.mjs writes the calls into dist/index.js.

/** An object like that of `import * as`. Its names are known, and its code is loaded when a member is first read. */
export function lazyNamespace(names: readonly string[], load: () => Readonly<Record<string, unknown>>): object {
  const namespace = Object.create(null, { [Symbol.toStringTag]: { value: 'Module' } });
  const fill = (): void => {
    const loaded = load();
    for (const name of names) Object.defineProperty(namespace, name, { value: loaded[name], enumerable: true });
    Object.freeze(namespace);
  };
  const get = (name: string) => () => {
    fill();
    return namespace[name];
  };
  for (const name of names)
    Object.defineProperty(namespace, name, { get: get(name), enumerable: true, configurable: true });
  return namespace;
}
