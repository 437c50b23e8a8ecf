// Prints tensors in torch's layout: four digits, aligned, long ones shortened in the middle.
import { type DType, sizeOf, type TypedArray } from '../base/dtype.js';
import { decodeFloats } from '../base/float.js';
import { isComplex, isFloat, partType } from '../base/promote.js';
import type { Shape } from '../base/shape.js';

const DIGITS = 4;
const LINE = 80;
const EDGE = 3; // elements shown at each end of a shortened dimension
const THRESHOLD = 1000; // tensors with more elements are shortened

/** tensor([[1.0000, 2.5000], ...]), with the dtype unless it is the default of such numbers. */
export function format(dtype: DType, shape: Shape, data: TypedArray, suffixes: readonly string[] = []): string {
  const usual = dtype === 'f32' || dtype === 'i64' || dtype === 'bool' || dtype === 'c64';
  const tail = [...(usual ? [] : [`dtype=${dtype}`]), ...suffixes];
  if (!data.length) {
    const size = shape.length === 1 ? [] : [`size=(${shape.join(', ')})`];
    return `tensor(${['[]', ...size, ...tail].join(', ')})`;
  }
  const values = decodeFloats(dtype, data);
  const cut = sizeOf(shape) > THRESHOLD;
  const shown = cut ? visible(shape) : undefined;
  if (isComplex(dtype)) {
    const places = shown ?? [...Array(sizeOf(shape)).keys()];
    const part = (k: 0 | 1) =>
      elementFormat(
        partType(dtype),
        places.map((i) => Number(values[2 * i + k])),
      );
    const [re, im] = [part(0), part(1)];
    const show = (i: number) => {
      const [x, y] = [re.show(values[2 * i]!), im.show(values[2 * i + 1]!).trim()];
      return `${x}${y.startsWith('-') ? '' : '+'}${y}j`;
    };
    return finish(`tensor(${block(shape, 0, 7, cut, show, re.width + im.width + 2)}`, tail);
  }
  const element = elementFormat(
    dtype,
    shown ? shown.map((i) => values[i]!) : Array.from(values as ArrayLike<number | bigint>),
  );
  const text = block(shape, 0, 7, cut, (i) => element.show(values[i]!), element.width);
  return finish(`tensor(${text}`, tail);
}

function finish(text: string, tail: readonly string[]): string {
  let line = text.length - text.lastIndexOf('\n') - 1;
  for (const part of tail) {
    const fits = line + part.length + 2 < LINE;
    text += fits ? `, ${part}` : `,\n       ${part}`;
    line = fits ? line + part.length + 2 : part.length;
  }
  return `${text})`;
}

interface ElementFormat {
  readonly width: number;
  show(x: number | bigint): string;
}

function elementFormat(dtype: DType, values: readonly (number | bigint)[]): ElementFormat {
  const padded = (width: number, show: (x: number | bigint) => string) => ({
    width,
    show: (x: number | bigint) => show(x).padStart(width),
  });
  const widest = (texts: readonly string[]) => Math.max(1, ...texts.map((t) => t.length));
  if (!isFloat(dtype)) {
    const show = (x: number | bigint) => (dtype === 'bool' ? (x ? 'True' : 'False') : String(x));
    return padded(widest(values.map(show)), show);
  }
  const finite = (values as readonly number[]).filter((x) => Number.isFinite(x) && x !== 0);
  if (!finite.length)
    return padded(
      1,
      special((x) => `${x}.`),
    );
  const sizes = finite.map(Math.abs);
  const [most, least] = [Math.max(...sizes), Math.min(...sizes)];
  const whole = finite.every(Number.isInteger);
  const scientific = most / least > 1000 || most > 1e8 || (!whole && least < 1e-4);
  const show = special((x) => {
    if (scientific) return x.toExponential(DIGITS).replace(/e([+-])(\d)$/, 'e$10$2');
    return whole ? `${x.toFixed(0)}.` : x.toFixed(DIGITS);
  });
  return padded(widest(finite.map(show)), show);
}

const special =
  (show: (x: number) => string) =>
  (x: number | bigint): string => {
    const n = Number(x);
    if (Number.isNaN(n)) return 'nan';
    if (!Number.isFinite(n)) return n > 0 ? 'inf' : '-inf';
    return Object.is(n, -0) ? `-${show(0)}` : show(n);
  };

/** Indices of the elements shown of a shortened dimension. */
function visible(shape: Shape): number[] {
  return shape.reduce<number[]>(
    (offsets, n) => {
      const places =
        n > 2 * EDGE
          ? [...Array(EDGE).keys(), ...Array.from({ length: EDGE }, (_, i) => n - EDGE + i)]
          : [...Array(n).keys()];
      return offsets.flatMap((o) => places.map((p) => o * n + p));
    },
    [0],
  );
}

function block(
  shape: Shape,
  offset: number,
  indent: number,
  cut: boolean,
  show: (i: number) => string,
  width: number,
): string {
  const [n, ...rest] = shape;
  if (n === undefined) return show(offset);
  const places =
    cut && n > 2 * EDGE
      ? [...Array(EDGE).keys(), -1, ...Array.from({ length: EDGE }, (_, i) => n - EDGE + i)]
      : [...Array(n).keys()];
  if (!rest.length) {
    const texts = places.map((p) => (p < 0 ? ' ...' : show(offset + p)));
    const perLine = Math.max(1, Math.floor((LINE - indent) / (width + 2)));
    const lines = Array.from({ length: Math.ceil(texts.length / perLine) }, (_, i) =>
      texts.slice(i * perLine, (i + 1) * perLine).join(', '),
    );
    return `[${lines.join(`,\n${' '.repeat(indent + 1)}`)}]`;
  }
  const step = sizeOf(rest);
  const parts = places.map((p) => (p < 0 ? '...' : block(rest, offset + p * step, indent + 1, cut, show, width)));
  return `[${parts.join(`,${'\n'.repeat(rest.length)}${' '.repeat(indent + 1)}`)}]`;
}
