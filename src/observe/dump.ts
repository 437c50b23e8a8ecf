// Dumps graphs as text: XLA_SAVE_TENSORS_FILE, in PyTorch/XLA's format, so that its tools (scripts/grab_graphs.py) can read the
// files.
import { DTYPES } from '../base/dtype.js';
import { env, envFlag, envInteger } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { appendTo } from '../base/log.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { type Graph, hashOf } from '../ir/graph.js';
import type { Source } from '../ir/source.js';
import { Body } from '../ops/prim/body.js';
import { primitive } from '../pjrt/hlo-proto.js';
import type { Executable } from '../pjrt/index.js';
import type { Computation, Program, Request } from '../runtime/program.js';

/** f32[2,3]{1,0}, in XLA's notation: the last dimension is the innermost. */
function shapeOf({ dtype, shape }: Aval): string {
  const layout = shape.length ? `{${shape.map((_, d) => shape.length - 1 - d)}}` : '';
  return `${primitive(DTYPES[dtype].hlo)}[${shape}]${layout}`;
}
const typeOf = (e: Expr): string => (e.avals ? `(${e.avals.map(shapeOf).join(', ')})` : shapeOf(e.aval));

/** One node, prepared for a line of text or a box of a drawing. */
interface Entry {
  readonly id: number;
  readonly op: string;
  readonly type: string;
  readonly inputs: readonly number[];
  readonly tags: readonly (readonly [name: string, value: unknown])[];
}
type Listed = Pick<Computation, 'graph'> & Partial<Pick<Computation, 'parameters' | 'labels' | 'aliases'>>;

function entriesOf({ graph, parameters = [], labels, aliases = [] }: Listed): Entry[] {
  const names = labels?.() ?? [];
  const place = new Map(parameters.map((p, i) => [p, i]));
  const results = new Map<Expr, [string, number][]>();
  graph.roots.forEach((root, i) => results.set(root, [...(results.get(root) ?? []), ['ROOT', i]]));
  return graph.nodes.map((e, id) => {
    const given = place.get(e);
    const roots = results.get(e) ?? [];
    const head = { id, type: typeOf(e), inputs: given === undefined ? e.inputs.map((x) => graph.index.get(x)!) : [] };
    if (given === undefined)
      return { ...head, op: nameOf(e), tags: [...locationOf(e.source), ...attributesOf(e), ...roots] };
    const [label, alias] = [names[given], aliases[given] ?? -1];
    const about = [...(label ? [['label', label] as const] : []), ...(alias >= 0 ? [['alias', alias] as const] : [])];
    return { ...head, op: 'xla::device_data', tags: [...about, ...roots] };
  });
}
const nameOf = (e: Expr): string => (e.op.name === 'constant' ? 'prim::Constant' : `xla::${e.op.name}`);
const attributesOf = ({ attrs }: Expr): [string, unknown][] =>
  Object.entries((attrs ?? {}) as object).filter(([, value]) => !(value instanceof Aval));

/** With XLA_IR_DEBUG: forward@model.ts:39. */
function locationOf(source: Source | undefined): [string, string][] {
  const [frame] = (envFlag('XLA_IR_DEBUG') && source?.frames) || [];
  return frame ? [['location', `${frame.function}@${frame.file.replace(/.*[/\\]/, '')}:${frame.line}`]] : [];
}

// ---- as text

/** `IR {`, a line for each operation, `}`. Operation 8 of an explanation is %7. */
export const graphListing = (computation: Listed): string => listing(computation, '');

