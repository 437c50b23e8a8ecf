// Optimizer state dicts in torch's layout, so that files can be exchanged with torch in both directions.
import { isHostArray } from '../base/dtype.js';
import { decodeFloats } from '../base/float.js';
import { spelled } from '../base/format.js';
import { isPlain } from '../base/tree.js';
import { isStateValue, refuse, setTensor, sizeMismatch } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import type { ParameterGroup } from './optimizer.js';
import { COMMON, type Option, type Rule } from './rule.js';

type Setting = Tensor | number | string | boolean | null | readonly number[] | readonly string[];
/** A type, not an interface, so that it is a TorchTree: `writeTorch(path, { optimizer: optimizer.stateDict() })`. */
export type OptimizerState = {
  readonly state: Readonly<Record<string, Readonly<Record<string, Tensor>>>>;
  readonly param_groups: readonly Readonly<Record<string, Setting>>[];
};
/** An accepted state dict: objects or maps, with tensors or arrays of files. */
export type GivenState = object;

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
  const param_groups = groups.map(({ params, names, options, step, shared, state: own }) => {
    const numbers = params.map((_, i) => {
      const entries = Object.entries({ ...own[i]!, ...shared }).map(([name, t]) => [spelled(name), t] as const);
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

export function loadState<O extends object>(
  rule: Rule<O>,
  groups: readonly ParameterGroup<O>[],
  given: GivenState,
): void {
  const [missing, unexpected, misfits]: [string[], string[], [string, string][]] = [[], [], []];
  const wrong = (key: string, text: string) => misfits.push([key, `${key}: ${text}`]);
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
    const given = Array.isArray(from.params) ? from.params.map(String) : [];
    const theirs = Array.isArray(from.param_names) ? from.param_names.map(String) : undefined;
    const byName = group.names && theirs && theirs.length === given.length;
    if (byName && String([...theirs].sort()) !== String([...group.names].sort())) {
      const other = theirs.find((name) => !group.names!.includes(name)) ?? theirs[0];
      wrong(`${at}.param_names`, `${other} in the state dict, not here`);
      return;
    }
    const numbers = byName ? group.names.map((name) => given[theirs.indexOf(name)]!) : given;
    for (const id of numbers) used.add(id);
    if (numbers.length !== group.params.length) {
      wrong(`${at}.params`, `${numbers.length} parameters in the state dict, ${group.params.length} here`);
      return;
    }
    const options: Record<string, unknown> = {};
    for (const [name, option] of Object.entries(rule.options) as [string, Option<unknown>][]) {
      const value = from[spelled(name)];
      const own = group.options[name as keyof O];
      if (option.ignored) continue;
      if (value === undefined) {
        if (!(name in COMMON) && name !== 'decoupledWeightDecay') missing.push(`${at}.${spelled(name)}`);
      } else if (!option.fits(value)) wrong(`${at}.${spelled(name)}`, `${String(value)}: it must be ${option.must}`);
      else if (option.fixed) {
        if (value !== own && name !== 'masterWeights')
          wrong(`${at}.${spelled(name)}`, `${value} in the state dict, ${own} here`);
      } else options[name] = value;
    }
    const known = new Set(Object.keys(rule.options).map(spelled));
    unexpected.push(
      ...Object.keys(from)
        .filter((k) => !known.has(k) && !TORCH_ONLY.has(k))
        .map((k) => `${at}.${k}`),
    );

    group.grow({ ...group.options, ...options }); // a momentum that was 0 here
    const steps: unknown[] = [];
    const initial = rule.initial?.(group.options) ?? {};
    numbers.forEach((id, i) => {
      const entries = recordOf(states[id]); // none: a parameter that never had a gradient
      const own = { ...group.state[i]!, ...group.shared };
      const names = new Map(Object.keys(own).map((name) => [spelled(name), name]));
      const isNew = !entries || Object.values(entries).every((x) => x === null || x === undefined);
      for (const [key, name] of names) {
        const t = own[name]!;
        const value = entries?.[key];
        const path = `state.${id}.${key}`;
        if (isNew || (value === undefined && name === 'master')) changes.push(() => t.fill_(initial[name] ?? 0));
        else if (!isStateValue(value)) missing.push(path);
        else if (String(value.shape) !== String(t.shape))
          misfits.push([path, sizeMismatch(path, value.shape, t.shape)]);
        else if (isHostArray(value) && value.data.length !== t.numel())
          wrong(path, `${value.data.length} elements in the state dict, ${t.numel()} here`);
        else changes.push(() => setTensor(t, value));
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
        `${[...counts].join(', ')}: the parameters of a group share one count: put those with another count in a separate group`,
      );
    const [first] = steps;
    if (first instanceof Tensor && first.numel() === 1) changes.push(() => setTensor(group.step, first.reshape([])));
    else changes.push(() => group.step.copy_(numberOf(first) ?? 0));
    changes.push(() => group.set(options));
  });
  unexpected.push(
    ...Object.keys(states)
      .filter((id) => list.length && !used.has(id))
      .map((id) => `state.${id}`),
  );

  refuse(rule.name, { missing, unexpected }, misfits);
  for (const change of changes) change();
}

/** A count as a number. */
function numberOf(step: unknown): number | undefined {
  if (typeof step === 'number') return step;
  return isHostArray(step) && step.data.length === 1 ? Number(decodeFloats(step.dtype, step.data)[0]) : undefined;
}
