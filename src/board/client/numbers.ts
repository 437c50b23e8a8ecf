// Formats numbers for the page: readable digits, aligned in columns.
import { bytes, seconds } from '../../base/format.js';

export type Format = (value: number) => string;
/** Replaces spaces by non-breaking ones: "1.2 GiB". */
const unbroken = (text: string): string => text.replaceAll(' ', '\u00a0');

export const plain: Format = (x) => {
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-3)
    return x.toExponential(2).replace('e+', 'e').replace('-', '\u2212').replace('e-', 'e\u2212');
  if (size >= 1000) return Math.round(x).toLocaleString('en');
  return x.toPrecision(4).replace('-', '\u2212');
};
export const fixed =
  (digits: number): Format =>
  (x) =>
    Math.abs(x) >= 1e5 ? plain(x) : x.toFixed(digits);
export const count: Format = (x) => Math.round(x).toLocaleString('en');
export const memory: Format = (x) => unbroken(bytes(x));
export const time: Format = (x) => unbroken(seconds(x));
/** A duration: 3 min 20 s. */
export function span(s: number): string {
  const whole = Math.max(0, Math.round(s));
  const [days, hours, minutes] = [
    Math.floor(whole / 86_400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days) return unbroken(`${days} d ${hours} h`);
  if (hours) return unbroken(`${hours} h ${minutes} min`);
  return unbroken(minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`);
}