function listing(computation: Listed, indent: string): string {
  const lines = entriesOf(computation).map(({ id, type, op, inputs, tags }) => {
    const text = tags.map(([name, value]) => `, ${name}=${valueText(value, `${indent}  `)}`).join('');
    return `${indent}  %${id} = ${type} ${op}(${inputs.map((i) => `%${i}`).join(', ')})${text}\n`;
  });
  return `IR {\n${lines.join('')}${indent}}${indent ? '' : '\n'}`;
}
function valueText(value: unknown, indent: string): string {
  if (value instanceof Body) return listing(value, indent);
  if (Array.isArray(value)) return `(${value.map((v) => valueText(v, indent)).join(', ')})`;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

// ---- as a drawing

const MOST_OF_A_VALUE = 64;

/** The graph for Graphviz: a box for each operation, an arrow from each input. */
export function graphDot(computation: Listed): string {
  const entries = entriesOf(computation);
  const quoted = (lines: readonly string[]) => `"${lines.map((l) => l.replace(/["\\]/g, '\\$&')).join('\\n')}"`;
  const boxes = entries.map(({ id, op, type, tags }) => {
    const about = tags.map(([name, value]) => {
      const text = value instanceof Body ? `${value.graph.nodes.length} operations` : valueText(value, '');
      return `${name}=${text.length < MOST_OF_A_VALUE ? text : `${text.slice(0, MOST_OF_A_VALUE)}...`}`;
    });
    return `  node${id} [label=${quoted([op, type, ...about])}]\n`;
  });
  const arrows = entries
    .toReversed()
    .flatMap(({ id, inputs }) =>
      inputs.map((from, i) => `  node${from} -> node${id}${inputs.length > 1 ? ` [label="i=${i}"]` : ''}\n`),
    );
  return `digraph G {\n${[...boxes, ...arrows].join('')}}\n`;
}

// ---- XLA_SAVE_TENSORS_FILE

const FORMATS = ['text', 'dot', 'hlo', 'stablehlo'] as const;
function formatWanted(): (typeof FORMATS)[number] {
  const name = env('XLA_SAVE_TENSORS_FMT') ?? 'text';
  const format = FORMATS.find((f) => f === name);
  if (format) return format;
  throw new ArgumentError(`XLA_SAVE_TENSORS_FMT=${name} is not a format: use one of ${FORMATS.join(', ')}`);
}

/** The dump of each program, while XLA_SAVE_TENSORS_FILE is set. */
const dumps = new WeakMap<Program, GraphDump>();

/** Writes before a compile, so that a graph on which the compiler fails is in the file. */
export function dumpCompiling(program: Program, computation: Computation, stablehlo: string, request: Request): void {
  if (!env('XLA_SAVE_TENSORS_FILE')) return;
  let dump = dumps.get(program);
  if (!dump) dumps.set(program, (dump = new GraphDump(computation, stablehlo, program.hash)));
  dump.save(request);
}
/** Writes the HLO once it is compiled, if that is the format. */
export const dumpCompiled = (program: Program, executable: Executable, request: Request): Promise<void> | undefined =>
  dumps.get(program)?.compiled(executable, request);
/** Writes before a run, except for the first one, which was written for the compile. */
export function dumpRunning(program: Program, request: Request): void {
  if (program.executions) dumps.get(program)?.save(request);
}

/** The text that is written each time a program is compiled or run. */
class GraphDump {
  readonly #rootHashes: string;
  readonly #hash: string;
  /** HLO is known only when the program is compiled. */
  #graph: string | undefined;

  constructor(computation: Computation, stablehlo: string, hash: string) {
    const format = formatWanted();
    this.#hash = hash;
    this.#rootHashes = rootHashes(computation.graph, computation.isGiven).join(', ');
    if (format !== 'hlo')
      this.#graph = { text: graphListing, dot: graphDot, stablehlo: () => stablehlo }[format](computation);
  }

  save({ name, source }: Request): void {
    const file = env('XLA_SAVE_TENSORS_FILE');
    if (!file || this.#graph === undefined) return;
    const frames = source?.frames.map((f) => `  ${f.function} (${f.file}:${f.line})\n`) ?? [];
    const head = `${name ? `Graph Name: ${name}\n` : ''}TensorsGraphInfo:\n${frames.join('')}`;
    const rank = envInteger('PJRT_LOCAL_PROCESS_RANK', 0);
    appendTo(
      'XLA_SAVE_TENSORS_FILE',
      rank ? `${file}.${rank}` : file,
      `[ScheduleSyncTensorsGraph]\n${head}\nRoot Hashes: (${this.#rootHashes})\n\n` +
        `## BEGIN_GRAPH\n${this.#graph}\nGraph Hash: ${this.#hash}\n\n## END_GRAPH\n\n`,
    );
  }

  async compiled(executable: Executable, request: Request): Promise<void> {
    if (this.#graph !== undefined) return;
    this.#graph = await executable.optimizedHlo();
    this.save(request);
  }
}

/** A hash for each result, of all operations it depends on. */
function rootHashes({ nodes, roots }: Graph, isGiven: (e: Expr) => boolean): string[] {
  const hashes = new Map<Expr, string>();
  const words = (hash: string) => [hash.slice(0, 8), hash.slice(8)].map((half) => Number.parseInt(half, 16) | 0);
  for (const e of nodes) {
    const own = isGiven(e) ? [-1, e.aval.id] : [e.signature.id, ...e.inputs.flatMap((x) => words(hashes.get(x)!))];
    hashes.set(e, hashOf(Int32Array.from(own)));
  }
  return roots.map((root) => hashes.get(root)!);
}
