// Formats quantities and names for messages.
const scaled = (n: number, step: number, units: readonly string[]): string => {
  let i = 0;
  while (Math.abs(n) >= step && i < units.length - 1) {
    n /= step;
    i++;
  }
  return `${i && Math.abs(n) < 100 ? n.toPrecision(3) : Math.round(n)} ${units[i]}`.trim();
};

/** 1536 is "1.50 KiB". */
export const bytes = (n: number): string => scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
/** "500MB" is 5e8, "2GiB" is 2 ** 31, "1000" is 1000; undefined if the text is not a size. */
export function parseBytes(text: string): number | undefined {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(i?)B)?\s*$/i.exec(text);
  if (!found) return undefined;
  const [, n, prefix = '', binary] = found;
  return Math.floor(Number(n) * (binary ? 1024 : 1000) ** ' KMGT'.indexOf(prefix.toUpperCase() || ' '));
}
/** 2.1e9 is "2.10 GFLOP". */
export const flops = (n: number): string => scaled(n, 1000, ['FLOP', 'KFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP']);
/** 0.00123 is "1.23 ms". */
export const seconds = (s: number): string =>
  s >= 100
    ? `${Math.round(s)} s`
    : s >= 1
      ? `${s.toPrecision(3)} s`
      : s >= 1e-3
        ? `${(s * 1e3).toPrecision(3)} ms`
        : `${(s * 1e6).toPrecision(3)} us`;
/** Remaining time, rounded up: 7500 is "2 h 5 min", 0.2 is "1 s". */
export function timeLeft(s: number): string {
  const [whole, minutes] = [Math.ceil(s), Math.ceil(s / 60)];
  if (whole < 100) return `${whole} s`;
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
const TIME_PARTS = [
  ['d', 86_400e9, 2],
  ['h', 3_600e9, 2],
  ['m', 60e9, 2],
  ['s', 1e9, 2],
  ['ms', 1e6, 3],
] as const;

/** Nanoseconds in PyTorch/XLA's format: 369401746001 is "06m09s401ms746.001us". */
export function duration(ns: number): string {
  let rest = Math.round(ns); // rounded first, so that parts do not round separately
  let text = '';
  for (const [unit, size, width] of TIME_PARTS) {
    if (!text && rest < size) continue;
    text += `${Math.floor(rest / size)}`.padStart(width, '0') + unit;
    rest %= size;
  }
  return `${text}${(rest / 1e3).toFixed(3).padStart(7, '0')}us`;
}
/** plural(2, 'device') is "2 devices". */
export const plural = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`;

/** Rows of cells as text with aligned columns. */
export function columns(rows: readonly (readonly string[])[], indent = '  '): string {
  const widths = rows.reduce<number[]>((w, row) => row.map((cell, i) => Math.max(w[i] ?? 0, cell.length)), []);
  return rows
    .map(
      (row) =>
        indent +
        row
          .map((cell, i) => cell.padEnd(widths[i]!))
          .join('  ')
          .trimEnd(),
    )
    .join('\n');
}

/** torch's spelling of a name: qProj is q_proj. */
export const spelled = (name: string): string => name.replace(/(?<=[a-z0-9])[A-Z]/g, (c) => `_${c.toLowerCase()}`);
