// JSON between processes and in files.

/** JSON has no NaN and no infinity, and a loss may be one: they are texts there, of which Number makes numbers again. */
export const jsonOf = (x: unknown): string =>
  JSON.stringify(x, (_, value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value));
