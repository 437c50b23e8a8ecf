// torch's copying variants of functions that return views. There are no views here: each is an alias.
import { asStrided } from './arrange.js';
import { chunk, diagonal, narrow, split, unbind, unfold } from './parts.js';
import { clone, expand, permute, squeeze, t, transpose, unsqueeze, view } from './shape.js';

export const aliasCopy = clone;
export const asStridedCopy = asStrided;
export const diagonalCopy = diagonal;
export const expandCopy = expand;
export const narrowCopy = narrow;
export const permuteCopy = permute;
export const splitWithSizesCopy = split;
export const squeezeCopy = squeeze;
export const tCopy = t;
export const transposeCopy = transpose;
export const unbindCopy = unbind;
export const unfoldCopy = unfold;
export const unsqueezeCopy = unsqueeze;
export const viewCopy = view;
// torch's unsafe variants, which skip a check of views.
export const unsafeChunk = chunk;
export const unsafeSplit = split;
