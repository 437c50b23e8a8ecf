// A curve between -1 and 1, drawn with characters.
export function plot(values: Float32Array, width = 64, height = 11): string {
  const grid = Array.from({ length: height }, () => Array<string>(width).fill(' '));
  for (let column = 0; column < width; column++) {
    const value = values[Math.round((column / (width - 1)) * (values.length - 1))]!;
    const row = Math.round(((1 - value) / 2) * (height - 1));
    grid[Math.min(height - 1, Math.max(0, row))]![column] = '*';
  }
  return grid.map((line) => `  ${line.join('').trimEnd()}`).join('\n');
}
