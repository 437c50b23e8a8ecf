// `tsxla/tensorboard`: torch.utils.tensorboard's SummaryWriter. It writes curves, histograms, texts, images and hyperparameters to
// event files that TensorBoard reads. docs/profiling.md is the guide.
import os from 'node:os';
import path from 'node:path';
import { ArgumentError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { noticeOnce } from '../base/log.js';
import { describe } from '../base/tree.js';
import { offLoop } from '../observe/rules-loop.js';
import { encode } from '../pjrt/proto.js';
import { Tensor } from '../tensor/tensor.js';
import { EventFile, type EventInit } from './event-file.js';
import { type Bins, histogramOf } from './histogram.js';
import { pngOf } from './png.js';
import { DATA_TYPE, HPARAM_TYPE, HParamsData, STATUS_SUCCESS } from './proto.js';

export type { Bins } from './histogram.js';

type Value = NonNullable<NonNullable<EventInit['summary']>['values']>[number];
type Scalar = number | bigint | Tensor;
/** The value of a hyperparameter. */
export type HParam = number | string | boolean;

export interface SummaryWriterOptions {
  /** A suffix of the default folder's name. */
  readonly comment?: string;
  /** Removes events of this step and later ones from the folder, for a resumed run that writes them again. */
  readonly purgeStep?: number;
  /** A suffix of the file names. */
  readonly filenameSuffix?: string;
}
export interface EventOptions {
  /** Seconds since 1970. Default: now. */
  readonly walltime?: number;
}
export interface ScalarOptions extends EventOptions {
  /** Store the value as a tensor: of f64 with doublePrecision, else of f32. Default: a plain f32 value. */
  readonly newStyle?: boolean;
  readonly doublePrecision?: boolean;
}
export interface HistogramOptions extends EventOptions {
  /** The bins. Default: 'tensorflow', TensorBoard's own edges. */
  readonly bins?: Bins;
  readonly maxBins?: number;
}
export interface ImageOptions extends EventOptions {
  /** The meaning of the dimensions: 'CHW', 'HWC' or 'HW'. Default: 'CHW'. */
  readonly dataformats?: string;
}
export interface HParamsOptions {
  /** All possible values of hyperparameters, by name. */
  readonly hparamDomainDiscrete?: Readonly<Record<string, readonly HParam[]>>;
  /** The subfolder of this session in the writer's folder; '.' is the writer's folder. Default: the time. */
  readonly runName?: string;
  readonly globalStep?: number;
}

/** Python's `%b%d_%H-%M-%S`. */
function timeNow(): string {
  const now = new Date();
  const month = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')[now.getMonth()];
  const two = (n: number) => String(n).padStart(2, '0');
  return `${month}${two(now.getDate())}_${[now.getHours(), now.getMinutes(), now.getSeconds()].map(two).join('-')}`;
}

/**
 * Writes events for TensorBoard. Each event is in the file when the call returns, except that tensors are read in the background
 * and later events are written after them. flush() and close() wait, and throw errors of the background.
 */
export class SummaryWriter implements AsyncDisposable {
  readonly logDir: string;
  readonly #options: SummaryWriterOptions;
  /** Event files by their folders. */
  readonly #files = new Map<string, EventFile>();
  /** Events that wait for a tensor, and those after them. */
  #pending: Promise<void> | undefined;
  #waiting = 0;
  #failure: { readonly error: unknown } | undefined;

  /** Default folder: `runs/TIME_HOST`. */
  constructor(logDir?: string, options: SummaryWriterOptions = {}) {
    this.logDir = logDir || path.join('runs', `${timeNow()}_${os.hostname()}${options.comment ?? ''}`);
    this.#options = options;
    const { purgeStep } = options;
    if (purgeStep !== undefined && !(Number.isSafeInteger(purgeStep) && purgeStep >= 0))
      throw new ArgumentError(`SummaryWriter: purgeStep is ${purgeStep}: it must be a whole number, 0 or more`);
    this.#fileIn(this.logDir);
  }
  getLogdir(): string {
    return this.logDir;
  }

  addScalar(tag: string, scalarValue: Scalar, globalStep?: number, options: ScalarOptions = {}): void {
    const made = (x: number): Value => {
      if (!options.newStyle && !options.doublePrecision) return { tag, simpleValue: x };
      const tensor = options.doublePrecision
        ? { dtype: DATA_TYPE.double, doubles: [x] }
        : { dtype: DATA_TYPE.float, floats: [x] };
      return { tag, tensor, metadata: { plugin: { name: 'scalars' } } };
    };
    this.#add(this.logDir, globalStep, options, then(scalarOf('addScalar', tag, scalarValue), made));
  }

  /** Adds several curves to one chart. Each has a separate subfolder. */
  addScalars(
    mainTag: string,
    tagScalarDict: Readonly<Record<string, Scalar>>,
    globalStep?: number,
    options: EventOptions = {},
  ): void {
    for (const [tag, value] of Object.entries(tagScalarDict)) {
      const folder = path.join(this.logDir, `${mainTag.replaceAll('/', '_')}_${tag}`);
      const made = then(scalarOf('addScalars', `${mainTag}, ${tag}`, value), (x) => ({ tag: mainTag, simpleValue: x }));
      this.#add(folder, globalStep, options, made);
    }
  }

  addHistogram(
    tag: string,
    values: Tensor | ArrayLike<number>,
    globalStep?: number,
    options: HistogramOptions = {},
  ): void {
    const made = then(numbersOf('addHistogram', tag, values), (all): Value | undefined => {
      const finite = all.filter(Number.isFinite);
      if (finite.length < all.length) noticeOnce(`addHistogram: ${tag} has non-finite values: they are left out`);
      return finite.length ? { tag, histogram: histogramOf(finite, options.bins, options.maxBins) } : undefined;
    });
    this.#add(this.logDir, globalStep, options, made);
  }

  /** Adds text as Markdown. */
  addText(tag: string, textString: string, globalStep?: number, options: EventOptions = {}): void {
    const tensor = { dtype: DATA_TYPE.string, shape: { dims: [{ size: 1 }] }, strings: [Buffer.from(textString)] };
    const metadata = { plugin: { name: 'text' } };
    this.#add(this.logDir, globalStep, options, { tag: `${tag}/text_summary`, metadata, tensor });
  }

  /** Adds an image. u8 is 0 to 255, other dtypes are 0 to 1. One channel is grey, three are RGB, four RGBA. */
  addImage(tag: string, imgTensor: Tensor, globalStep?: number, options: ImageOptions = {}): void {
    this.#add(this.logDir, globalStep, options, imageOf(tag, imgTensor, options.dataformats ?? 'CHW'));
  }

  /** Adds the hyperparameters of a run and its results, for the HPARAMS table. */
  addHparams(
    hparamDict: Readonly<Record<string, HParam>>,
    metricDict: Readonly<Record<string, Scalar>>,
    options: HParamsOptions = {},
  ): void {
    const { runName = String(Date.now() / 1e3), globalStep, hparamDomainDiscrete = {} } = options;
    const folder = path.join(this.logDir, runName);
    for (const value of hparamValues(hparamDict, hparamDomainDiscrete, Object.keys(metricDict)))
      this.#add(folder, globalStep, {}, value);
    for (const [tag, value] of Object.entries(metricDict))
      this.#add(
        folder,
        globalStep,
        {},
        then(scalarOf('addHparams', tag, value), (x) => ({ tag, simpleValue: x })),
      );
  }

  /** Waits until all events are on the disk. */
  async flush(): Promise<void> {
    await this.#settled();
    for (const file of this.#files.values()) file.flush();
  }
  async close(): Promise<void> {
    await this.#settled();
    for (const file of this.#files.values()) file.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #fileIn(folder: string): EventFile {
    let file = this.#files.get(folder);
    if (!file) {
      const { purgeStep, filenameSuffix: suffix = '' } = this.#options;
      this.#files.set(folder, (file = new EventFile(folder, { purgeStep, suffix })));
    }
    return file;
  }
  #add(
    folder: string,
    step: number | undefined,
    { walltime: wallTime = Date.now() / 1e3 }: EventOptions,
    value: Value | undefined | Promise<Value | undefined>,
  ): void {
    if (step !== undefined && !Number.isSafeInteger(step))
      throw new ArgumentError(`SummaryWriter: the step is ${String(step)}: it must be a whole number`);
    const write = (v: Value | undefined) => {
      if (v) this.#fileIn(folder).add({ wallTime, step, summary: { values: [v] } });
    };
    if (!this.#pending && !(value instanceof Promise)) {
      write(value);
      return;
    }
    const before = this.#pending;
    const settled = Promise.resolve(value);
    settled.catch(() => {}); // it may reject while earlier ones are awaited; the rejection surfaces below
    this.#waiting++;
    this.#pending = (async () => {
      await before;
      try {
        write(await settled);
      } catch (error) {
        this.#failure ??= { error };
      }
      if (--this.#waiting === 0) this.#pending = undefined;
    })();
  }
  async #settled(): Promise<void> {
    while (this.#pending) await this.#pending;
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure) throw failure.error;
  }
}

