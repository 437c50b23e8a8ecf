// State dicts in torch's layout, so that a torch optimizer's file can be loaded, and ours by torch.
import { type DType, sizeOf, type TypedArray } from '../base/dtype.js';
import { StateDictError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { showShape } from '../base/shape.js';
import { isPlain } from '../base/tree.js';
import { fromBuffer } from '../tensor/create.js';
import { Tensor } from '../tensor/tensor.js';
import type { ParameterGroup } from './optimizer.js';
import { COMMON, type Rule } from './rule.js';

export interface OptimizerState {
  readonly state: Readonly<Record<string, Readonly<Record<string, Tensor>>>>;
  readonly param_groups: readonly Readonly<Record<string, unknown>>[];
}
/** A state dict as it may be given: objects or maps, tensors or arrays of files. */
export type GivenState = object;
type HostArray = { readonly dtype: DType; readonly shape: readonly number[]; readonly data: TypedArray };
export type Value = Tensor | HostArray;

/** torch's spelling of a name. */
export const spelled = (name: string): string => name.replace(/(?<=[a-z0-9])[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** What torch's groups have besides, for its own kernels and schedules. */
const TORCH_ONLY = new Set(
  ['params', 'param_names', 'foreach', 'fused', 'capturable', 'differentiable', 'decoupled_weight_decay'].concat([
    'initial_lr',
    'max_lr',
    'min_lr',
    'max_momentum',
    'base_momentum',
    'swa_lr',
  ]),
);

export function saveState<O extends object>(groups: readonly ParameterGroup<O>[]): OptimizerState {
  const state: Record<string, Record<string, Tensor>> = {};
  let number = 0;
  const param_groups = groups.map(({ params, names, options, step, state: own }) => {
    const numbers = params.map((_, i) => {
      const entries = Object.entries(own[i]!).map(([name, t]) => [spelled(name), t] as const);
      if (entries.length) state[number] = { step, ...Object.fromEntries(entries) };
      return number++;
    });
    const spelledOptions = Object.entries(options).map(([name, value]) => [spelled(name), value]);
    return { ...Object.fromEntries(spelledOptions), ...(names && { param_names: names }), params: numbers };
  });
  return { state, param_groups };
}

const recordOf = (x: unknown): Record<string, unknown> | undefined =>
  x instanceof Map ? Object.fromEntries(x) : isPlain(x) ? x : undefined;
const isArray = (x: unknown): x is HostArray => ArrayBuffer.isView((x as HostArray | null)?.data);
const isValue = (x: unknown): x is Value => x instanceof Tensor || isArray(x);

export function loadState<O extends object>(
  rule: Rule<O>,
  groups: readonly ParameterGroup<O>[],
  given: GivenState,
): void {
  const [missing, unexpected, misshapen]: [string[], string[], string[]] = [[], [], []];
  const texts: string[] = [];
  const wrong = (key: string, text: string) => {
    misshapen.push(key);
    texts.push(`${key}: ${text}`);
  };
  const changes: (() => void)[] = [];
  const top = recordOf(given) ?? {};
  const [states, saved] = [recordOf(top.state) ?? {}, top.param_groups];
  for (const key of ['state', 'param_groups']) if (!(key in top)) missing.push(key);
  const list = Array.isArray(saved) ? saved.map((g) => recordOf(g) ?? {}) : [];
  if (list.length !== groups.length)
    wrong('param_groups', `${list.length} groups in the state dict, ${groups.length} here`);

  const used = new Set<string>();
  groups.forEach((group, n) => {
    const from = list[n];
    if (!from) return;
    const at = `param_groups.${n}`;
    const numbers = Array.isArray(from.params) ? from.params.map(String) : [];
    for (const id of numbers) used.add(id);
    if (numbers.length !== group.params.length) {
      wrong(`${at}.params`, `${numbers.length} parameters in the state dict, ${group.params.length} here`);
      return;
    }
    const options: Record<string, unknown> = {};
    for (const [name, option] of Object.entries(rule.options) as [
      string,
      { fits(x: unknown): boolean; must: string },
    ][]) {
      const value = from[spelled(name)];
      const own = group.options[name as keyof O];
      if (value === undefined) {
        if (!(name in COMMON)) missing.push(`${at}.${spelled(name)}`);
      } else if (!option.fits(value)) wrong(`${at}.${spelled(name)}`, `${String(value)}: it must be ${option.must}`);
      else if (typeof value === 'boolean' && value !== own && name !== 'masterWeights')
        wrong(`${at}.${spelled(name)}`, `${value} in the state dict, ${own} here`);
      else if (typeof value !== 'boolean') options[name] = value;
    }
    const known = new Set(Object.keys(rule.options).map(spelled));
    unexpected.push(
      ...Object.keys(from)
        .filter((k) => !known.has(k) && !TORCH_ONLY.has(k))
        .map((k) => `${at}.${k}`),
    );

    const steps: unknown[] = [];
    numbers.forEach((id, i) => {
      const entries = recordOf(states[id]); // none: a parameter that never had a gradient
      const own = group.state[i]!;
      const names = new Map(Object.keys(own).map((name) => [spelled(name), name]));
      const isNew = !entries || Object.values(entries).every((x) => x === null || x === undefined);
      for (const [key, name] of names) {
        const t = own[name]!;
        const value = entries?.[key];
        const path = `state.${id}.${key}`;
        if (isNew || (value === undefined && name === 'master')) changes.push(() => t.zero_());
        else if (!isValue(value)) missing.push(path);
        else if (String(value.shape) !== String(t.shape) || (isArray(value) && value.data.length !== t.numel()))
          wrong(path, `${showShape(value.shape)} in the state dict, ${showShape(t.shape)} here`);
        else changes.push(() => put(t, value));
      }
      if (isNew) return;
      steps.push(entries!.step ?? 1); // torch's SGD does not count: that it has begun is all that matters
      const extra = Object.entries(entries!).filter(
        ([k, v]) => k !== 'step' && k !== 'master' && v !== null && !names.has(k),
      );
      unexpected.push(...extra.map(([k]) => `state.${id}.${k}`));
    });
    const counts = new Set(steps.map(numberOf));
    if (counts.size > 1 && !counts.has(undefined))
      wrong(
        `${at}: step`,
        `${[...counts].join(', ')}: the parameters of a group have one count: put those that began later in a group of their own`,
      );
    const [first] = steps;
    if (first instanceof Tensor && first.numel() === 1) changes.push(() => put(group.step, first));
    else changes.push(() => group.step.copy_(numberOf(first) ?? 0));
    changes.push(() => group.set(options));
  });
  unexpected.push(
    ...Object.keys(states)
      .filter((id) => list.length && !used.has(id))
      .map((id) => `state.${id}`),
  );

  refuse(rule.name, { missing, unexpected, misshapen }, texts);
  for (const change of changes) change();
}

/** Throws if anything does not fit, with all of it. */
function refuse(what: string, keys: StateDictError['keys'], texts: readonly string[]): void {
  const quoted = (names: readonly string[]) => names.map((n) => JSON.stringify(n)).join(', ');
  const lines = [
    ...(keys.missing.length ? [`Missing key(s) in state_dict: ${quoted(keys.missing)}.`] : []),
    ...(keys.unexpected.length ? [`Unexpected key(s) in state_dict: ${quoted(keys.unexpected)}.`] : []),
    ...texts,
  ];
  if (lines.length)
    throw new StateDictError(`Error(s) in loading state_dict for ${what}:\n\t${lines.join('\n\t')}`, keys);
}

/** Tensors by name take the values of a state dict that has the same names and shapes. */
export function loadTensors(what: string, own: ReadonlyMap<string, Tensor>, state: object): void {
  const given = recordOf(state) ?? {};
  const missing = [...own.keys()].filter((name) => !isValue(given[name]));
  const unexpected = Object.keys(given).filter((name) => !own.has(name));
  const other = [...own].filter(([name, t]) => isValue(given[name]) && String(given[name].shape) !== String(t.shape));
  const texts = other.map(([name, t]) => {
    const { shape } = given[name] as Value;
    return `size mismatch for ${name}: ${showShape(shape)} in the state dict, ${showShape(t.shape)} here`;
  });
  refuse(what, { missing, unexpected, misshapen: other.map(([name]) => name) }, texts);
  for (const [name, t] of own) put(t, given[name] as Value);
}

/** A count that the host knows. */
function numberOf(step: unknown): number | undefined {
  if (typeof step === 'number') return step;
  return isArray(step) && step.data.length === 1 ? Number(decodeFloats(step.dtype, step.data)[0]) : undefined;
}

/** The value of a state dict becomes the tensor's, in its own dtype. */
export function put(t: Tensor, value: Value): void {
  if (value === t) return;
  const from =
    value instanceof Tensor
      ? value.detach()
      : fromBuffer(value.data, { dtype: value.dtype, shape: [sizeOf(value.shape)] });
  t.copy_(from.reshape(t.shape).clone());
}
