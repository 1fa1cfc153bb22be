// As in index.mjs: one build for both module systems.
import prometheus from './dist/prometheus.js';

export const { Collector } = prometheus;