const shown = (x: unknown): string => (x instanceof Tensor ? `${x.dtype}[${x.shape.join(', ')}]` : describe(x));

const then = <A, B>(value: A | Promise<A>, fn: (value: A) => B): B | Promise<B> =>
  value instanceof Promise ? value.then(fn) : fn(value);

function scalarOf(what: string, tag: string, value: Scalar): number | Promise<number> {
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
  if (value instanceof Tensor && value.numel() === 1) return offLoop(async () => Number(await value.item()));
  throw new ArgumentError(`${what}: ${tag} is ${shown(value)}: give a number, or a tensor with one element`);
}

function numbersOf(
  what: string,
  tag: string,
  values: Tensor | ArrayLike<number>,
): Float64Array | Promise<Float64Array> {
  if (values instanceof Tensor) {
    if (values.numel()) return offLoop(async () => Float64Array.from(await dataOf(values), Number));
  } else if (values?.length) return Float64Array.from(values, Number);
  throw new ArgumentError(`${what}: ${tag} is ${shown(values)}: give a non-empty tensor or list of numbers`);
}
const dataOf = async (t: Tensor): Promise<ArrayLike<number | bigint>> => {
  const { dtype } = t;
  return decodeFloats(dtype, await t.data());
};

function imageOf(tag: string, image: Tensor, dataformats: string): Promise<Value> {
  const format = dataformats.toUpperCase();
  const wrong = (what: string) => new ArgumentError(`addImage: ${tag}: ${what}`);
  if (!(image instanceof Tensor)) throw wrong(`the image is ${describe(image)}: give a tensor`);
  if (!/^(?=.*H)(?=.*W)(?:[HWC]{3}|[HW]{2})$/.test(format) || new Set(format).size !== format.length)
    throw wrong(`dataformats is '${dataformats}': it must be 'CHW', 'HWC' or 'HW', in any order`);
  if (image.shape.length !== format.length)
    throw wrong(`the image is ${shown(image)}, but dataformats '${format}' has ${format.length} letters`);
  const { shape, dtype } = image;
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const [[height, down], [width, right], [given, deeper]] = ['H', 'W', 'C'].map((letter) => {
    const i = format.indexOf(letter);
    return i < 0 ? [1, 0] : [shape[i]!, strides[i]!];
  }) as [[number, number], [number, number], [number, number]];
  const channels = given === 1 ? 3 : given;
  if (channels !== 3 && channels !== 4)
    throw wrong(`it has ${given} channels: it must have 1 (grey), 3 (RGB) or 4 (RGBA)`);
  const scale = dtype === 'u8' ? 1 : 255;
  return offLoop(async () => {
    const data = await dataOf(image);
    const pixels = new Uint8ClampedArray(height * width * channels);
    for (let y = 0, at = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        for (let c = 0; c < channels; c++)
          pixels[at++] = Math.trunc(Math.fround(Number(data[y * down + x * right + (c % given) * deeper]) * scale));
    const encoded = pngOf(new Uint8Array(pixels.buffer), width, height, channels);
    return { tag, image: { height, width, colorspace: channels, encoded } };
  });
}

const anyOf = (x: HParam) =>
  typeof x === 'number' ? { number: x } : typeof x === 'boolean' ? { flag: x } : { text: x };

/** The summaries that the hparams plugin reads: the experiment, the start of a session and its end. */
function hparamValues(
  given: Readonly<Record<string, HParam>>,
  domains: Readonly<Record<string, readonly HParam[]>>,
  metrics: readonly string[],
): Value[] {
  for (const [name, x] of Object.entries(given))
    if (!((typeof x) in HPARAM_TYPE))
      throw new ArgumentError(`addHparams: ${name} is ${describe(x)}: give a number, a string, true or false`);
  for (const [name, domain] of Object.entries(domains))
    if (!domain.every((x) => typeof x === typeof given[name]))
      throw new ArgumentError(
        `addHparams: hparamDomainDiscrete has ${name}: it must list values of its hyperparameter's type`,
      );
  const hparams = Object.entries(given).map(([name, x]) => ({
    name,
    type: HPARAM_TYPE[typeof x as keyof typeof HPARAM_TYPE],
    ...(domains[name] && { discrete: { values: domains[name].map(anyOf) } }),
  }));
  const experiment = { hparams, metrics: metrics.map((tag) => ({ name: { tag } })) };
  const start = { hparams: new Map(Object.entries(given).map(([name, x]) => [name, anyOf(x)])) };
  const parts = {
    experiment: { experiment },
    session_start_info: { start },
    session_end_info: { end: { status: STATUS_SUCCESS } },
  };
  return Object.entries(parts).map(([name, part]) => ({
    tag: `_hparams_/${name}`,
    metadata: { plugin: { name: 'hparams', content: encode(HParamsData, part) } },
  }));
}
