// tx.metrics: what the runtime did, counted and timed. docs/metrics.md is the guide.
export {
  clearAll,
  clearCounters,
  clearMetrics,
  counter,
  counterNames,
  executedFallbackOps,
  type MetricData,
  metricData,
  metricNames,
  type Sample,
} from './observe/metrics.js';
export { report, type ShortReportOptions, shortReport } from './observe/report.js';
