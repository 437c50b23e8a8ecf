// The protobuf messages of TensorBoard's event files: tensorflow/core/util/event.proto, framework/summary.proto, and the hparams
// plugin's api.proto.
import { message } from '../pjrt/proto.js';

const Image = message({
  height: [1, 'int'],
  width: [2, 'int'],
  colorspace: [3, 'int'], // channels: 3 is RGB, 4 RGBA
  encoded: [4, 'bytes'],
});
const Histogram = message({
  min: [1, 'double'],
  max: [2, 'double'],
  num: [3, 'double'],
  sum: [4, 'double'],
  sumSquares: [5, 'double'],
  bucketLimit: [6, ['double']],
  bucket: [7, ['double']],
});
const TensorProto = message({
  dtype: [1, 'int'],
  shape: [2, message({ dims: [2, [message({ size: [1, 'int'] })]] })],
  floats: [5, ['float']],
  doubles: [6, ['double']],
  strings: [8, ['bytes']],
});
/** DataType of types.proto. */
export const DATA_TYPE = { float: 1, double: 2, string: 7 } as const;

const Metadata = message({ plugin: [1, message({ name: [1, 'string'], content: [2, 'bytes'] })] });
const Value = message({
  tag: [1, 'string'],
  simpleValue: [2, 'float'],
  image: [4, Image],
  histogram: [5, Histogram],
  tensor: [8, TensorProto],
  metadata: [9, Metadata],
});
const Summary = message({ values: [1, [Value]] });

export const Event = message({
  wallTime: [1, 'double'],
  step: [2, 'int'],
  fileVersion: [3, 'string'],
  summary: [5, Summary],
  sessionLog: [7, message({ status: [1, 'int'] })],
  source: [10, message({ writer: [1, 'string'] })],
});
/** SessionLog.START: TensorBoard drops data of this step and later ones. */
export const SESSION_START = 1;

// ---- the hparams plugin

/** google.protobuf.Value */
const Any = message({ number: [2, 'double'], text: [3, 'string'], flag: [4, 'bool'] });
const HParam = message({
  name: [1, 'string'],
  type: [4, 'int'],
  discrete: [5, message({ values: [1, [Any]] })],
});
const Metric = message({ name: [1, message({ tag: [2, 'string'] })] });
export const HParamsData = message({
  experiment: [2, message({ hparams: [4, [HParam]], metrics: [5, [Metric]] })],
  start: [3, message({ hparams: [1, ['map', 'string', Any]] })],
  end: [4, message({ status: [1, 'int'] })],
});
export const HPARAM_TYPE = { string: 1, boolean: 2, number: 3 } as const;
export const STATUS_SUCCESS = 1;
