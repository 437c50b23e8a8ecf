import type { Model } from './model.js';

export interface ReadModel extends Model {
  readonly weights: Readonly<Record<string, { readonly shape: number[]; readonly data: Float32Array }>>;
  readonly ids: Int32Array;
  readonly targets: Int32Array;
}
export function readModel(folder?: string): ReadModel;
export function takeTurns(name: string, step: () => number | Promise<number>): Promise<void>;
