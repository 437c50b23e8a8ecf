// Namespaces that load when first touched: tx.nn, tx.optim, ... scripts/bundle.mjs writes the calls into dist/index.js.

/** An object like that of `import * as`, whose code is loaded by the first read of a member. Names are known before. */
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
