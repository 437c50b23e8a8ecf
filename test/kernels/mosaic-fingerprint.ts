// A normal form of Mosaic modules, to compare ours with Pallas's: operations, types, attributes and memory spaces, with values
// numbered in the order of their definition, constants at their uses, and dead operations left out.

interface Op {
  readonly name: string;
  readonly operands: readonly string[];
  readonly results: readonly string[];
  readonly attributes: string;
  readonly types: string;
  readonly regions: readonly Block[];
}
interface Block {
  readonly params: readonly { readonly id: string; readonly type: string }[];
  readonly body: Op[];
}

/** Parts of a list, at commas that are in no bracket. */
function split(list: string): string[] {
  const parts: string[] = [];
  let [depth, last] = [0, 0];
  for (let i = 0; i < list.length; i++) {
    const c = list[i]!;
    if ('<([{'.includes(c)) depth++;
    else if (')]}'.includes(c) || (c === '>' && list[i - 1] !== '-')) depth--;
    else if (c === ',' && !depth) {
      parts.push(list.slice(last, i).trim());
      last = i + 1;
    }
  }
  const rest = list.slice(last).trim();
  return rest ? [...parts, rest] : parts;
}

const numbers = (text: string): string =>
  text.replace(/-?\d+\.\d+(?:e[+-]?\d+)?/g, (n) => String(Math.fround(Number(n))));

/** `a = 1, b = 2` sorted by name, and so inside of dictionaries. */
function sorted(attributes: string): string {
  const one = (text: string): string => {
    const at = text.indexOf(' = ');
    return at < 0 ? text : `${text.slice(0, at)} = ${value(text.slice(at + 3))}`;
  };
  const value = (text: string): string => {
    if (text.startsWith('{')) return `{${sorted(text.slice(1, -1))}}`;
    if (text.startsWith('[')) return `[${split(text.slice(1, -1)).map(value).join(', ')}]`;
    return numbers(text);
  };
  return split(attributes).map(one).sort().join(', ');
}

const OP = /^(?:(%\d+)(?::(\d+))? = )?"([\w.]+)"\(([^)]*)\)\s*(.*)$/;

function parse(text: string): Op[] {
  const lines = text.split('\n').map((l) => l.trim());
  let i = 0;
  // Two regions may have values of one name.
  let scope = new Map<string, string>();
  let count = 0;
  const define = (id: string): string => {
    scope.set(id, `%${count++}`);
    return scope.get(id)!;
  };
  const block = (): Block => {
    const outer = scope;
    scope = new Map(outer);
    try {
      return inner();
    } finally {
      scope = outer;
    }
  };
  const inner = (): Block => {
    const params: { id: string; type: string }[] = [];
    const head = lines[i]!.match(/^\^bb0\((.*)\):$/);
    if (head) {
      i++;
      for (const p of split(head[1]!))
        params.push({ id: define(p.slice(0, p.indexOf(':'))), type: p.slice(p.indexOf(':') + 2) });
    }
    return { params, body: ops() };
  };
  const ops = (): Op[] => {
    const found: Op[] = [];
    for (; i < lines.length && !lines[i]!.startsWith('}'); i++) {
      const m = lines[i]!.match(OP);
      if (!m) continue;
      const [, id, many, name, operands, rest] = m as unknown as [string, string?, string?, string?, string?, string?];
      const given = split(operands!).map((x) => scope.get(x)!);
      const regions: Block[] = [];
      let tail = rest!;
      if (tail === '({') {
        do {
          i++;
          regions.push(block());
        } while (lines[i] === '}, {');
        tail = lines[i]!.replace(/^\}\)\s*/, '');
      }
      const at = tail.lastIndexOf(' : (') < 0 ? tail.indexOf(': (') : tail.lastIndexOf(' : (') + 1;
      const attributes = tail.slice(0, at).trim();
      const ids = !id ? [] : many ? Array.from({ length: Number(many) }, (_, k) => `${id}#${k}`) : [id];
      found.push({
        name: name!.replace('stable_mosaic.', ''),
        operands: given,
        results: ids.map(define),
        attributes: sorted(attributes.slice(1, -1)),
        types: tail.slice(at + 1).trim(),
        regions,
      });
    }
    return found;
  };
  const start = lines.findIndex((l) => l.includes('func.func'));
  i = start;
  return ops();
}

