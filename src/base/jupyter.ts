// Display of values in notebooks: Deno's kernel calls the method with this symbol, which returns texts by MIME type.
export const JUPYTER_DISPLAY: unique symbol = Symbol.for('Jupyter.display');
/** A value in several formats; a notebook shows the richest one it supports. */
export type MimeBundle = Readonly<Record<string, string>>;
