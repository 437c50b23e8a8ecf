// Which operations and options the committed selection of PyTorch's operator database compares with torch.
import { goldenPath } from '../support.js';
import { camel } from './call.js';
import { readGolden, titleOf } from './golden.js';
import { reasonFor } from './report.js';

/** By operation: the names of the options that its samples give. */
export function covered(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const entry of readGolden(goldenPath('opinfo.gz')).entries) {
    const cases = Object.values(entry.dtypes).flatMap((s) => s.cases);
    if (!cases.length || reasonFor(titleOf(entry), 'value') !== undefined) continue;
    const name = camel(entry.torch.split('.').at(-1)!);
    const options = found.get(name) ?? new Set<string>();
    found.set(name, options);
    for (const c of cases) for (const key of Object.keys(c.k ?? {})) options.add(camel(key));
  }
  return found;
}