/** `(a) -> a` */
const isNothing = (types: string): boolean => {
  const [from, to] = types.split(' -> ');
  return from === `(${to})`;
};

/** Those that do something. All others depend on their operands alone. */
const EFFECTS = new Set(['vector.load', 'tpu.vector_store', 'scf.if', 'scf.for', 'scf.yield', 'func.return']);

function written(f: Op): string[] {
  const lines: string[] = [];
  const names = new Map<string, string>();
  const made = new Map<string, Op>();
  let count = 0;
  const used = new Set<string>();
  const mark = (body: readonly Op[]): void => {
    for (const op of [...body].reverse()) {
      const wanted = op.name !== 'vector.load' && EFFECTS.has(op.name);
      if (!wanted && !op.results.some((r) => used.has(r))) continue;
      for (const r of [...op.regions].reverse()) mark(r.body);
      for (const x of op.operands) used.add(x);
    }
  };
  mark(f.regions[0]!.body);
  const write = (block: Block, indent: string, known: ReadonlyMap<string, string>): void => {
    const here = new Map(known);
    for (const p of block.params) {
      names.set(p.id, `%${count++}`);
      lines.push(`${indent}${names.get(p.id)}: ${p.type}`);
    }
    for (const op of block.body) {
      for (const r of op.results) made.set(r, op);
      const wanted = op.name !== 'vector.load' && EFFECTS.has(op.name);
      if (!wanted && !op.results.some((r) => used.has(r))) continue;
      if (op.name === 'arith.constant') {
        names.set(op.results[0]!, op.attributes.replace('value = ', ''));
        continue;
      }
      const operands = op.operands.map((x) => names.get(x)!);
      // JAX makes an i32 of a condition, and asks whether it is not 0.
      const inner = made.get(op.operands[0]!);
      if (
        op.name === 'arith.cmpi' &&
        inner?.name === 'arith.extui' &&
        operands[1] === '0 : i32' &&
        op.attributes.includes('predicate = 1 ')
      ) {
        names.set(op.results[0]!, names.get(inner.operands[0]!)!);
        continue;
      }
      if (op.name === 'vector.shape_cast' && isNothing(op.types)) {
        names.set(op.results[0]!, operands[0]!);
        continue;
      }
      const said = `${op.name}(${operands.join(', ')})${op.attributes && ` {${op.attributes}}`} ${op.types}`;
      const same = !EFFECTS.has(op.name) && here.get(said);
      if (same) {
        names.set(op.results[0]!, same);
        continue;
      }
      op.results.forEach((r) => names.set(r, `%${count++}`));
      if (op.results[0]) here.set(said, names.get(op.results[0])!);
      lines.push(`${indent}${op.results.length ? `${op.results.map((r) => names.get(r)).join(', ')} = ` : ''}${said}`);
      for (const r of op.regions) {
        lines.push(`${indent}do`);
        write(r, `${indent}  `, here);
      }
    }
  };
  write(f.regions[0]!, '  ', new Map());
  // A condition that was only made into an i32 to be asked for is unused now.
  const text = lines.filter((l) => {
    const m = l.match(/^\s*(%\d+) = arith\.extui\(/);
    return !m || lines.some((other) => other !== l && new RegExp(`${m[1]}(?!\\d)`).test(other));
  });
  return [f.attributes, ...text];
}

/** Numbers of values, in the order in which they are left. */
export function renumbered(lines: readonly string[]): string[] {
  const names = new Map<string, string>();
  return lines.map((l) =>
    l.replace(/%\d+/g, (n) => {
      if (!names.has(n)) names.set(n, `%${names.size}`);
      return names.get(n)!;
    }),
  );
}

export function fingerprint(module: string): string {
  return parse(module)
    .map((f) => renumbered(written(f)).join('\n'))
    .join('\n\n');
}
