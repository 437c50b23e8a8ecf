// `tsxla/board`: shows runs as a live page or as reports, and writes the log of a training loop for them.
export {
  RunLog,
  type RunMark,
  type RunSample,
  type RunStart,
  type RunStatus,
  type RunTable,
} from '../observe/run-log.js';
export { type Bar, type BarsOptions, bars } from './bars.js';
export { type ChartOptions, type Curve, chart, chartRuns, Picture, type RunChartOptions } from './chart.js';
export { type ReportOptions, writeReport } from './report.js';
export { type Board, type BoardOptions, serveBoard } from './server.js';
